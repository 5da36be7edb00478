"""A cron schedule under a calendar, a day at a time: a search of years then costs days and not occurrences."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache

from calendars.domain.openings import WHOLE, Openings, Parts, openings_of, weekly_superset, widened, without
from calendars.domain.rules import CalendarSpec
from calendars.domain.zones import DAY, LAST_SECOND, Zone, load_zone
from scheduler.domain.cron import Cron, matching_days, parse_cron
from scheduler.domain.occurrences import CronSchedule
from scheduler.domain.walk import cron_seconds

EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = LAST_SECOND // DAY
_DAYS_KEPT = 4096


class WallDays:
    """The days of a zone's wall clock, and the parts of each at which a calendar is open.

    Days are counted from 1970-01-01; parts are wall seconds since the day's midnight. A wall time stands for the first
    instant at which the clock shows it, or for the first one after the gap that skips it.
    """

    def __init__(self, zone: Zone, openings: Openings) -> None:
        self.zone, self.openings = zone, openings
        self._whole_days: dict[int, Parts] = {}

    def open_parts_of(self, day: int) -> Parts:
        """The parts of a whole day, as `open_parts`, kept for the next who asks."""
        parts = self._whole_days.get(day)
        if parts is None:
            if len(self._whole_days) >= _DAYS_KEPT:
                self._whole_days.clear()
            parts = self._whole_days[day] = self.open_parts(day)
        return parts

    def shift(self, day: int) -> int | None:
        """The zone's offset on a day around which no clock changes; None where one does."""
        first = self.zone.span_at((day - 2) * DAY)
        last = first if first.end > (day + 3) * DAY else self.zone.span_at((day + 3) * DAY)
        # Spans end with a year too, without any change.
        if last is first or (last.start == first.end and (last.offset, last.seen) == (first.offset, last.first_wall)):
            return first.offset
        return None

    def open_parts(self, day: int, low: int = 0, high: int = DAY) -> Parts:
        """The parts of [low, high) at which the calendar is open, ascending, apart from each other."""
        midnight, shift = day * DAY, self.shift(day)
        found: list[tuple[int, int]] = []
        if shift is not None:
            begin = midnight - shift
            for opening in self.openings.between(begin + low, begin + high):
                _append(found, opening.start - begin, opening.end - begin)
            return tuple(found)
        wall, end = midnight + low, midnight + high
        while wall < end:
            at = self.zone.to_utc(wall)
            span = self.zone.span_at(at)
            shown = at + span.offset
            if shown > wall:  # skipped: all these stand for the one instant after the gap
                skipped = min(shown, end)
                if next(self.openings.between(at, at + 1), None) is not None:
                    _append(found, wall - midnight, skipped - midnight)
                wall = skipped
                continue
            stop = min(span.end + span.offset, end)
            for opening in self.openings.between(at, stop - span.offset):
                _append(found, opening.start + span.offset - midnight, opening.end + span.offset - midnight)
            wall = stop
        return tuple(found)

    def first_reached_back(self, first: int, source: int) -> int:
        """The first day from ``first`` on to which times of ``source`` and later days may roll back: the latest one
        since which each time of day was open that is open on any day before."""
        reached, opened = source, ()
        for day in range(source - 1, first - 1, -1):
            parts = self.open_parts_of(day)
            if without(parts, opened):
                opened = without(WHOLE, without(without(WHOLE, opened), parts))
                reached = day - 1 if self.shift(day) is None else day
                if opened == WHOLE:
                    break
        return max(first, reached)

    def day_of(self, at: int) -> int:
        """The day that the clock shows at a UTC second."""
        return (at + self.zone.span_at(at).offset) // DAY


