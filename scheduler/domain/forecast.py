"""How many occurrences lie in stretches of time, by arithmetic, and which of them a calendar blocks.

A minutely job has 44,640 occurrences in a month; a thousand such jobs are never walked through. An interval is divided,
a cron expression is counted by days, hours and what an hour holds: a count costs a few look-ups, whatever it counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, islice, pairwise

from calendars.domain.openings import Openings
from calendars.domain.reasons import NEVER_OPEN, holiday_name
from calendars.domain.rules import OnBlocked
from calendars.domain.zones import DAY, Span, Zone, load_zone, to_instant, to_seconds
from scheduler.domain.cron import Cron, matching_days, parse_cron
from scheduler.domain.cron_days import wall_days
from scheduler.domain.occurrences import TICK, to_micro
from scheduler.domain.schedules import CronSchedule, IntervalSchedule, OnceSchedule, Schedule, occurrences
from scheduler.domain.walk import cron_seconds

_SECOND = 1_000_000
_SPARE_DAYS = 3  # before the first and after the last day: a zone's day is up to one apart
_EPOCH_DAY = date(1970, 1, 1).toordinal()
MOST_DAYS_MOVED = 400

OpenParts = Sequence[tuple[int, int]]
"""Half-open stretches of UTC seconds, ascending, apart from each other."""

Counter = Callable[[Sequence[int]], list[int]]
"""For instants in microseconds: how many occurrences there are up to and with each, from a fixed one on."""


@lru_cache(maxsize=256)
def open_parts(gates: tuple[Openings, ...], start: datetime, end: datetime) -> OpenParts:
    """When all of ``gates`` are open, from the second of ``start`` to the one of ``end``. Kept: a page asks it of every
    trigger of a calendar."""
    parts: OpenParts = [(to_seconds(start), to_seconds(end) + 1)]
    for gate in gates:
        parts = list(_both(parts, [(o.start, o.end) for o in gate.between(parts[0][0], parts[-1][1])] if parts else []))
    return tuple(parts)


def closed_parts(parts: OpenParts, start: datetime, end: datetime) -> OpenParts:
    """What is between ``parts``, from the second of ``start`` to the one of ``end``."""
    edges = [to_seconds(start), *(edge for part in parts for edge in part), to_seconds(end) + 1]
    return [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high]


def counts(schedule: Schedule, edges: Sequence[int], parts: OpenParts | None = None) -> list[int]:
    """How many occurrences are in each (edge, next edge], and with ``parts`` only of those within them. Edges are
    microseconds since 1970 (`to_micro`), ascending; equal ones have nothing between them."""
    upto = _counter(schedule, edges[0] // _SECOND, edges[-1] // _SECOND)
    totals = upto(edges) if parts is None else _totals_within(upto, edges, parts)
    return [after - before for before, after in pairwise(totals)]


def blocked(
    schedule: Schedule, gate: Openings, closed: OpenParts, *, after: datetime, until: datetime
) -> Iterator[tuple[datetime, str]]:
    """The occurrences in (after, until] at which the calendar is closed, with what closes it, ascending. ``closed``:
    the stretches to look at; between them it jumps."""
    for low, high in closed:
        first, last = max(after, to_instant(low) - TICK), min(until, to_instant(high) - TICK)
        if last > first:
            for at in occurrences(schedule, after=first, until=last):
                yield at, why_closed(gate, at)


def where_moved(at: datetime, zone: Zone, gate: Openings, policy: OnBlocked, *, since: datetime) -> datetime | None:
    """Where a blocked occurrence goes that does not only give way to later ones; for `preceding` that may be past, but
    not at or before ``since``. None: nowhere, or farther than `MOST_DAYS_MOVED`."""
    second = to_seconds(at)
    if policy is OnBlocked.DEFER:
        opening = gate.at_or_after(second, second + MOST_DAYS_MOVED * DAY)
        return None if opening is None else to_instant(opening.start)
    day, time = divmod(second + zone.offset_at(second), DAY)
    days = wall_days(zone, gate)
    step = -1 if policy is OnBlocked.PRECEDING else 1
    for moved_day in range(day + step, day + step * (MOST_DAYS_MOVED + 1), step):
        if any(low <= time < high for low, high in days.open_parts_of(moved_day)):
            target = zone.to_utc(moved_day * DAY + time)
            is_shown = target + zone.offset_at(target) == moved_day * DAY + time
            moved = to_instant(target) + (at - to_instant(second) if is_shown else timedelta())
            return moved if moved > since else None
    return None


def why_closed(gate: Openings, at: datetime) -> str:
    """The name of the rule that closes the calendar, or that of the holiday; "" for a rule without a name."""
    rule = gate.decision(to_seconds(at)).rule
    if rule is None:
        return NEVER_OPEN
    return holiday_name(rule, at.astimezone(gate.zone.info).date()) or rule.name


def _both(one: OpenParts, other: OpenParts) -> Iterator[tuple[int, int]]:
    """The stretches that are in both; of two that touch it makes one."""
    kept: tuple[int, int] | None = None
    at = 0
    for low, high in one:
        while at < len(other) and other[at][1] <= low:
            at += 1
        for begin, end in islice(other, at, None):
            if begin >= high:
                break
            part = max(low, begin), min(high, end)
            if kept is not None and kept[1] == part[0]:
                kept = kept[0], part[1]
                continue
            if kept is not None:
                yield kept
            kept = part
    if kept is not None:
        yield kept


def _totals_within(upto: Counter, micros: Sequence[int], parts: OpenParts) -> list[int]:
    """For each instant how many occurrences lie in the parts up to it."""
    before = upto([low * _SECOND - 1 for low, _ in parts])
    after = upto([high * _SECOND - 1 for _, high in parts])
    totals: list[int] = []
    done = at = 0
    for micro, found in zip(micros, upto(micros), strict=True):
        while at < len(parts) and parts[at][1] * _SECOND <= micro + 1:
            done += after[at] - before[at]
            at += 1
        begun = at < len(parts) and parts[at][0] * _SECOND <= micro
        totals.append(done + (found - before[at] if begun else 0))
    return totals


def _counter(schedule: Schedule, first: int, last: int) -> Counter:
    match schedule:
        case CronSchedule():
            cron = parse_cron(schedule.expression, schedule.hash_key)
            return _CronCounter(cron, load_zone(schedule.timezone), first, last)
        case IntervalSchedule():
            anchor, every = to_micro(schedule.anchor), schedule.every // TICK
            return lambda micros: [max(0, (micro - anchor) // every + 1) for micro in micros]
        case OnceSchedule():
            at = to_micro(schedule.at)
            return lambda micros: [int(micro >= at) for micro in micros]


class _CronCounter:
    """The fires of a cron expression from ``first`` on, for instants up to ``last``.

    Within a span of constant offset the fires are the matching walls from a first one on; what a gap or a fold does
    happens at the span's begin, where `cron_seconds` itself is asked.
    """

    def __init__(self, cron: Cron, zone: Zone, first: int, last: int) -> None:
        self._cron, self._zone, self._first, self._last = cron, zone, first, last
        self._hours_before = [bisect_left(cron.hours, hour) * len(cron.in_hour) for hour in range(25)]
        first_day, last_day = first // DAY - _SPARE_DAYS, last // DAY + _SPARE_DAYS
        days = set(matching_days(cron, first_day + _EPOCH_DAY, last_day + _EPOCH_DAY))
        self._matches = [day + _EPOCH_DAY in days for day in range(first_day, last_day + 1)]
        a_day = self._hours_before[24]
        self._days_before = list(accumulate((a_day if matches else 0 for matches in self._matches), initial=0))
        self._spans: list[int] = []  # what is added to the walls before an instant of the span
        self._totals: list[int] = []  # the fires up to and with the span's first second
        total = 0
        for at, span in _spans(zone, first, last):
            total += len(list(cron_seconds(cron, zone, at, at)))
            low = max(at + span.offset + 1, span.seen) if cron.fixed else at + span.offset + 1
            before = self._walls_before(*_place(low, first_day))
            self._totals.append(total)
            self._spans.append(total - before)
            end = min(span.end, last + 1) + span.offset
            total += max(0, self._walls_before(*_place(end, first_day)) - before)

    def __call__(self, micros: Sequence[int]) -> list[int]:
        places = _places(self._zone, self._first, self._last, tuple(micros))
        totals, spans, walls_before = self._totals, self._spans, self._walls_before
        return [
            0 if span < 0 else max(totals[span], spans[span] + walls_before(day, hour, second))
            for span, day, hour, second in places
        ]

    def _walls_before(self, day: int, hour: int, second: int) -> int:
        found = self._days_before[day]
        if self._matches[day]:
            found += self._hours_before[hour]
            if second and self._hours_before[hour + 1] > self._hours_before[hour]:
                found += bisect_left(self._cron.in_hour, second)
        return found


def _place(wall: int, first_day: int) -> tuple[int, int, int]:
    """The day, counted from ``first_day``, the hour and the second of the hour of a wall second."""
    day, second = divmod(wall, DAY)
    return day - first_day, *divmod(second, 3600)


@lru_cache(maxsize=256)
def _spans(zone: Zone, first: int, last: int) -> list[tuple[int, Span]]:
    """The zone's spans from ``first`` to ``last``, each with the second at which it is entered."""
    found = []
    at = first
    while at <= last:
        span = zone.span_at(at)
        found.append((at, span))
        at = span.end
    return found


@lru_cache(maxsize=256)
def _places(zone: Zone, first: int, last: int, micros: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """For each instant its span (-1: before the first) and where the wall second after it lies. The same for all
    schedules of a zone, and made once."""
    spans = _spans(zone, first, last)
    starts = [at for at, _ in spans]
    first_day = first // DAY - _SPARE_DAYS
    found = []
    for micro in micros:
        second = min(micro // _SECOND, last)
        at = bisect_right(starts, second) - 1
        found.append((at, *_place(second + 1 + spans[at][1].offset, first_day)))
    return found
