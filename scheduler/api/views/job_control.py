"""/v1/jobs/{key}/pause, resume, skip-next, backfill; /v1/system/maintenance: hold back, leave out, make up for."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import Forbidden
from runners.api.views import ApiView
from scheduler.api import control_schema as schema
from scheduler.api import openapi, wire
from scheduler.api.views.jobs import actor_of, job_in_path
from scheduler.domain.job_fields import refuse_unknown
from scheduler.domain.trigger_fields import instant_of
from scheduler.models import Job, Maintenance
from scheduler.queries.maintenance import current_maintenance
from scheduler.services.backfill import backfill
from scheduler.services.maintenance import begin_maintenance, end_maintenance
from scheduler.services.pause import KEPT, pause_job, resume_job
from scheduler.services.skip import skip_next


def _pause_body(job: Job) -> wire.Body:
    return {"job_key": job.job_key, **wire.pause_of(job)}


class Pause(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "pauseJob",
        "Let no scheduled run of a job begin until it is resumed. What is claimed goes on, manual triggers still run. "
        "Again changes reason and until: what is missing stays, null takes it away.",
        {200: schema.PauseAnswer},
        body=schema.PauseBody,
        refuses=(400, 404),
    )
    def post(self, request: Request, job_key: str) -> Response:
        refuse_unknown(self.body, {"reason", "until"})
        until = self.body.get("until", KEPT)
        job = pause_job(
            job_in_path(self, job_key).job_key,
            self.now,
            actor=actor_of(self),
            principal=self.principal,
            reason=self.body.get("reason", KEPT),
            until=until if until is None or until is KEPT else instant_of("until", until),
        )
        return Response(_pause_body(job))


class Resume(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "resumeJob",
        "End a pause: future runs go on, those that fell due in it are skipped. Without a pause nothing changes.",
        {200: schema.PauseAnswer},
        refuses=(404,),
    )
    def post(self, request: Request, job_key: str) -> Response:
        job = resume_job(job_in_path(self, job_key).job_key, self.now, actor=actor_of(self), principal=self.principal)
        return Response(_pause_body(job))


class SkipNext(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "skipNextFire",
        "Leave out the next scheduled fire of a job; it is recorded as skipped. Again skips the one after it.",
        {200: schema.SkippedNextAnswer},
        refuses=(404, 409),
    )
    def post(self, request: Request, job_key: str) -> Response:
        skipped = skip_next(job_in_path(self, job_key).job_key, self.now, actor_of(self), self.principal)
        return Response({"execution_id": str(skipped.run_id), "scheduled_for": wire.instant(skipped.scheduled_for)})


class Backfill(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "backfillJob",
        "Make the runs that past fires of a job did not get, due now: at most 1,000. dry_run only says which.",
        {200: schema.BackfillAnswer},
        body=schema.BackfillBody,
        refuses=(400, 404, 409),
    )
    def post(self, request: Request, job_key: str) -> Response:
        refuse_unknown(self.body, {"from", "until", "dry_run"})
        done = backfill(
            job_in_path(self, job_key).job_key,
            self.body.get("from"),
            self.body.get("until"),
            self.now,
            actor_of(self),
            self.principal,
            dry_run=self.body.get("dry_run", False),
        )
        return Response(
            {
                "dry_run": done.dry_run,
                "created": done.created,
                "revived": done.revived,
                "already_there": done.already_there,
                "instants": [wire.instant(at) for at in done.instants],
                "message": done.message or None,
            }
        )


class SystemMaintenance(ApiView):
    required_scope = {"GET": "admin", "PUT": "admin", "DELETE": "admin"}

    @openapi.documented("getMaintenance", "Is all dispatch held?", {200: schema.MaintenanceAnswer})
    def get(self, request: Request) -> Response:
        return Response(_maintenance_body(current_maintenance()))

    @openapi.documented(
        "beginMaintenance",
        "Hold all dispatch: no server hands out a run until it ends. Again changes its reason and its end.",
        {200: schema.MaintenanceAnswer},
        body=schema.MaintenanceBody,
        refuses=(400,),
    )
    def put(self, request: Request) -> Response:
        _refuse_one_tenant(self)
        refuse_unknown(self.body, {"reason", "until"})
        row = begin_maintenance(self.now, actor_of(self), self.body.get("reason"), self.body.get("until"))
        return Response(_maintenance_body(row))

    @openapi.documented(
        "endMaintenance",
        "Let runs be handed out again: scheduled ones that fell due meanwhile are skipped, everything else goes on.",
        {200: schema.MaintenanceAnswer},
    )
    def delete(self, request: Request) -> Response:
        _refuse_one_tenant(self)
        end_maintenance(self.now, actor_of(self))
        return Response(_maintenance_body(current_maintenance()))


def _refuse_one_tenant(view: ApiView) -> None:
    if view.principal.tenant is not None:
        raise Forbidden(f"Maintenance holds all tenants; this key is of the tenant {view.principal.tenant!r}.")


def _maintenance_body(row: Maintenance | None) -> wire.Body:
    return {
        "on": row is not None,
        "began_at": wire.instant(row and row.began_at),
        "until": wire.instant(row and row.until),
        "reason": row.reason if row else "",
    }
