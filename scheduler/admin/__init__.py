"""The admin of the scheduler."""

from scheduler.admin import calendars, jobs, runs  # noqa: F401
