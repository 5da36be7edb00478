"""Make, edit and delete jobs. API, admin, dashboard, registration and quickstart call these."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError

from calendars.models import Calendar
from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, write_transaction
from croniq_site.kernel.errors import Conflict, Forbidden, InvalidInput, NotFound
from runners.domain.differences import difference, history_of
from runners.domain.scopes import Principal
from runners.services.audit import Actor, Event, Reverting, edit_event, record_events
from runners.services.file_managed import refuse_file_managed
from scheduler.domain.actions import needs_exec
from scheduler.domain.job_fields import job_columns, job_key_of
from scheduler.models import Job, QueueEntry, Run, Slot, Trigger
from scheduler.queries.definitions import job_definition, own_words, trigger_definition, usual_job
from scheduler.services.admit import domain_of, is_limited, settle_later
from scheduler.services.groups import group_named
from scheduler.services.lanes import lane_of
from scheduler.services.planning import most_attempts
from scheduler.services.queue import lock_entries_of
from scheduler.services.replan import WAITING, planned_of, replan_job
from scheduler.services.wake import wake
from scheduler.sql.planned import close_runs, delete_runs, delete_waiting

DEFAULT_TENANT = "default"
_ROUTE = {"tenant", "require", "prefer", "priority", "pin", "action"}
_FOLLOWED = _ROUTE | {"lease_seconds", "timeout_seconds", "max_retries", "max_losses"}
"""Columns that runs in the queue follow: their entries are locked before any is changed, in the order of ids."""
_LIMITS = {"tenant", "max_concurrent", "concurrency_group_id", "overlap"}
_MOST_SCHEDULES_TOLD = 20


def save_job(
    fields: Mapping[str, Any],
    now: datetime,
    actor: Actor,
    principal: Principal | None = None,
    partial: bool = False,
    keeps: bool = False,
    managed_by: str = "api",
    reverting: Reverting | None = None,
) -> tuple[Job, bool]:
    """Make or edit the job that ``fields["job_key"]`` names; return it and whether it is new.

    ``fields`` are those of the wire, null = default; a missing one is untouched if ``partial`` (then the job must
    exist) and, in a job that exists, if ``keeps``; else it is the default. ``principal`` None is trusted (a command,
    an administrator). An edit reaches runs that wait: their lane, lease, timeout and limits. Saving what is there
    already changes nothing. ``managed_by``: who writes, and who has the say in a job that is new. ``reverting``: the
    edit takes an earlier one back.

    Raises InvalidInput by field, NotFound (unknown, or another tenant's), Forbidden (an action without ``jobs:exec``),
    Conflict ``file_managed``, and ``changed_since`` of `Reverting`.
    """
    job_key = job_key_of("job_key", fields.get("job_key"))
    told = {name: value for name, value in fields.items() if name != "managed_by"}
    columns = job_columns(told, partial=partial)
    _refuse_foreign_tenant(columns, principal)
    # The loser of two that make the job at once finds the winner's the second time.
    for is_last in (False, True):
        try:
            with write_transaction():
                job = lock_job_of_key(job_key, principal) if partial else find_job_of_key(job_key, principal)
                is_edit = keeps and job is not None
                named = _with_group(job_columns(told, partial=True) if is_edit else columns, job, principal)
                if job is not None:
                    refuse_file_managed("job", job.job_key, job.managed_by, job.tenant, by=managed_by)
                    return _edit(job, named, now, actor, principal, fields.get("managed_by"), reverting), False
                return _make(job_key, named, now, actor, principal, managed_by), True
        except IntegrityError:
            if is_last:
                raise
    raise AssertionError("unreachable")


def make_job_unless_there(
    fields: Mapping[str, Any], now: datetime, actor: Actor, principal: Principal, managed_by: str
) -> tuple[Job, bool]:
    """Make the job that ``fields["job_key"]`` names, unless there is one: that one is returned locked and as it is.

    Needs a transaction. Also of two that make it at once the loser changes nothing. Raises as `save_job` does.
    """
    job_key = job_key_of("job_key", fields.get("job_key"))
    columns = job_columns(fields, partial=False)
    _refuse_foreign_tenant(columns, principal)
    for is_last in (False, True):
        job = find_job_of_key(job_key, principal)
        if job is not None:
            return job, False
        try:
            with write_transaction():
                named = _with_group(columns, None, principal)
                return _make(job_key, named, now, actor, principal, managed_by), True
        except IntegrityError:
            # Somebody else made it in this moment; it is there now.
            if is_last:
                raise
    raise AssertionError("unreachable")


def lock_job_of_key(job_key: str, principal: Principal | None) -> Job:
    """Lock the live job of that key; NotFound if there is none or it is another tenant's. Needs a transaction."""
    job = find_job_of_key(job_key, principal)
    if job is None:
        raise _not_found(job_key)
    return job


def find_job_of_key(job_key: str, principal: Principal | None) -> Job | None:
    """The same, but None if there is none; another tenant's is NotFound still: keys are unique across tenants."""
    job = Job.objects.select_for_update(no_key=True).filter(job_key=job_key, deleted_at__isnull=True).first()
    if job is not None and principal is not None and not principal.sees(job.tenant):
        raise _not_found(job_key)
    return job


def _not_found(job_key: str) -> NotFound:
    return NotFound(f"There is no job {job_key!r}.")


def delete_job(
    job_key: str, now: datetime, actor: Actor, principal: Principal | None = None, managed_by: str = "api"
) -> None:
    """Delete a job. What of it is claimed finishes; what waits is cancelled, what was only planned never was. Its key
    is free for a new job at once. Conflict ``file_managed`` as for an edit."""
    with write_transaction():
        job = lock_job_of_key(job_key, principal)
        refuse_file_managed("job", job.job_key, job.managed_by, job.tenant, by=managed_by)
        lock_entries_of(job)
        diff = difference(_told(job), {})
        if schedules := [trigger_definition(one) for one in job.triggers.all()[:_MOST_SCHEDULES_TOLD]]:
            diff["schedules"] = [schedules, None]
        job.triggers.all().delete()
        planned = set(planned_of(job, now))
        waiting = list(QueueEntry.objects.filter(job=job, state__in=WAITING).values_list("run_id", flat=True))
        for chunk in chunks(waiting, WRITE_BATCH_ROWS):
            gone = set(delete_waiting(chunk, never_claimed=False))
            if is_limited(job):
                Slot.objects.filter(run_id__in=gone).delete()
            delete_runs(gone & planned)
            close_runs(gone - planned, Run.Verdict.CANCELLED, "the job was deleted", now)
        Job.objects.filter(pk=job.pk).update(deleted_at=now, is_active=False, updated_at=now)
        if is_limited(job):
            settle_later([domain_of(job)], now)
        history = history_of("job", job.pk)
        record_events([Event("job.deleted", "job", job.job_key, actor, job.tenant, diff, history)], now)


def activate(job_key: str, now: datetime, actor: Actor, principal: Principal | None = None) -> Job:
    """Let the job's triggers fire again, from now on."""
    return save_job({"job_key": job_key, "is_active": True}, now, actor, principal, partial=True)[0]


def deactivate(job_key: str, now: datetime, actor: Actor, principal: Principal | None = None) -> Job:
    """Stop the job's triggers; its planned runs go. Manual triggers and what is due already still run."""
    return save_job({"job_key": job_key, "is_active": False}, now, actor, principal, partial=True)[0]


def _refuse_foreign_tenant(columns: dict[str, Any], principal: Principal | None) -> None:
    if principal is not None and not principal.sees(columns.get("tenant", principal.tenant or DEFAULT_TENANT)):
        raise InvalidInput.of(
            "tenant", f"This key belongs to the tenant {principal.tenant!r} and makes jobs only there."
        )


def _make(
    job_key: str,
    columns: dict[str, Any],
    now: datetime,
    actor: Actor,
    principal: Principal | None,
    managed_by: str,
) -> Job:
    _refuse_without_exec({}, columns, principal)
    columns.setdefault("tenant", (principal and principal.tenant) or DEFAULT_TENANT)
    job = Job(job_key=job_key, managed_by=managed_by, created_at=now, updated_at=now, **columns)
    job.lane = lane_of(job)
    job.save(force_insert=True)
    diff = {"managed_by": managed_by, **difference({}, _told(job))}
    record_events([Event("job.created", "job", job_key, actor, job.tenant, diff, history_of("job", job.pk))], now)
    return job


def _told(job: Job) -> dict[str, Any]:
    """What the audit tells of a job that begins or ends: what is not as usual in it."""
    return own_words(job_definition(job), usual_job())


def _edit(
    job: Job,
    columns: dict[str, Any],
    now: datetime,
    actor: Actor,
    principal: Principal | None,
    managed_by: object,
    reverting: Reverting | None,
) -> Job:
    if managed_by not in (None, job.managed_by):
        raise InvalidInput.of("managed_by", f"managed_by cannot be changed; this job's is {job.managed_by!r}.")
    changes = {column: value for column, value in columns.items() if getattr(job, column) != value}
    if not changes and reverting is None:
        return job
    before = job_definition(job)
    if reverting is not None:
        reverting.check(before)
    _refuse_without_exec(job.action, changes, principal)
    domain_before = domain_of(job)
    for column, value in changes.items():
        setattr(job, column, value)
    job.updated_at = now
    if _ROUTE & changes.keys():
        job.lane = lane_of(job)
    # The row is locked, and guarded all the same: a deleted job is never edited.
    edited = Job.objects.filter(pk=job.pk, deleted_at__isnull=True).update(**changes, lane=job.lane, updated_at=now)
    if edited != 1:
        raise Conflict(f"The job {job.job_key!r} was deleted meanwhile.")
    _bring_to_waiting(job, changes.keys())
    if "tenant" in changes:
        _take_calendars_along(job)
    if _LIMITS & changes.keys():
        _bring_limits_to_waiting(job, domain_before, now)
    if {"is_active", "tenant"} & changes.keys():
        replan_job(job, now, edited=None)
    diff, history = difference(before, job_definition(job)), history_of("job", job.pk)
    record_events([edit_event("job", job.job_key, actor, job.tenant, diff, history, reverting)], now)
    return job


def _with_group(columns: dict[str, Any], job: Job | None, principal: Principal | None) -> dict[str, Any]:
    """The columns with the group's id where its name was: a group of the tenant that the job has, or moves to. None is
    made here: a limit that somebody forgot to make would be no limit. Asked anew by each try: another's job may be of
    another tenant."""
    columns = dict(columns)
    tenant = columns.get("tenant") or (job.tenant if job else (principal and principal.tenant) or DEFAULT_TENANT)
    if "concurrency_group" in columns:
        name = columns.pop("concurrency_group")
    elif job is not None and job.concurrency_group_id is not None and tenant != job.tenant:
        name = job.concurrency_group.name
    else:
        return columns
    columns["concurrency_group_id"] = group_named(name, tenant).pk if name is not None else None
    return columns


def _bring_limits_to_waiting(job: Job, domain_before: str, now: datetime) -> None:
    """Let the runs that wait be admitted by the limits as they are now; what runs keeps running and is counted.

    The lock on all entries of the job comes first: an attempt that fails in this moment goes to where its job's runs
    wait by then, or it is found there.
    """
    entries = QueueEntry.objects.filter(job=job)
    list(entries.select_for_update().order_by("run_id").values_list("run_id", flat=True))
    if is_limited(job):
        ready = entries.filter(state=QueueEntry.State.READY)
        # What is due already waits, whatever the new rules would have made of it when it fell due.
        ready.filter(available_at__lte=now).update(state=QueueEntry.State.GATED, waits_since=now)
        ready.update(state=QueueEntry.State.GATED)
    else:
        entries.filter(state=QueueEntry.State.GATED).update(state=QueueEntry.State.READY)
        wake([job.lane_id])
    settle_later({domain_before, domain_of(job)}, now, changed_job=job.pk)


def _take_calendars_along(job: Job) -> None:
    """Bind the triggers of a job that has moved to the calendars of the same names in its new tenant."""
    for trigger in job.triggers.filter(calendar__isnull=False).select_related("calendar"):
        name = trigger.calendar.name
        calendar = Calendar.objects.filter(tenant=job.tenant, name=name).first()
        if calendar is None:
            raise InvalidInput.of("tenant", f"Its trigger uses the calendar {name!r}, which {job.tenant!r} has not.")
        Trigger.objects.filter(pk=trigger.pk, calendar_id=trigger.calendar_id).update(calendar=calendar)


def _refuse_without_exec(before: dict, columns: dict[str, Any], principal: Principal | None) -> None:
    action = columns.get("action", before)
    if action != before and needs_exec(action) and principal is not None and not principal.has("jobs:exec"):
        raise Forbidden("Saying what a job executes needs the scope jobs:exec.")


def _bring_to_waiting(job: Job, changed: Any) -> None:
    """Let the runs that wait follow the edit. A run that is claimed in this moment keeps what it was claimed with; its
    next attempt follows (`send_to_rest`)."""
    waiting = QueueEntry.objects.filter(job=job, state__in=WAITING)
    if _FOLLOWED & set(changed):
        lock_entries_of(job)
    if _ROUTE & set(changed):
        # A run with a trigger's own override stays where that sent it.
        waiting.filter(own_lane=False).exclude(lane=job.lane).update(lane=job.lane)
        wake([job.lane_id])
    if "action" in changed:
        _bring_action_to_own_lanes(job)
    if "lease_seconds" in changed:
        waiting.update(lease_seconds=job.lease_seconds)
    if "timeout_seconds" in changed:
        own = Run.objects.filter(job=job, timeout_seconds__isnull=False, entry__isnull=False)
        waiting.exclude(run_id__in=own.values("pk")).update(timeout_seconds=job.timeout_seconds)
    if {"max_retries", "max_losses"} & set(changed):
        # A run that was tried goes on with what it began with: what it has used up is counted against that.
        waiting.filter(attempt=0).update(max_attempts=most_attempts(job), max_losses=job.max_losses)


def _bring_action_to_own_lanes(job: Job) -> None:
    """Let also the runs with a trigger's own override be executed by who can; claimed ones for their next attempt."""
    own = QueueEntry.objects.filter(job=job, own_lane=True).select_related("run")
    routes: dict[tuple, list] = {}
    for entry in own.iterator(chunk_size=WRITE_BATCH_ROWS):
        route = tuple(entry.run.require or ()), tuple(entry.run.prefer or ())
        routes.setdefault(route, []).append(entry.pk)
    for (require, prefer), keys in routes.items():
        lane = lane_of(job, require, prefer)
        for chunk in chunks(keys, WRITE_BATCH_ROWS):
            QueueEntry.objects.filter(pk__in=chunk).exclude(lane=lane).update(lane=lane)
        wake([lane.pk])
