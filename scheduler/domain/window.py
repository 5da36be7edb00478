"""The fires of many schedules in one window at once: schedules that are equal are computed once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from itertools import islice

from scheduler.domain.occurrences import Fire, Schedule, occurrences

MOST = 1000
"""So many fires of a schedule are remembered at most; a window with more is computed for each."""


def fires_in_window(schedules: Iterable[Schedule], after: datetime, until: datetime) -> list[list[Fire]]:
    """The fires in (after, until] of each schedule, in the order asked; for schedules without a calendar.

    Equal ones (expression, zone, and what H stands for) are computed once, here and by whoever asks for the same window
    soon.
    """
    return [list(fires_of(schedule, after, until)) for schedule in schedules]


def fires_of(schedule: Schedule, after: datetime, until: datetime | None, count: int | None = None) -> list[Fire]:
    """The first ``count`` fires in (after, until] of a schedule without a calendar; one of the two bounds is needed."""
    most = MOST if count is None else min(count, MOST)
    known = _remembered(schedule, after, until, most)
    if len(known) < MOST or most == count:
        return list(known)
    return [Fire(at, at) for at in islice(occurrences(schedule, after=after, until=until), count)]


@lru_cache(maxsize=512)
def _remembered(schedule: Schedule, after: datetime, until: datetime | None, most: int) -> tuple[Fire, ...]:
    return tuple(Fire(at, at) for at in islice(occurrences(schedule, after=after, until=until), most))
