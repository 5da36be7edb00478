"""The newest fires of a stretch of time, without listing the rest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from calendars.domain.rules import CalendarSpec, OnBlocked
from scheduler.domain.schedules import Fire, Schedule, fires

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
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
    """The last ``count`` fires in (after, until], ascending."""

    def within(begin: datetime, end: datetime) -> list[Fire]:
        return fires(schedule, after=begin, until=end, calendar=calendar, on_blocked=on_blocked, since=since)

    return newest(within, after=after, until=until, count=count)


def newest(
    within: Callable[[datetime, datetime], list[Fire]], *, after: datetime, until: datetime, count: int
) -> list[Fire]:
    """The last ``count`` fires in (after, until], ascending, of those that ``within`` lists between two instants.

    It looks back from ``until`` in doubling steps, so what it costs does not grow with the length of the stretch.
    """
    look = _FIRST_LOOK
    while count > 0 and after < until:
        begin = until - look if until - after > look else after
        found = within(begin, until)
        if len(found) >= count or begin <= after:
            return found[-count:]
        look *= 2
    return []


def previous_before(
    schedule: Schedule, t: datetime, *, calendar: CalendarSpec | None = None, on_blocked: OnBlocked | str | None = None
) -> datetime | None:
    """The instant of the last fire strictly before ``t``; None if there is none since 1970."""
    found = newest_fires(
        schedule, after=_BEGINNING - _TICK, until=t - _TICK, count=1, calendar=calendar, on_blocked=on_blocked
    )
    return found[0].at if found else None
