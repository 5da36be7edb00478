"""Take back an edit of a job, a schedule, a calendar or a group: another edit, which the audit tells as such.

It goes through the service that any edit goes through: what that refuses is refused here. What was edited since then is
never overwritten (Conflict ``changed_since``), and a secret that is another one by now is not had any more (Conflict
``secret_not_kept``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from calendars.models import Calendar
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, Forbidden, NotFound
from runners.domain.differences import sides, unmasked
from runners.domain.scopes import Principal
from runners.models import AuditEvent
from runners.services.audit import Actor, Reverting, seal
from scheduler.models import ConcurrencyGroup, Job, Trigger
from scheduler.queries.definitions import job_definition
from scheduler.services.calendars import edit_calendar
from scheduler.services.groups import save_group
from scheduler.services.jobs import save_job
from scheduler.services.replan import lock_job
from scheduler.services.triggers import save_trigger


@dataclass(frozen=True)
class _Edit:
    """An edit that is to be taken back."""

    event: AuditEvent
    before: dict[str, Any]
    reverting: Reverting
    now: datetime
    actor: Actor
    principal: Principal | None


def is_revertible(event: AuditEvent) -> bool:
    """Whether `revert` knows how. What began is deleted by hand, and a job, calendar or group that was deleted is gone
    with its runs."""
    return bool(event.history) and event.action in _VERBS


def revert(event_id: UUID, history: str, now: datetime, actor: Actor, principal: Principal | None = None) -> str:
    """Take back the edit that the event of ``history`` (`history_of`) tells; return the id of what was edited: of a
    deleted schedule that of the one which is made in its place. ``principal`` None is trusted.

    Raises NotFound (no such event in that history, or what it tells of is deleted), Conflict ``not_revertible``,
    ``changed_since``, ``secret_not_kept``, and what the edit itself raises.
    """
    event = AuditEvent.objects.filter(event_id=event_id, history=history).first() if history else None
    if event is None:
        raise NotFound(f"There is no edit {event_id} in this history.")
    if not is_revertible(event):
        raise Conflict(f"{event.action} cannot be taken back.", code="not_revertible")
    before, after = sides(event.diff)
    scope, verb = _VERBS[event.action]
    if principal is not None and not principal.has(scope):
        raise Forbidden(f"The API client {principal.name!r} has not the scope {scope}.", code="missing_scope")
    return verb(_Edit(event, before, Reverting(event_id, after), now, actor, principal))


def _row_of(edit: _Edit, kind: str, rows: Any) -> Any:
    """The row whose history it is."""
    found = rows.filter(pk=int(edit.event.history.removeprefix(f"{kind}/"))).first()
    if found is None or (edit.principal is not None and not edit.principal.sees(found.tenant)):
        raise NotFound(f"What this edit changed is there no more ({kind} {edit.event.target_id}).")
    return found


def _job(edit: _Edit) -> str:
    job = _row_of(edit, "job", Job.objects.filter(deleted_at__isnull=True))
    current = job_definition(job)
    fields = {name: unmasked(value, current[name], seal, name) for name, value in edit.before.items()}
    # What was just read is looked at again by the edit, under the job's lock.
    save_job(
        {**fields, "job_key": job.job_key},
        edit.now,
        edit.actor,
        edit.principal,
        partial=True,
        reverting=edit.reverting,
    )
    return job.job_key


def _trigger(edit: _Edit) -> str:
    job = _row_of(edit, "job", Job.objects.filter(deleted_at__isnull=True))
    trigger = Trigger.objects.filter(pk=edit.event.target_id, job=job).first()
    if trigger is None:
        raise Conflict("The schedule was deleted since then. Take that back first.", code="changed_since")
    save_trigger(job, edit.before, edit.now, actor=edit.actor, trigger=trigger, reverting=edit.reverting)
    return str(trigger.pk)


def _deleted_trigger(edit: _Edit) -> str:
    job = _row_of(edit, "job", Job.objects.filter(deleted_at__isnull=True))
    with write_transaction():
        lock_job(job.pk)
        # Under the lock: of two who take it back at once the second finds what the first made.
        made = AuditEvent.objects.filter(history=edit.event.history, diff__reverts=str(edit.event.event_id)).first()
        if made is not None:
            raise Conflict(f"This was taken back already: {made.target_id}.", code="changed_since")
        reverting = Reverting(edit.event.event_id, {})
        trigger, _ = save_trigger(job, edit.before, edit.now, actor=edit.actor, reverting=reverting)
        return str(trigger.pk)


def _calendar(edit: _Edit) -> str:
    calendar = _row_of(edit, "calendar", Calendar.objects.all())
    edit_calendar(
        edit.before, edit.now, actor=edit.actor, tenant=calendar.tenant, calendar=calendar, reverting=edit.reverting
    )
    return str(calendar.pk)


def _group(edit: _Edit) -> str:
    group = _row_of(edit, "group", ConcurrencyGroup.objects.all())
    limit = edit.before["max_concurrent"]
    save_group(group.name, limit, edit.now, edit.actor, group.tenant, reverting=edit.reverting)
    return group.name


# What tells of an edit: the scope that such an edit needs, and how it is taken back.
_VERBS: dict[str, tuple[str, Callable[[_Edit], str]]] = {
    "job.updated": ("jobs:write", _job),
    "job.reverted": ("jobs:write", _job),
    "trigger.updated": ("schedules:write", _trigger),
    "trigger.reverted": ("schedules:write", _trigger),
    "trigger.deleted": ("schedules:write", _deleted_trigger),
    "calendar.updated": ("calendars:write", _calendar),
    "calendar.reverted": ("calendars:write", _calendar),
    "group.updated": ("jobs:write", _group),
    "group.reverted": ("jobs:write", _group),
}
