"""Make, edit and delete triggers. An edit plans its job again in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from calendars.domain.rules import CalendarSpec
from calendars.models import Calendar
from calendars.queries.specs import calendar_named, calendar_spec
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import InvalidInput, NotFound
from croniq_site.kernel.suggestions import did_you_mean
from runners.domain.differences import difference, history_of
from runners.domain.scopes import Principal
from runners.services.audit import SYSTEM, Actor, Event, Reverting, edit_event, record_events
from runners.services.file_managed import refuse_file_managed
from scheduler.domain.all_at_once import AllAtOnce
from scheduler.domain.schedules import refuse_never
from scheduler.domain.trigger_fields import COLUMNS, NEW, trigger_columns
from scheduler.models import Job, Trigger
from scheduler.queries.definitions import trigger_definition
from scheduler.queries.fires import schedule_of, trigger_fires
from scheduler.services.replan import lock_job, replan_job
from scheduler.sql.locks import share_calendar

NO_CALENDAR = "There is no calendar of that name."
MOST_CALENDARS = 500
"""Among so many one is looked for that may be meant."""


def save_trigger(
    job: Job,
    fields: Mapping[str, Any],
    now: datetime,
    *,
    actor: Actor = SYSTEM,
    trigger: Trigger | None = None,
    partial: bool = True,
    managed_by: str = "api",
    reverting: Reverting | None = None,
) -> tuple[Trigger, bool]:
    """Make a trigger of ``job``, or edit ``trigger``; return it and whether it is new.

    ``fields`` are those of the wire: one of ``cron_expression``, ``every`` (with ``anchor``) and ``run_at``, and
    ``timezone``, ``calendar`` (a name, of the job's tenant), ``on_blocked``, ``window``, ``not_before``,
    ``not_after``, ``enabled``. null = default; a missing one is untouched, or without ``partial`` the default.

    The job is planned again in the same transaction, so that what is due soon is there at once; saving what is there
    already changes nothing. Raises InvalidInput by field, of all that is wrong at once, and where the schedule would
    never fire; NotFound if the job or the trigger is gone; Conflict ``file_managed`` where a jobs file has the say.
    """
    with write_transaction():
        locked = lock_job(job.pk)
        if locked is None:
            raise NotFound(f"The job {job.job_key!r} is deleted.")
        refuse_file_managed("job", locked.job_key, locked.managed_by, locked.tenant, by=managed_by)
        row = _row(locked, trigger, managed_by, now)
        is_new = trigger is None
        definition = {} if is_new else trigger_definition(row)
        if reverting is not None and not is_new:
            reverting.check(definition)
        before = {name: getattr(row, name) for name in COLUMNS}
        calendar_before = row.calendar_id
        wrong = AllAtOnce()
        columns = wrong.read(
            lambda _field: trigger_columns(
                fields,
                before=before if partial or is_new else NEW | {"anchor_at": row.anchor_at},
                job_key=locked.job_key,
                default_zone=settings.CRONIQ_TIME_ZONE,
                now=now,
            ),
            "schedule",
        )
        if "calendar" in fields or not (partial or is_new):
            row.calendar = wrong.read(_calendar_of, "calendar", fields.get("calendar"), locked.tenant)
        wrong.end()
        changed = {name: value for name, value in columns.items() if is_new or value != before[name]}
        if not changed and row.calendar_id == calendar_before:
            return row, False
        for name, value in changed.items():
            setattr(row, name, value)
        if row.enabled or is_new:
            refuse_never_firing(row, now, calendar_spec(row.calendar) if row.calendar is not None else None)
        row.config_error, row.updated_at = "", now
        row.save(force_insert=is_new, force_update=not is_new)
        replan_job(locked, now, edited={row.pk})
        row.refresh_from_db(fields=["cursor_at", "next_materialize_at", "config_error"])
        diff = {"job_key": locked.job_key, **difference(definition, trigger_definition(row))}
        record_events([_event(row, actor, diff, reverting, is_new=is_new)], now)
        return row, is_new


def delete_trigger(
    trigger_id: UUID,
    now: datetime,
    *,
    actor: Actor = SYSTEM,
    principal: Principal | None = None,
    managed_by: str = "api",
) -> None:
    """Delete a trigger; the planned runs that no other trigger of the job gives go with it."""
    with write_transaction():
        found = Trigger.objects.select_related("job").filter(pk=trigger_id, job__deleted_at__isnull=True).first()
        if found is None or (principal is not None and not principal.sees(found.job.tenant)):
            raise NotFound(f"There is no schedule {trigger_id}.")
        job = lock_job(found.job_id)
        if job is not None:
            refuse_file_managed("job", job.job_key, job.managed_by, job.tenant, by=managed_by)
        # Read under the lock: what goes is what the audit tells.
        gone = Trigger.objects.select_related("calendar").filter(pk=trigger_id).first()
        if job is None or gone is None or Trigger.objects.filter(pk=trigger_id).delete()[0] == 0:
            raise NotFound(f"The schedule {trigger_id} was deleted meanwhile.")
        replan_job(job, now)
        diff = {"job_key": job.job_key, **difference(trigger_definition(gone), {})}
        history = history_of("job", job.pk)
        record_events([Event("trigger.deleted", "trigger", str(trigger_id), actor, job.tenant, diff, history)], now)


def _event(row: Trigger, actor: Actor, diff: dict[str, Any], reverting: Reverting | None, *, is_new: bool) -> Event:
    history = history_of("job", row.job_id)
    if not is_new:
        return edit_event("trigger", str(row.pk), actor, row.job.tenant, diff, history, reverting)
    if reverting is not None:
        diff = {**diff, "reverts": str(reverting.event_id)}
    return Event("trigger.created", "trigger", str(row.pk), actor, row.job.tenant, diff, history)


def _row(job: Job, trigger: Trigger | None, managed_by: str, now: datetime) -> Trigger:
    if trigger is None:
        # Strictly after its creation: the cursor begins there, and what is due in this very instant is past.
        return Trigger(id=uuid4(), job=job, managed_by=managed_by, cursor_at=now, created_at=now, updated_at=now, **NEW)
    row = Trigger.objects.select_related("calendar").filter(pk=trigger.pk, job=job).first()
    if row is None:
        raise NotFound(f"The schedule {trigger.pk} was deleted.")
    row.job = job
    return row


def _calendar_of(_field: str, name: Any, tenant: str) -> Calendar | None:
    if name is None or name == "":
        return None
    found = Calendar.objects.filter(tenant=tenant, name=name).first() if _is_name(name) else None
    if found is not None:
        # An edit of it lists the triggers that use it, and this one only once it is committed: the rules are read after
        # such an edit, or stay as they are until then.
        share_calendar(found.pk)
    calendar = calendar_named(name, tenant=tenant) if found is not None else None
    if calendar is None:
        raise no_calendar(name, tenant)
    return calendar


def no_calendar(name: Any, tenant: str) -> InvalidInput:
    """The refusal of a calendar that the tenant has not, with the one that may be meant."""
    known = Calendar.objects.filter(tenant=tenant).order_by("name").values_list("name", flat=True)
    return InvalidInput.of("calendar", NO_CALENDAR + did_you_mean(name, known[:MOST_CALENDARS]))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and value.isprintable() and len(value) <= 255


def refuse_never_firing(trigger: Trigger, now: datetime, calendar: CalendarSpec | None) -> None:
    """Refuse, by the field that is to blame, a trigger without any fire after ``now``. Its row, saved or not, has its
    job; ``calendar`` is the one that it uses."""
    if trigger_fires(trigger, after=now, count=1, calendar=calendar):
        return
    refuse_never(schedule_of(trigger), after=now, calendar=calendar, on_blocked=trigger.on_blocked)
    field = "window" if trigger.window_start is not None else "not_after"
    raise InvalidInput.of(field, f"This schedule has no fire left within its {field}; it would never run.")
