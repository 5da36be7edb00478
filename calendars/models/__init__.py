from calendars.models.calendar import Calendar, CalendarRule

__all__ = ["Calendar", "CalendarRule"]
