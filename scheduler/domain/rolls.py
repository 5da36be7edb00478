"""Rolls: a blocked occurrence fires at its local time on the next (`following`) or previous (`preceding`) day that is
open at that instant.

The search goes from the days on which something may fire back, or ahead, to the occurrences that end there, through the
closed days between and no farther. So it reaches as far as the calendar is closed, however long that is, and what it
costs is days and the fires themselves.

The local time of an occurrence that a gap moved is the one that the schedule names; of several that one gap moved to
one instant, the one that the clock shows at that instant, else the first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from calendars.domain.openings import Openings, Parts, daily_superset, without
from calendars.domain.zones import DAY, load_zone, to_instant, to_seconds
from scheduler.domain.blocked import advanced, interval_may_ever_fire
from scheduler.domain.cron_days import CronDays, WallDays, cron_days, may_ever_fire, times_in, wall_days
from scheduler.domain.occurrences import (
    TICK,
    CronSchedule,
    Fire,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
    earliest,
    occurrences_from,
    to_micro,
)

_SECOND = 1_000_000
_HOUR = 3600
_MANY_TIMES = 200

MOST_IDLE = 60
"""After so many open days without a fire it is asked whether there will ever be one."""


def rolled(
    schedule: Schedule,
    after: datetime,
    until: datetime | None,
    openings: Openings,
    since: datetime | None,
    *,
    back: bool,
) -> Iterator[Fire]:
    """The fires in (after, until], ascending, each instant once, with the earliest occurrence that led to it.

    Occurrences at or before ``since`` do not count.
    """
    if since is not None:
        after = max(after, since)
    if isinstance(schedule, OnceSchedule):
        fire = _rolled_once(schedule, openings, after, since, back)
        within = fire is not None and after < fire.at and (until is None or fire.at <= until)
        return iter([fire] if fire is not None and within else [])
    sources = _CronSources(schedule, openings) if isinstance(schedule, CronSchedule) else _Lattice(schedule, openings)
    return _Rolls(schedule, sources, openings, since, back).fires(after, until)


class _CronSources:
    """The days of a cron schedule as sources of rolls: all of one key, for each has the same times."""

    def __init__(self, schedule: CronSchedule, openings: Openings) -> None:
        self.schedule = schedule
        self.days: CronDays = cron_days(schedule, openings.spec)
        self.is_dense = len(self.days.times) > _MANY_TIMES

    def key(self, day: int) -> Hashable | None:
        """What decides the day's times of day; None where it has none. For days without a change of the clock."""
        return 0 if next(self.days.matching(day, day), None) is not None else None

    def times(self, _key: Hashable, low: int, high: int) -> Iterable[int]:
        """The times of a day of that key within [low, high), in microseconds."""
        return [time * _SECOND for time in times_in(self.days.times, low, high)]

    def named_times(self, day: int, low: int, high: int) -> Iterator[tuple[int, datetime]]:
        """Each occurrence of a day on which a clock changes, by the time of day that is its own, in microseconds."""
        if self.days.cron.fixed:
            if self.key(day) is None:
                return
            times: dict[int, int] = {}
            for time in times_in(self.days.times, low, high):
                at = self.days.zone.to_utc(day * DAY + time)
                shown = at + self.days.zone.offset_at(at) - day * DAY
                if at not in times or shown == time:
                    times[at] = time
            for at, time in times.items():
                yield time * _SECOND, to_instant(at)
        else:
            yield from _shown_times(self.schedule, self.days, day, low, high)


