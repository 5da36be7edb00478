"""Edits of calendars, with what they do to the jobs that use them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from calendars.models import Calendar
from calendars.services import SavedCalendar, delete_calendar, save_calendar
from croniq_site.kernel.database import write_transaction
from runners.services.audit import SYSTEM, Actor
from scheduler.models import Trigger
from scheduler.services.replan import replan_calendar


def edit_calendar(
    values: Mapping[str, object],
    now: datetime,
    *,
    actor: Actor = SYSTEM,
    tenant: str = "default",
    calendar: Calendar | None = None,
) -> SavedCalendar:
    """Make or change a calendar as `save_calendar` does, and plan every job that uses it again, in one transaction."""
    with write_transaction():
        saved = save_calendar(values, now, actor=actor, tenant=tenant, calendar=calendar)
        if saved.fires_may_change and not saved.created:
            replan_calendar(saved.calendar.pk, now)
    return saved


def remove_calendar(calendar: Calendar, now: datetime, *, actor: Actor = SYSTEM) -> None:
    """Delete a calendar; refused (`Conflict` ``calendar_in_use``), naming the jobs, while a trigger uses it."""
    with write_transaction():
        users = Trigger.objects.filter(calendar=calendar).values_list("job__job_key", flat=True).distinct()
        delete_calendar(calendar, now, actor=actor, users=list(users))
