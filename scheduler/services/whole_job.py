"""Save a job with its schedules as one: all of it or nothing. And what a schedule would do, before it is saved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.conf import settings

from calendars.models import Calendar
from calendars.queries.specs import calendar_named, calendar_spec
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput
from croniq_site.kernel.text import is_printable_name
from runners.domain.scopes import Principal
from runners.services.audit import Actor
from scheduler.domain.all_at_once import AllAtOnce
from scheduler.domain.occurrences import Fire
from scheduler.domain.trigger_fields import NEW, trigger_columns
from scheduler.domain.words import describe
from scheduler.models import Job, Trigger
from scheduler.queries.definitions import job_definition, trigger_definition
from scheduler.queries.fires import schedule_of, trigger_fires, zone_of
from scheduler.queries.spoken import say
from scheduler.services.jobs import DEFAULT_TENANT, lock_job_of_key, make_job_unless_there, save_job
from scheduler.services.triggers import delete_trigger, no_calendar, refuse_never_firing, save_trigger

PREVIEWED = 5


@dataclass(frozen=True)
class TriggerEdit:
    """What becomes of a schedule: ``trigger_id`` None is a new one. ``fields`` as `save_trigger` takes them; None: it
    is to go."""

    trigger_id: UUID | None
    fields: Mapping[str, Any] | None


@dataclass(frozen=True)
class Preview:
    """What a schedule would do: in words, its zone, its next fires."""

    words: str
    zone: str
    fires: tuple[Fire, ...]


def version_of(job: Job) -> str:
    """A short text that is another one as soon as anybody edits the job or one of its schedules."""
    triggers = job.triggers.select_related("calendar").order_by("pk")
    told = [job_definition(job), *([str(trigger.pk), trigger_definition(trigger)] for trigger in triggers)]
    return sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def save_whole_job(
    fields: Mapping[str, Any],
    edits: Sequence[TriggerEdit],
    now: datetime,
    actor: Actor,
    principal: Principal,
    *,
    seen: str | None,
    managed_by: str = "admin",
) -> Job:
    """Make the job that ``fields["job_key"]`` names, or (``seen``: its `version_of` when somebody looked) edit it, and
    its schedules with it, in one transaction. ``fields`` as `save_job` takes them, a missing one is untouched.

    Raises as `save_job` and `save_trigger` do, the fields of the schedule n by ``triggers.n.…``; InvalidInput of
    ``job_key`` where there is one of that key; Conflict ``changed_since`` where it is another one than was seen.
    """
    with write_transaction():
        if seen is None:
            job, is_new = make_job_unless_there(fields, now, actor, principal, managed_by)
            if not is_new:
                raise InvalidInput.of(
                    "job_key", "There is a job of this key already. Choose another, or edit that one."
                )
        else:
            job = lock_job_of_key(fields["job_key"], principal)
            if version_of(job) != seen:
                raise Conflict(
                    "Somebody else edited this job meanwhile; nothing was saved. Look at it again.",
                    code="changed_since",
                )
            job, _ = save_job(fields, now, actor, principal, partial=True)
        for number, edit in enumerate(edits):
            _apply(job, number, edit, now, actor, principal)
        return job


def _apply(job: Job, number: int, edit: TriggerEdit, now: datetime, actor: Actor, principal: Principal) -> None:
    if edit.fields is None:
        if edit.trigger_id is not None and job.triggers.filter(pk=edit.trigger_id).exists():
            delete_trigger(edit.trigger_id, now, actor=actor, principal=principal)
        return
    trigger = Trigger(pk=edit.trigger_id, job=job) if edit.trigger_id is not None else None
    try:
        save_trigger(job, edit.fields, now, actor=actor, trigger=trigger, managed_by="admin")
    except InvalidInput as refused:
        named = {f"triggers.{number}.{field}": texts for field, texts in refused.fields.items()}
        raise InvalidInput(refused.message, fields=named) from None


def preview_trigger(
    fields: Mapping[str, Any],
    now: datetime,
    *,
    job_key: str,
    tenant: str = DEFAULT_TENANT,
    trigger: Trigger | None = None,
) -> Preview:
    """Say what the schedule of ``fields`` would do, as an edit of ``trigger`` or as a new one. Nothing is written.

    Raises InvalidInput by field as `save_trigger` does, also where it would never fire: but not of what is so already.
    """
    before = {name: getattr(trigger, name) for name in NEW} if trigger is not None else NEW
    wrong = AllAtOnce()
    columns = wrong.read(
        lambda _field: trigger_columns(
            fields, before=before, job_key=job_key, default_zone=settings.CRONIQ_TIME_ZONE, now=now
        ),
        "schedule",
    )
    name = fields.get("calendar")
    if trigger is not None and trigger.calendar is not None and name == trigger.calendar.name:
        calendar = trigger.calendar
    else:
        calendar = wrong.read(_calendar_of, "calendar", name, tenant) if name else None
    wrong.end()
    created_at = trigger.created_at if trigger is not None else now
    row = Trigger(job=Job(job_key=job_key, tenant=tenant), created_at=created_at, **columns)
    spec = calendar_spec(calendar) if calendar is not None else None
    is_as_it_was = trigger is not None and columns == before and (name or "") == _calendar_name(trigger)
    if not is_as_it_was and (row.enabled or trigger is None):
        refuse_never_firing(row, now, spec)
    fires = trigger_fires(row, after=now, count=PREVIEWED, calendar=spec)
    return Preview(describe(schedule_of(row), say), zone_of(row), tuple(fires))


def _calendar_of(_field: str, name: Any, tenant: str) -> Calendar:
    calendar = calendar_named(name, tenant=tenant) if is_printable_name(name) else None
    if calendar is None:
        raise no_calendar(name, tenant)
    return calendar


def _calendar_name(trigger: Trigger) -> str:
    return trigger.calendar.name if trigger.calendar is not None else ""
