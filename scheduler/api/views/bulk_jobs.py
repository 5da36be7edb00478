"""/v1/jobs/bulk-pause, bulk-resume, bulk-delete, bulk-tag: many jobs with one request."""

from __future__ import annotations

from itertools import islice
from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput
from runners.api.views import ApiView
from scheduler.api import bulk_schema, openapi
from scheduler.api.bulk import Asked, asked_of, bulk_answer
from scheduler.api.views.jobs import actor_of
from scheduler.domain.inputs import flag_of, name_of, names_of, text_of
from scheduler.domain.trigger_fields import instant_of
from scheduler.models import Job
from scheduler.queries.bulk import MOST, Matches, first_jobs, jobs_matching
from scheduler.services import jobs as job_services
from scheduler.services.bulk import one_by_one, pause_if_not, resume_if_paused, retag_job

_WHICH = {"job_keys", "tag", "all"}
_SAYS = " First with dry_run, which counts, then with what it counted. Each job has its own transaction."


def _chosen(view: ApiView, *known: str) -> tuple[Asked, QuerySet[Job]]:
    """Read which jobs are meant: by their keys, by a tag, by both, or all."""
    body, keys = view.body, view.body.get("job_keys")
    asked = asked_of(body, {*_WHICH, *known}, is_named=keys is not None)
    tag = body.get("tag")
    everything = flag_of("all", body.get("all", False))
    if everything == (keys is not None or tag is not None):
        raise InvalidInput.of("job_keys", "Say which jobs: job_keys or a tag, or all.")
    if keys is not None:
        keys = _keys_of(keys)
    return asked, jobs_matching(view.principal.tenant, None if tag is None else name_of("tag", tag), keys)


def _keys_of(keys: Any) -> list[str]:
    if not isinstance(keys, list) or len(keys) > MOST:
        raise InvalidInput.of("job_keys", f"job_keys is a list of at most {MOST} keys.")
    return [name_of("job_keys", key) for key in keys]


class PauseJobs(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "pauseJobs",
        "Pause the chosen jobs that are not paused." + _SAYS,
        {200: bulk_schema.BulkAnswer},
        body=bulk_schema.BulkPauseBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        asked, jobs = _chosen(self, "reason", "until")
        reason = text_of("reason", self.body.get("reason") or "", most=255)
        until = self.body.get("until")
        until = None if until is None else instant_of("until", until)
        if until is not None and until <= self.now:
            raise InvalidInput.of("until", "A pause ends after it begins.")

        def pause(job_key: str) -> bool:
            return pause_if_not(
                job_key, self.now, actor=actor_of(self), principal=self.principal, reason=reason, until=until
            )

        waiting = first_jobs(jobs.filter(paused_at__isnull=True))
        return bulk_answer(asked, waiting, lambda found: one_by_one(found, pause))


class ResumeJobs(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "resumeJobs",
        "End the pause of the chosen jobs that are paused." + _SAYS,
        {200: bulk_schema.BulkAnswer},
        body=bulk_schema.BulkJobsBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        asked, jobs = _chosen(self)

        def resume(job_key: str) -> bool:
            return resume_if_paused(job_key, self.now, actor=actor_of(self), principal=self.principal)

        paused = first_jobs(jobs.filter(paused_at__isnull=False))
        return bulk_answer(asked, paused, lambda found: one_by_one(found, resume))


class DeleteJobs(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "deleteJobs",
        "Delete the chosen jobs: their history stays, what they have planned goes." + _SAYS,
        {200: bulk_schema.BulkAnswer},
        body=bulk_schema.BulkJobsBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        asked, jobs = _chosen(self)

        def delete(job_key: str) -> bool:
            job_services.delete_job(job_key, self.now, actor_of(self), self.principal)
            return True

        return bulk_answer(asked, first_jobs(jobs), lambda found: one_by_one(found, delete))


class TagJobs(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "tagJobs",
        "Give the chosen jobs tags, and take others away; their other tags stay." + _SAYS,
        {200: bulk_schema.BulkAnswer},
        body=bulk_schema.BulkTagBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        asked, jobs = _chosen(self, "add", "remove")
        add, remove = (set(names_of(field, self.body.get(field) or [])) for field in ("add", "remove"))
        if not add | remove or add & remove:
            raise InvalidInput.of("add", "Say which tags to add or to remove, and none as both.")
        rows = jobs.values_list("job_key", "tags").iterator()
        lacking = [key for key, tags in islice(_to_tag(rows, add, remove), MOST + 1)]
        return bulk_answer(
            asked,
            Matches(lacking[:MOST], len(lacking) > MOST),
            lambda found: one_by_one(
                found, lambda key: retag_job(key, add, remove, self.now, actor_of(self), self.principal)
            ),
        )


def _to_tag(rows: Any, add: set[str], remove: set[str]) -> Any:
    return ((key, tags) for key, tags in rows if add - set(tags) or remove & set(tags))