class _Lattice:
    """The days of an interval: those of one key have the same times of day."""

    def __init__(self, schedule: IntervalSchedule, openings: Openings) -> None:
        self.schedule = schedule
        self.days = wall_days(load_zone(schedule.timezone), openings)
        self.every, self.anchor = schedule.every // TICK, to_micro(schedule.anchor)
        self.is_dense = schedule.every * _MANY_TIMES < timedelta(days=1)

    def key(self, day: int) -> Hashable | None:
        midnight = (day * DAY - (self.days.shift(day) or 0)) * _SECOND
        return (self.anchor - midnight) % self.every

    def times(self, key: Hashable, low: int, high: int) -> Iterable[int]:
        phase = int(key)  # type: ignore[call-overload]
        first = phase + -((phase - low * _SECOND) // self.every) * self.every
        return range(first, high * _SECOND, self.every)

    def named_times(self, day: int, low: int, high: int) -> Iterator[tuple[int, datetime]]:
        return _shown_times(self.schedule, self.days, day, low, high)


def _shown_times(schedule: Schedule, days: WallDays, day: int, low: int, high: int) -> Iterator[tuple[int, datetime]]:
    """The occurrences at which the clock shows a time in [low, high) of the day: a time may come twice."""
    first, end = day * DAY + low, day * DAY + high
    at, stop = days.zone.to_utc(first) - DAY, days.zone.to_utc(end) + DAY
    while at < stop:
        span = days.zone.span_at(at)
        shown_from, shown_to = max(span.start, first - span.offset), min(span.end, end - span.offset)
        if shown_from < shown_to:
            midnight = to_instant(day * DAY - span.offset)
            for occurrence in occurrences_from(schedule, to_instant(shown_from), to_instant(shown_to) - TICK):
                yield (occurrence - midnight) // TICK, occurrence
        at = span.end


@dataclass(frozen=True, slots=True)
class _Met:
    """A day whose blocked occurrences roll: at all times of its key within ``parts``, or at the ``named`` times."""

    day: int
    key: Hashable
    parts: Parts
    named: Mapping[int, datetime]


class _Rolls:
    """One search."""

    def __init__(
        self,
        schedule: Schedule,
        sources: _CronSources | _Lattice,
        openings: Openings,
        since: datetime | None,
        back: bool,
    ) -> None:
        self.schedule, self.sources, self.openings, self.back = schedule, sources, openings, back
        self.days: WallDays = sources.days
        self.since = max(earliest(schedule, None) - TICK, since or to_instant(0))
        self.first_source = self.days.day_of(to_seconds(self.since))

    def fires(self, after: datetime, until: datetime | None) -> Iterator[Fire]:
        if not self.back:
            after = max(after, self.since)
        start = to_seconds(after)
        limit = self.openings.search_limit(start)
        last = limit if until is None else min(limit, to_seconds(until))
        self.last_source = self.openings.search_limit(last) // DAY
        size = _HOUR if self.sources.is_dense else DAY
        wall = (start + self.days.zone.offset_at(start)) // size * size
        if self.days.shift(wall // DAY) is None:
            wall -= DAY
        if self.back and isinstance(self.sources, _Lattice):
            begins = min(self.first_source, last // DAY + 1)  # before it there are no occurrences
            wall = max(wall, self.days.first_reached_back(wall // DAY, begins) * DAY)
        waiting: dict[datetime, datetime] = {}
        idle = 0
        while (begin := self.days.zone.to_utc(wall)) <= last:
            end = self.days.zone.to_utc(wall + size)
            found: list[tuple[datetime, datetime]] = []
            if self._may_fire(wall, size):
                own_from, own_to = (
                    max(to_instant(begin) - TICK, after),
                    min(to_instant(end) - TICK, to_instant(last + 1)),
                )
                found += ((fire.at, fire.at) for fire in advanced(self.schedule, own_from, own_to, self.openings))
                found += self._rolled_into(wall, size, start, last)
            for at, occurrence in found:
                waiting[at] = min(occurrence, waiting.get(at, occurrence))
            idle += 1
            # What a gap moves to its end may meet what the next chunk has there: it waits.
            for at in sorted(at for at in waiting if to_seconds(at) < end):
                fire = Fire(at, waiting.pop(at))
                if after < at and (until is None or at <= until):
                    idle = 0
                    yield fire
            if idle % MOST_IDLE == MOST_IDLE - 1 and self._is_never(begin):
                break
            following = self._next_chunk(wall, size, last)
            if following is None:
                break
            wall = following
        for at in sorted(waiting):
            if after < at and (until is None or at <= until):
                yield Fire(at, waiting[at])

    def _rolled_into(self, wall: int, size: int, start: int, last: int) -> Iterator[tuple[datetime, datetime]]:
        """What rolls to the instants of a chunk of wall time that lie in [start, last]."""
        day, low = divmod(wall, DAY)
        high = low + size
        shift = self.days.shift(day)
        if shift is not None:
            low, high = max(low, start + shift - day * DAY), min(high, last + 1 + shift - day * DAY)
        parts = self.days.open_parts(day, low, high) if low < high else ()
        if not parts or not self._has_times(parts):
            return
        for time, occurrence in self._rolled_to(day, parts).items():
            yield self._instant(day, time), occurrence

    def _rolled_to(self, day: int, parts: Parts) -> dict[int, datetime]:
        """The times of the day, in microseconds, to which a blocked occurrence rolls, with the earliest of those."""
        low, high = parts[0][0], parts[-1][1]
        alive = parts  # the times at which each day between is closed
        met: dict[Hashable, _Met] = {}
        source = day
        while alive:
            source += 1 if self.back else -1
            if source > self.last_source or (self.back and not self._has_more(source)):
                break
            if source < self.first_source and not self.back:
                break
            closed = without(alive, self.days.open_parts(source, low, high))
            if not self.back and closed == ((low, high),):
                source, alive = self._through_closure(met, source, closed), closed
                continue
            self._meet(met, source, low, high, alive, closed)
            if self.back and isinstance(self.sources, _CronSources) and any(one.parts for one in met.values()):
                break  # each time that is alive has its nearest, and so its earliest, occurrence
            alive = closed
        return self._earliest_of(met.values())

    def _meet(self, met: dict[Hashable, _Met], day: int, low: int, high: int, alive: Parts, closed: Parts) -> None:
        """Add what a day has: at times that were alive where a clock changes, else at those at which it is closed."""
        if self.days.shift(day) is None or day == self.first_source:
            met["named", day] = _Met(day, None, (), self._blocked_times(day, low, high, alive))
        elif closed and day > self.first_source and (key := self.sources.key(day)) is not None:
            if not self.back:
                met.pop((key, closed), None)  # what is farther is said last
                met[key, closed] = _Met(day, key, closed, {})
            else:
                met.setdefault((key, closed), _Met(day, key, closed, {}))

    def _through_closure(self, met: dict[Hashable, _Met], source: int, parts: Parts) -> int:
        """Meet the days of the closure in which ``source`` lies, closed at all of ``parts``; return its first day."""
        [(low, high)] = parts
        at = self.days.zone.to_utc(source * DAY + low)
        floor = min(self.days.zone.to_utc(self.first_source * DAY), at)
        first = min(self.days.day_of(self.openings.closed_since(at, floor)) + 1, source)
        days: Iterable[int] = range(first, source + 1)
        if isinstance(self.sources, _CronSources):
            days = self.sources.days.matching(first, source)
        for day in reversed(list(self._with_new_times(days))):
            self._meet(met, day, low, high, parts, parts)
        return first

    def _with_new_times(self, days: Iterable[int]) -> Iterator[int]:
        """Those of the days of a closure, ascending, that have times which no earlier one has."""
        seen: set[Hashable] = set()
        for day in days:
            if self.days.shift(day) is None or day == self.first_source:
                # It has times of the days before a change of the clock and of those after it.
                if self.sources.key(day + 6) not in seen or self.days.shift(day + 6) is None:
                    yield day
            elif (key := self.sources.key(day)) not in seen:
                seen.add(key)
                yield day
                if isinstance(self.sources, _CronSources):
                    return

    def _earliest_of(self, met: Iterable[_Met]) -> dict[int, datetime]:
        """The earliest occurrence of each time, from days in the order in which they were met."""
        found: dict[int, datetime] = {}
        for one in met:
            times = dict(one.named)
            for low, high in one.parts:
                times |= {time: self._instant(one.day, time) for time in self.sources.times(one.key, low, high)}
            found = {**times, **found} if self.back else {**found, **times}
        return found

    def _blocked_times(self, day: int, low: int, high: int, alive: Parts) -> dict[int, datetime]:
        named: dict[int, datetime] = {}
        for time, at in self.sources.named_times(day, low, high):
            is_alive = any(begin * _SECOND <= time < end * _SECOND for begin, end in alive)
            if is_alive and at > self.since and not _is_open(self.openings, at):
                named.setdefault(time, at)
        return named

    def _instant(self, day: int, time: int) -> datetime:
        """The first instant at which the clock shows a time of a day, or the first one after the gap that skips it."""
        shift = self.days.shift(day)
        if shift is not None:
            return to_instant(day * DAY - shift) + time * TICK
        return _first_shown(self.days, day, time)

    def _may_fire(self, wall: int, size: int) -> bool:
        day, low = divmod(wall, DAY)
        return self.days.shift(day) is None or self._has_times(self.days.open_parts(day, low, low + size))

    def _has_times(self, parts: Parts) -> bool:
        return not isinstance(self.sources, _CronSources) or self.sources.days.has_open_time(parts)

    def _has_more(self, day: int) -> bool:
        return isinstance(self.sources, _Lattice) or next(self.sources.days.matching(day), None) is not None

    def _is_never(self, at: int) -> bool:
        spec = self.openings.spec
        if isinstance(self.schedule, CronSchedule):
            return not may_ever_fire(self.schedule, spec, to_instant(at).year, any_day=True)
        if isinstance(self.schedule, IntervalSchedule) and self.days.zone.name in ("UTC", self.openings.zone.name):
            # A roll keeps the local time, and another occurrence has that time in any season.
            return not interval_may_ever_fire(self.schedule, daily_superset(spec), at)
        return False

    def _next_chunk(self, wall: int, size: int, last: int) -> int | None:
        """The next chunk of wall time that may have a fire."""
        wall += size
        if wall % DAY == 0 and isinstance(self.sources, _CronSources):
            day = self._next_day(self.sources.days, wall // DAY - 1, last)
            if day is None:
                return None
            wall = max(wall, day * DAY)
        opening = self.openings.at_or_after(self.days.zone.to_utc(wall), last)
        if opening is None:
            return None
        chunk = (opening.start + self.days.zone.offset_at(opening.start)) // size * size
        if self.days.shift(chunk // DAY) is None:
            chunk -= DAY  # a gap may move times of the day before to the instant at which it opens
        return max(wall, chunk)

    def _next_day(self, days: CronDays, day: int, last: int) -> int | None:
        """The next day on which the schedule may fire, after ``day``; None if there is none any more."""
        coming = next(days.matching(day + 1), None)
        if self.back:
            if coming is None:
                return None
            if self._reach is None or self._reach[0] != coming:
                # Whatever is blocked from then on rolls to the last day before on which all is open, or later.
                open_day = coming - 1
                while open_day > day and not self._is_all_open(days, open_day):
                    open_day -= 1
                self._reach = (coming, open_day)
            return max(day + 1, self._reach[1])
        if not self._is_all_open(days, day):
            return day + 1
        return coming  # nothing is on its way

    _reach: tuple[int, int] | None = None

    def _is_all_open(self, days: CronDays, day: int) -> bool:
        return days.shift(day) is not None and days.is_open_throughout(days.open_parts_of(day))


def _rolled_once(
    schedule: OnceSchedule, openings: Openings, after: datetime, since: datetime | None, back: bool
) -> Fire | None:
    occurrence = schedule.at
    if since is not None and occurrence <= since:
        return None
    if _is_open(openings, occurrence):
        return Fire(occurrence, occurrence)
    days = wall_days(load_zone(schedule.timezone), openings)
    second = to_seconds(occurrence)
    day, time = divmod(to_micro(occurrence) + days.zone.offset_at(second) * _SECOND, DAY * _SECOND)
    limit = openings.search_limit(second)
    if openings.is_weekly:
        limit = min(limit, max(second, openings.last_named) + 2 * 366 * DAY)  # every week with each offset of a year
    while True:
        day += -1 if back else 1
        at = _first_shown(days, day, time)
        if at <= after if back else to_seconds(at) > limit:
            return None
        if _is_open(openings, at):
            return Fire(at, occurrence)


def _first_shown(days: WallDays, day: int, time: int) -> datetime:
    wall, micro = divmod(time, _SECOND)
    at = days.zone.to_utc(day * DAY + wall)
    is_shown = at + days.zone.offset_at(at) == day * DAY + wall
    return to_instant(at) + (micro if is_shown else 0) * TICK


def _is_open(openings: Openings, at: datetime) -> bool:
    second = to_seconds(at)
    return next(openings.between(second, second + 1), None) is not None
