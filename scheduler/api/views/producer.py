"""/v1/jobs/register and /v1/trigger: what code that runs elsewhere asks for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput, TooManyRequests
from croniq_site.kernel.text import is_printable_name
from runners.api.views import ApiView
from scheduler.api import schema
from scheduler.domain.durations import parse_duration
from scheduler.services.registration import register_job
from scheduler.services.trigger_runs import trigger_run

_TRIGGER_FIELDS = ("job_key", "metadata", "require", "prefer", "timeout", "idempotency_key")
QUEUE_FULL_RETRY_SECONDS = 5


class Register(ApiView):
    required_scope = {"POST": "jobs:register"}

    @schema.documented(
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
                "trigger_id": None if registration.trigger_id is None else str(registration.trigger_id),
                "status": registration.status,
            },
            status=201 if registration.created else 200,
        )


class Trigger(ApiView):
    required_scope = {"POST": "jobs:trigger"}

    @schema.documented(
        "triggerJob",
        "Run a job now. With an idempotency key exactly one run, however often it is asked for.",
        {200: schema.TriggerAnswer},
        body=schema.TriggerBody,
        refuses=(400, 404, 413, 429),
    )
    def post(self, request: Request) -> Response:
        asked = _trigger_arguments(self.body)
        try:
            result = trigger_run(asked.pop("job_key"), self.now, self.principal, **asked)
        except TooManyRequests as refusal:
            refusal.extra = {"execution_id": "", "queued": 0, "deduplicated": False, **refusal.extra}
            if refusal.retry_after_seconds is None:
                refusal.retry_after_seconds = QUEUE_FULL_RETRY_SECONDS
            raise
        return Response(
            {
                "execution_id": str(result.run_id),
                "queued": result.queued,
                "deduplicated": result.deduplicated,
                "coalesced": result.coalesced,
            }
        )


def _trigger_arguments(body: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `trigger_run`; absent, null and empty are the same: the job's."""
    if unknown := sorted(set(body) - set(_TRIGGER_FIELDS)):
        raise InvalidInput(
            f"Unknown fields: {', '.join(unknown)}.", fields={name: ["This field is unknown."] for name in unknown}
        )
    job_key = body.get("job_key")
    if not isinstance(job_key, str) or not is_printable_name(job_key):
        raise InvalidInput.of("job_key", "job_key names the job to run.")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidInput.of("metadata", "metadata is a JSON object.")
    key = body.get("idempotency_key") or ""
    if not isinstance(key, str) or len(key) > 200:
        raise InvalidInput.of("idempotency_key", "An idempotency key is a text of at most 200 characters.")
    return {
        "job_key": job_key,
        "metadata": metadata,
        "require": _texts(body, "require"),
        "prefer": _texts(body, "prefer"),
        "timeout_seconds": _seconds(body, "timeout"),
        "idempotency_key": key if key.strip() else "",
    }


def _texts(body: dict[str, Any], name: str) -> list[str] | None:
    value = body.get(name)
    if value is None or value == []:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) and is_printable_name(item) for item in value):
        raise InvalidInput.of(name, f"{name} is a list of capabilities: names of 1 to 255 printable characters.")
    return value


def _seconds(body: dict[str, Any], name: str) -> float | None:
    value = body.get(name)
    if value is None or value == "":
        return None
    return parse_duration(value, field=name, bare_seconds=True) / timedelta(seconds=1)
