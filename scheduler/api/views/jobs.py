"""/v1/jobs: what to do."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput, NotFound
from croniq_site.kernel.suggestions import did_you_mean
from runners.api.parameters import name_in_path, text_of
from runners.api.views import ApiView
from runners.services.audit import Actor
from scheduler.api import openapi, schema, wire
from scheduler.api.paging import list_answer
from scheduler.models import Job
from scheduler.queries.jobs import job_list, job_of_key, job_states, keys_around
from scheduler.queries.runners import lacking_capabilities
from scheduler.services import jobs as job_services

_READ_ONLY = ("paused_at", "paused_until", "paused_reason", "created_at", "updated_at")
_TAG = openapi.query("tag", says="Only jobs with this tag.")


def actor_of(view: ApiView) -> Actor:
    return Actor(view.principal.actor_type, view.principal.name)


def job_in_path(view: ApiView, job_key: str) -> Job:
    """Return the job of a path; another tenant's is as good as none."""
    job = job_of_key(name_in_path(job_key, "job"), view.principal.tenant)
    if job is None:
        raise no_such_job(view, job_key)
    return job


def no_such_job(view: ApiView, job_key: str) -> NotFound:
    """The refusal of a key that is none, with the one that may be meant among those that the caller may read."""
    may_read = view.principal.has("jobs:read")
    return NotFound(f"There is no job {job_key!r}.{_meant(view, job_key) if may_read else ''}")


def _meant(view: ApiView, job_key: str) -> str:
    return did_you_mean(job_key, keys_around(job_key, view.principal.tenant))


class Jobs(ApiView):
    required_scope = {"GET": "jobs:read", "POST": "jobs:write"}

    @openapi.documented(
        "listJobs",
        "The jobs, by key.",
        {200: openapi.listed(schema.JobAnswer)},
        parameters=[_TAG, *openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        tag = text_of(request, "tag")
        return list_answer(
            request,
            lambda limit, after: job_list(
                tenant=self.principal.tenant, tag=tag, limit=limit, after=after[0] if after else ""
            ),
            body=wire.job_body,
            key=lambda job: (job.job_key,),
            key_parts=(str,),
        )

    @openapi.documented(
        "saveJob",
        "Create a job, or change the one with this key, of which stays what is missing: 201 or 200.",
        {200: schema.SavedJobAnswer, 201: schema.SavedJobAnswer},
        body=schema.JobBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request) -> Response:
        job, created = job_services.save_job(self.body, self.now, actor_of(self), principal=self.principal, keeps=True)
        return Response(wire.saved_job_body(job, lacking_capabilities(job, self.now)), status=201 if created else 200)


class OneJob(ApiView):
    required_scope = {"GET": "jobs:read", "PUT": "jobs:write", "DELETE": "jobs:write"}

    @openapi.documented("getJob", "One job.", {200: schema.JobAnswer}, refuses=(404,))
    def get(self, request: Request, job_key: str) -> Response:
        return Response(wire.job_body(job_in_path(self, job_key)))

    @openapi.documented(
        "updateJob",
        "Change a job: what is missing stays, null is the default again.",
        {200: schema.SavedJobAnswer},
        body=schema.JobBody,
        refuses=(400, 404, 409, 413),
    )
    def put(self, request: Request, job_key: str) -> Response:
        job = job_in_path(self, job_key)
        fields = without_unchanged(self.body, wire.job_body(job), _READ_ONLY)
        if fields.setdefault("job_key", job_key) != job_key:
            raise InvalidInput.of("job_key", "A job keeps its key. Create another job and delete this one.")
        job, _ = job_services.save_job(fields, self.now, actor_of(self), principal=self.principal, partial=True)
        return Response(wire.saved_job_body(job, lacking_capabilities(job, self.now)))

    @openapi.documented(
        "deleteJob", "Delete a job: its history stays, what it has planned goes.", {204: None}, refuses=(404, 409)
    )
    def delete(self, request: Request, job_key: str) -> Response:
        job_services.delete_job(name_in_path(job_key, "job"), self.now, actor_of(self), self.principal)
        return Response(status=204)


def without_unchanged(body: dict, current: dict, names: tuple[str, ...]) -> dict:
    """Leave out what nobody can set, where it says what is so anyway: what was read may be written back."""
    return {name: value for name, value in body.items() if not (name in names and value == current[name])}


class Activate(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented("activateJob", "Let a job's triggers fire again.", {200: schema.JobAnswer}, refuses=(404, 409))
    def post(self, request: Request, job_key: str) -> Response:
        job = job_services.activate(job_in_path(self, job_key).job_key, self.now, actor_of(self), self.principal)
        return Response(wire.job_body(job))


class Deactivate(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "deactivateJob", "Let none of a job's triggers fire.", {200: schema.JobAnswer}, refuses=(404, 409)
    )
    def post(self, request: Request, job_key: str) -> Response:
        job = job_services.deactivate(job_in_path(self, job_key).job_key, self.now, actor_of(self), self.principal)
        return Response(wire.job_body(job))


class JobStates(ApiView):
    required_scope = {"GET": "jobs:read"}

    @openapi.documented(
        "listJobStates",
        "How each job stands: its next fire, its last, whether it is overdue.",
        {200: openapi.listed(schema.JobStateAnswer)},
        parameters=[_TAG, *openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        tag = text_of(request, "tag")

        def states(limit: int, after: tuple | None) -> list:
            jobs = job_list(tenant=self.principal.tenant, tag=tag, limit=limit, after=after[0] if after else "")
            return job_states(jobs, self.now)

        return list_answer(
            request,
            states,
            body=wire.job_state_body,
            key=lambda state: (state.job_key,),
            key_parts=(str,),
        )
