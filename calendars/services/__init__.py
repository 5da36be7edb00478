"""The only writers of calendars."""

from calendars.services.edit import SavedCalendar, checked_calendar, delete_calendar, lock_calendar, save_calendar

__all__ = ["SavedCalendar", "checked_calendar", "delete_calendar", "lock_calendar", "save_calendar"]
