"""What becomes of occurrences at which the calendar is closed, where their day is not kept: `advance` and `defer`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta

from calendars.domain.openings import Openings, openings_of, weekly_superset
from calendars.domain.rules import CalendarSpec, OnBlocked
from calendars.domain.zones import DAY, to_instant, to_seconds
from scheduler.domain.cron_days import cron_days, may_ever_fire
from scheduler.domain.occurrences import (
    TICK,
    CronSchedule,
    Fire,
    IntervalSchedule,
    Schedule,
    earliest,
    occurrences_from,
)

MOST_BLOCKED = 50
"""So many blocked occurrences in a row, each followed by a jump to the next opening; then the search goes by days."""

_WEEK = timedelta(weeks=1)


def advanced(schedule: Schedule, after: datetime, until: datetime | None, openings: Openings) -> Iterator[Fire]:
    """The occurrences at which it is open. It ends when none is left within the calendar's search limit."""
    last = None if until is None else to_seconds(until)
    found = occurrences_from(schedule, after + TICK, until)
    open_until, blocked, limit = None, 0, None
    while (at := next(found, None)) is not None:
        second = to_seconds(at)
        if open_until is None or second >= open_until:
            opening = openings.at_or_after(second, last)
            if opening is None or (limit is not None and second > limit):
                return
            if opening.start > second:
                start: int | None = opening.start
                if blocked == 0:
                    limit = openings.search_limit(second)
                blocked += 1
                if blocked == MOST_BLOCKED and isinstance(schedule, IntervalSchedule):
                    # The superset of a weekly calendar is itself: this goes one deep.
                    if (
                        last is None
                        and not openings.is_weekly
                        and not interval_may_ever_fire(schedule, weekly_superset(openings.spec), second)
                    ):
                        return
                    limit = _search_limit(schedule, second, openings)
                if blocked % MOST_BLOCKED == 0 and isinstance(schedule, CronSchedule):
                    start = _next_promising(schedule, opening.start, last, openings)
                if start is None:
                    return
                found = occurrences_from(schedule, to_instant(start), until)
                continue
            open_until = opening.end
        blocked, limit = 0, None
        yield Fire(at, at)


def interval_may_ever_fire(schedule: IntervalSchedule, weekly: CalendarSpec, at: int) -> bool:
    """Whether an occurrence after a second is open in a calendar that is the same each week. Exact."""
    if not weekly.rules:
        return True
    return next(advanced(schedule, to_instant(at), None, openings_of(weekly)), None) is not None


def _search_limit(schedule: IntervalSchedule, at: int, openings: Openings) -> int:
    """Up to which second an unbroken row of blocked occurrences is followed: until everything has come round."""
    limit = openings.search_limit(at)
    if openings.is_weekly:
        # Two years: each week of a round with each offset that a zone has in a year.
        round_of_weeks = math.lcm(schedule.every // TICK, _WEEK // TICK) // 1_000_000
        limit = min(limit, max(at, openings.last_named) + 2 * 366 * DAY + 2 * round_of_weeks)
    return limit


def _next_promising(schedule: CronSchedule, at: int, last: int | None, openings: Openings) -> int | None:
    """The first second from ``at`` on of a day on which the schedule has an open time, or ``at`` itself on that day."""
    days = cron_days(schedule, openings.spec)
    first = days.day_of(at)
    if last is None and not may_ever_fire(schedule, openings.spec, to_instant(at).year):
        return None
    limit = openings.search_limit(at) if last is None else last
    day = days.first_open_day(first, limit // DAY + 1)
    return None if day is None else max(at, days.zone.to_utc(day * DAY))


def begin_matters(policy: OnBlocked, openings: Openings, after: datetime, since: datetime) -> bool:
    """Whether occurrences at or before ``since`` could still fire after ``after``, did they count. False is certain."""
    if policy in (OnBlocked.ADVANCE, OnBlocked.PRECEDING):
        return since > after
    if policy is OnBlocked.FOLLOWING or since >= after:
        return True  # some time of day may have been closed ever since
    # Whatever was blocked before the calendar was last open has fired.
    at, least = to_seconds(after), to_seconds(since) + 1
    return not openings.decision(at).open and openings.closed_since(at, min(least, at)) <= least


def deferred(
    schedule: Schedule, after: datetime, until: datetime | None, openings: Openings, since: datetime | None
) -> Iterator[Fire]:
    """Each occurrence at the first open instant; all that a closure blocks become one fire, at its end."""
    last = None if until is None else to_seconds(until)
    start = after + TICK
    second = to_seconds(after)  # what lies a moment before an opening lies in the closure
    opening = openings.at_or_after(second, last)
    if opening is None:
        return
    if opening.start > second:
        # `after` lies in a closure: what it blocked before `after` still fires at its end.
        floor = earliest(schedule, since)
        start = min(start, max(to_instant(openings.closed_since(second, min(to_seconds(floor), second))), floor))
    if since is not None:
        start = max(start, since + TICK)
    found = occurrences_from(schedule, start, until)
    open_until = None
    while (at := next(found, None)) is not None:
        second = to_seconds(at)
        if open_until is None or second >= open_until:
            opening = openings.at_or_after(second, last)
            if opening is None:
                return
            if opening.start > second:
                deferred_to = to_instant(opening.start)
                if until is not None and deferred_to > until:
                    return
                yield Fire(deferred_to, at)
                found = occurrences_from(schedule, deferred_to + TICK, until)
                continue
            open_until = opening.end
        yield Fire(at, at)