class CronDays(WallDays):
    """The days of a cron schedule under a calendar."""

    def __init__(self, schedule: CronSchedule, openings: Openings) -> None:
        super().__init__(load_zone(schedule.timezone), openings)
        self.cron = parse_cron(schedule.expression, schedule.hash_key)
        self._whole_days = wall_days(self.zone, openings)._whole_days  # those of all schedules of the zone
        self.times = times_of_day(self.cron)
        self._some_open: dict[Parts, bool] = {}

    def matching(self, first: int, last: int = _LAST_DAY) -> Iterator[int]:
        """The days in [first, last] that the expression names, ascending."""
        for ordinal in matching_days(self.cron, max(first + EPOCH_DAY, 1), min(last, _LAST_DAY) + EPOCH_DAY):
            yield ordinal - EPOCH_DAY

    def has_open_time(self, parts: Parts) -> bool:
        """Whether any time of the expression lies in one of the parts."""
        known = self._some_open.get(parts)
        if known is None:
            known = self._some_open[parts] = any(times_in(self.times, low, high) for low, high in parts)
            if len(self._some_open) > 1000:
                self._some_open.clear()
        return known

    def is_open_throughout(self, parts: Parts) -> bool:
        """Whether every time of the expression lies in one of the parts."""
        return sum(len(times_in(self.times, low, high)) for low, high in parts) == len(self.times)

    def first_open_day(self, first: int, last: int, *, any_day: bool = False) -> int | None:
        """The first day in [first, last] with an open time of the expression; None if none has.

        With ``any_day`` also days that the expression does not name. Years of one type are looked at once: there are
        fourteen types, so forty years cost as much as fourteen.
        """
        walked: set[object] = set()
        year, in_year, is_known = None, None, False
        for day in range(first, last + 1) if any_day else self.matching(first, last):
            day_year = date.fromordinal(day + EPOCH_DAY).year
            if day_year != year:
                if in_year is not None:
                    walked.add(in_year)
                # The first year may be entered in its middle.
                in_year = self.openings.year_type(day_year) if year is not None else None
                year, is_known = day_year, in_year is not None and in_year in walked
            if is_known:
                continue
            if self._may_fire(day, any_day):
                return day
        return None

    def _may_fire(self, day: int, any_day: bool) -> bool:
        if any_day or self.shift(day) is not None:
            return self.has_open_time(self.open_parts_of(day))
        # A clock changes: a time may come twice, or at the end of a gap.
        begin, end = self.zone.to_utc(day * DAY), self.zone.to_utc((day + 1) * DAY)
        return any(
            next(cron_seconds(self.cron, self.zone, opening.start, opening.end - 1), None) is not None
            for opening in self.openings.between(begin, end + 1)
        )


@lru_cache(maxsize=256)
def wall_days(zone: Zone, openings: Openings) -> WallDays:
    return WallDays(zone, openings)


def times_in(times: Sequence[int], low: int, high: int) -> Sequence[int]:
    """Those of the ascending ``times`` that lie in [low, high)."""
    return times[bisect_left(times, low) : bisect_left(times, high)]


@lru_cache(maxsize=256)
def times_of_day(cron: Cron) -> tuple[int, ...]:
    """The times of the expression, in wall seconds since midnight, ascending."""
    return tuple(hour * 3600 + second for hour in cron.hours for second in cron.in_hour)


@lru_cache(maxsize=256)
def cron_days(schedule: CronSchedule, spec: CalendarSpec) -> CronDays:
    return CronDays(schedule, openings_of(spec))


@lru_cache(maxsize=4096)
def may_ever_fire(schedule: CronSchedule, spec: CalendarSpec, year: int, *, any_day: bool = False) -> bool:
    """Whether the schedule has an open time from a year on; with ``any_day`` on a day of its or on another.

    False is certain. What closes the calendar on some holidays is passed over.
    """
    first = date(year, 1, 1).toordinal() - EPOCH_DAY
    weekly = cron_days(schedule, weekly_superset(spec))
    two_years = max(first, weekly.openings.last_named // DAY) + 2 * 366
    if weekly.first_open_day(first - 1, two_years, any_day=True) is None:
        return False
    days = cron_days(schedule, widened(spec))
    last = days.openings.search_limit(first * DAY) // DAY
    return days.first_open_day(first - 1, last, any_day=any_day) is not None


def _append(parts: list[tuple[int, int]], low: int, high: int) -> None:
    if parts and low <= parts[-1][1]:
        parts[-1] = (parts[-1][0], max(parts[-1][1], high))
    else:
        parts.append((low, high))
