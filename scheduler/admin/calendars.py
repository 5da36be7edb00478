"""Calendars in the admin: a save plans the jobs that use the calendar again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin

from calendars.admin import CalendarAdmin
from calendars.models import Calendar
from calendars.services import SavedCalendar
from runners.services.audit import Actor
from scheduler.services.calendars import edit_calendar, remove_calendar


@admin.register(Calendar)
class PlanningCalendarAdmin(CalendarAdmin):
    """Saves and deletes through the scheduler's services."""

    def save_values(
        self, values: dict[str, Any], now: datetime, *, actor: Actor, calendar: Calendar | None
    ) -> SavedCalendar:
        return edit_calendar(values, now, actor=actor, calendar=calendar)

    def delete_one(self, calendar: Calendar, now: datetime, *, actor: Actor) -> None:
        remove_calendar(calendar, now, actor=actor)
