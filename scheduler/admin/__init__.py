"""The admin of the scheduler."""

from scheduler.admin import calendars  # noqa: F401
