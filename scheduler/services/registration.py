"""A runner says which jobs it has code for, and when they are to run (``POST /v1/jobs/register``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from calendars.domain.errors import InvalidField
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import InvalidInput
from runners.domain.scopes import Principal
from runners.models import AuditEvent
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.inputs import name_of
from scheduler.domain.job_fields import FIELDS, capabilities_of, job_key_of, refuse_unknown
from scheduler.domain.schedules import CronSchedule, schedule_from_text
from scheduler.models import Job, Trigger
from scheduler.services.jobs import make_job_unless_there, save_job
from scheduler.services.triggers import save_trigger

RUNNER = "runner"
REGISTERED, SKIPPED = "registered", "skipped_dsl_precedence"
REQUIRE_IGNORED = "job.require_ignored"

TRIGGER_FIELDS = ("timezone", "calendar", "on_blocked", "window", "not_before", "not_after")
# What is executed, and who alone may execute it, is not for a runner to say.
JOB_FIELDS = (*(field for field in FIELDS if field not in ("action", "pin", "require")), "retry")
KNOWN = {"job_key", "schedule", "runner_id", "capabilities", *TRIGGER_FIELDS, *JOB_FIELDS}


@dataclass(frozen=True)
class Registration:
    """``created``: the job or its trigger is new (201). ``trigger_id`` is None where the jobs file has the say."""

    job_key: str
    trigger_id: str | None
    status: str
    created: bool


def register_job(body: Mapping[str, Any], now: datetime, principal: Principal) -> Registration:
    """Make or update the job and its one registered trigger. The same again changes nothing, in any number at once.

    A job that was made otherwise (API, admin) keeps its definition and gets the trigger; one of the jobs file keeps
    both. ``capabilities`` become ``require`` the first time only: the SDKs send all that they have. Raises InvalidInput
    by field, NotFound for another tenant's job.
    """
    if not isinstance(body, Mapping):
        raise InvalidInput.of("body", "A registration is an object.")
    refuse_unknown(body, KNOWN)
    job_key = job_key_of("job_key", body.get("job_key"))
    capabilities = capabilities_of("capabilities", body.get("capabilities") or [])
    if body.get("runner_id") is not None:
        name_of("runner_id", body["runner_id"])
    schedule = _schedule_fields(body, job_key, now)
    actor = Actor(principal.actor_type, principal.name)
    with write_transaction():
        fields = {**_given(body, JOB_FIELDS), "job_key": job_key, "require": capabilities}
        job, is_new = make_job_unless_there(fields, now, actor, principal, RUNNER)
        if job.managed_by == "file":
            return Registration(job_key, None, SKIPPED, created=False)
        if not is_new:
            if job.managed_by == RUNNER:
                job, _ = save_job({**_given(body, JOB_FIELDS), "job_key": job_key}, now, actor, principal, partial=True)
            _note_other_capabilities(job, capabilities, actor, now)
        trigger = Trigger.objects.filter(job=job, managed_by=RUNNER).first()
        trigger, has_new_trigger = save_trigger(job, schedule, now, actor=actor, trigger=trigger, managed_by=RUNNER)
        return Registration(job_key, str(trigger.pk), REGISTERED, created=is_new or has_new_trigger)


def _given(body: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Those that say something: a runner that leaves one out, or sends null, has no opinion."""
    return {name: body[name] for name in names if body.get(name) is not None}


def _schedule_fields(body: Mapping[str, Any], job_key: str, now: datetime) -> dict[str, Any]:
    """The wire fields of the trigger. ``schedule`` is "5m", "300" (seconds) or cron text."""
    if "schedule" not in body:
        raise InvalidField("schedule", "A schedule is needed, such as '5m' or '0 3 * * *'.")
    zone = body.get("timezone")
    schedule = schedule_from_text(
        body["schedule"],
        anchor=now,
        timezone=settings.CRONIQ_TIME_ZONE if zone is None else zone,
        hash_key=job_key,
    )
    if isinstance(schedule, CronSchedule):
        fields: dict[str, Any] = {"cron_expression": schedule.expression}
    else:
        fields = {"every": schedule.every}  # the anchor is the trigger's creation, and stays it
    return fields | _given(body, TRIGGER_FIELDS)


def _note_other_capabilities(job: Job, capabilities: list[str], actor: Actor, now: datetime) -> None:
    """Write down, once for each, that a runner registered with other capabilities than the job requires."""
    if capabilities == job.require:
        return
    diff = {"require": job.require, "offered": capabilities}
    # The job is locked: of two runners that say the same the second finds the first's event.
    known = AuditEvent.objects.filter(action=REQUIRE_IGNORED, target_type="job", target_id=job.job_key)
    if diff not in list(known.values_list("diff", flat=True).order_by("-pk")[:200]):
        record_events([Event(REQUIRE_IGNORED, "job", job.job_key, actor, job.tenant, diff)], now)
