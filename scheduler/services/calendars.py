"""Edits of calendars, with what they do to the jobs that use them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from calendars.models import Calendar
from calendars.services import SavedCalendar, delete_calendar, lock_calendar, save_calendar
from croniq_site.kernel.database import write_transaction
from runners.services.audit import SYSTEM, Actor, Reverting
from scheduler.models import Trigger
from scheduler.services.replan import lock_jobs, replan_calendar


def edit_calendar(
    values: Mapping[str, object],
    now: datetime,
    *,
    actor: Actor = SYSTEM,
    tenant: str = "default",
    calendar: Calendar | None = None,
    managed_by: str = "api",
    reverting: Reverting | None = None,
) -> SavedCalendar:
    """Make or change a calendar as `save_calendar` does, and plan every job that uses it again, in one transaction."""
    while True:
        with write_transaction():
            if calendar is not None and not _lock_with_users(calendar.pk):
                continue  # let go of all and begin again: who was first holds a job and may want the calendar
            saved = save_calendar(
                values,
                now,
                actor=actor,
                tenant=tenant,
                calendar=calendar,
                managed_by=managed_by,
                reverting=reverting,
            )
            if saved.fires_may_change and not saved.created:
                replan_calendar(saved.calendar.pk, now)
            return saved


def _lock_with_users(calendar_id: int) -> bool:
    """Lock the jobs that use a calendar, then the calendar; False if a job began to use it in between. That is the
    order in which `save_trigger` locks, who holds its job when it learns which calendar is meant."""
    job_ids = _user_ids(calendar_id)
    lock_jobs(job_ids)
    lock_calendar(calendar_id)
    return _user_ids(calendar_id) <= job_ids


def _user_ids(calendar_id: int) -> set[int]:
    return set(Trigger.objects.filter(calendar_id=calendar_id).values_list("job_id", flat=True))


def remove_calendar(calendar: Calendar, now: datetime, *, actor: Actor = SYSTEM, managed_by: str = "api") -> None:
    """Delete a calendar; refused (`Conflict` ``calendar_in_use``), naming the jobs, while a trigger uses it."""
    with write_transaction():
        users = Trigger.objects.filter(calendar=calendar).values_list("job__job_key", flat=True).distinct()
        delete_calendar(calendar, now, actor=actor, users=list(users), managed_by=managed_by)
