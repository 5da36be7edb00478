"""The newest fires of a stretch of time, without listing the rest."""

from __future__ import annotations

from datetime import datetime, timedelta

from calendars.domain.rules import CalendarSpec, OnBlocked
from scheduler.domain.schedules import Fire, Schedule, fires

_FIRST_LOOK = timedelta(minutes=1)


def newest_fires(
    schedule: Schedule,
    *,
    after: datetime,
    until: datetime,
    count: int,
    calendar: CalendarSpec | None = None,
    on_blocked: OnBlocked | str | None = None,
    since: datetime | None = None,
) -> list[Fire]:
    """The last ``count`` fires in (after, until], ascending.

    It looks back from ``until`` in doubling steps, so what it costs does not grow with the length of the stretch.
    """
    look = _FIRST_LOOK
    while count > 0 and after < until:
        begin = until - look if until - after > look else after
        found = fires(schedule, after=begin, until=until, calendar=calendar, on_blocked=on_blocked, since=since)
        if len(found) >= count or begin <= after:
            return found[-count:]
        look *= 2
    return []
