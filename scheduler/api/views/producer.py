"""/v1/jobs/register and /v1/trigger: what code that runs elsewhere asks for."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import NotFound
from runners.api.views import ApiView
from scheduler.api import openapi, schema
from scheduler.api.views.jobs import no_such_job
from scheduler.domain.job_fields import refuse_unknown
from scheduler.services.registration import register_job
from scheduler.services.trigger_runs import trigger_run

_TRIGGER_FIELDS = {"job_key", "metadata", "require", "prefer", "timeout", "idempotency_key", "run_at"}


class Register(ApiView):
    required_scope = {"POST": "jobs:register"}

    @openapi.documented(
        "registerJob",
        "Declare a job and its one schedule, as runners do when they start. The same again changes nothing.",
        {200: schema.RegisterAnswer, 201: schema.RegisterAnswer},
        body=schema.RegisterBody,
        refuses=(400, 404, 413),
    )
    def post(self, request: Request) -> Response:
        registration = register_job(self.body, self.now, self.principal)
        return Response(
            {
                "job_key": registration.job_key,
                "trigger_id": registration.trigger_id,
                "status": registration.status,
            },
            status=201 if registration.created else 200,
        )


class Trigger(ApiView):
    required_scope = {"POST": "jobs:trigger"}

    @openapi.documented(
        "triggerJob",
        "Run a job now, or at `run_at`. With an idempotency key exactly one run, however often it is asked for.",
        {200: schema.TriggerAnswer},
        body=schema.TriggerBody,
        refuses=(400, 404, 413, 429),
    )
    def post(self, request: Request) -> Response:
        body = self.body
        refuse_unknown(body, _TRIGGER_FIELDS)
        try:
            result = trigger_run(
                body.get("job_key"),
                self.now,
                self.principal,
                metadata=body.get("metadata"),
                require=body.get("require"),
                prefer=body.get("prefer"),
                timeout_seconds=body.get("timeout"),
                idempotency_key=body.get("idempotency_key"),
                traceparent=request.headers.get("traceparent"),
                run_at=body.get("run_at"),
            )
        except NotFound:
            raise no_such_job(self, body["job_key"]) from None
        return Response(
            {
                "execution_id": str(result.run_id),
                "queued": result.queued,
                "deduplicated": result.deduplicated,
                "coalesced": result.coalesced,
            }
        )
