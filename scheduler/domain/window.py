"""The fires of many schedules in one window at once: schedules that are equal are computed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from calendars.domain.zones import LAST_SECOND, load_zone
from scheduler.domain.cron import parse_cron
from scheduler.domain.occurrences import Fire, Schedule, occurrences
from scheduler.domain.walk import cron_seconds

MOST = 1000
"""So many fires of a schedule are remembered at most, for many windows; more, for the last few only."""
MOST_OF_FEW = 5000

_SECOND = 1_000_000
_LAST = LAST_SECOND * _SECOND


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
    if count is None or count <= MOST_OF_FEW:
        # A thousand jobs of every second that missed the same hours: each asks for the same gap.
        known = _remembered_a_little(schedule, after, until, count or MOST_OF_FEW)
        if len(known) < MOST_OF_FEW or count is not None:
            return list(known)
    return [Fire(at, at) for at in islice(occurrences(schedule, after=after, until=until), count)]


def _walked(schedule: Schedule, after: datetime, until: datetime | None, most: int) -> tuple[Fire, ...]:
    return tuple(Fire(at, at) for at in islice(occurrences(schedule, after=after, until=until), most))


_remembered = lru_cache(maxsize=512)(_walked)
_remembered_a_little = lru_cache(maxsize=4)(_walked)


class PlainCron(NamedTuple):
    """A cron schedule that nothing else decides about, in whole numbers: instants are microseconds since 1970, which a
    pass over very many triggers takes from the database and gives back to it without making objects of them.

    ``hash_key`` is empty unless the expression has an H, so that equal schedules are equal.
    """

    expression: str
    timezone: str
    hash_key: str = ""

    def instants(self, after: int, until: int, most: int) -> Sequence[int]:
        """The first ``most`` instants in (after, until], ascending."""
        return _cron_instants(self, after, until, most)

    def first(self, after: int) -> int | None:
        """The first instant strictly after ``after``; None if there is none any more."""
        return _cron_first(self, after)


class PlainInterval(NamedTuple):
    """As `PlainCron`: ``anchor + k * every`` for k >= 0, in microseconds."""

    every: int
    anchor: int

    def instants(self, after: int, until: int, most: int) -> Sequence[int]:
        return range(self._from(after), min(until, _LAST) + 1, self.every)[:most]

    def first(self, after: int) -> int | None:
        at = self._from(after)
        return at if at <= _LAST else None

    def _from(self, after: int) -> int:
        return self.anchor + max(0, (after - self.anchor) // self.every + 1) * self.every


@lru_cache(maxsize=1024)
def _cron_instants(cron: PlainCron, after: int, until: int, most: int) -> tuple[int, ...]:
    seconds = cron_seconds(
        parse_cron(cron.expression, cron.hash_key), load_zone(cron.timezone), after // _SECOND + 1, until // _SECOND
    )
    return tuple(second * _SECOND for second in islice(seconds, most))


@lru_cache(maxsize=4096)
def _cron_first(cron: PlainCron, after: int) -> int | None:
    seconds = cron_seconds(parse_cron(cron.expression, cron.hash_key), load_zone(cron.timezone), after // _SECOND + 1)
    second = next(seconds, None)
    return None if second is None else second * _SECOND
