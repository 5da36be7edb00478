"""When a calendar is open. The search jumps from opening to opening; it never asks instant by instant."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache

from calendars.domain import holiday_days
from calendars.domain.rules import CalendarSpec, Effect, Rule
from calendars.domain.zones import DAY, LAST_SECOND, load_zone, to_instant, to_seconds

_EPOCH_DAY = date(1970, 1, 1).toordinal()

# Every pattern of weekday, month day and leap day comes round within 40 years, also over 2100.
_LONGEST_SEARCH = 40 * 366 * DAY

_DAYS_KEPT = 4096

_LONG = 100 * DAY
"""The longest stretch found closed is kept if it is longer: who asks again does not walk through it again."""

Parts = tuple[tuple[int, int], ...]
"""Half-open parts of a day in seconds since its midnight, ascending, apart from each other."""

WHOLE: Parts = ((0, DAY),)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the calendar is open, and the rule that decides: None where no rule matched."""

    open: bool
    rule: Rule | None


@dataclass(frozen=True, slots=True)
class Opening:
    """UTC seconds [start, end) during which the calendar is open. It may also be open after ``end``: ask there."""

    start: int
    end: int


def is_open(spec: CalendarSpec, instant: datetime) -> Decision:
    """Whether it is open at an aware instant. An exclude rule that matches decides before any include rule."""
    return openings_of(spec).decision(to_seconds(instant))


def next_open(spec: CalendarSpec, after: datetime) -> datetime | None:
    """The first instant at or after ``after`` at which it is open; None if it is closed for good (40 years)."""
    at = to_seconds(after)
    opening = openings_of(spec).at_or_after(at)
    if opening is None:
        return None
    return after if opening.start <= at else to_instant(opening.start)


@lru_cache(maxsize=1024)
def openings_of(spec: CalendarSpec) -> Openings:
    return Openings(spec)


def widened(spec: CalendarSpec) -> CalendarSpec:
    """The calendar as if no holiday closed it: wherever ``spec`` is open, so is this."""
    rules = (rule for rule in spec.rules if rule.effect is Effect.INCLUDE or rule.holidays is None)
    return CalendarSpec(spec.timezone, tuple(rules))


def weekly_superset(spec: CalendarSpec) -> CalendarSpec:
    """A calendar of weekdays and windows alone that is open wherever ``spec`` is."""
    rules = [
        Rule(rule.effect, weekdays=rule.weekdays, window=rule.window)
        for rule in spec.rules
        if rule.effect is Effect.INCLUDE or rule == Rule(rule.effect, rule.name, rule.weekdays, window=rule.window)
    ]
    return CalendarSpec(spec.timezone, tuple(rules))


def daily_superset(spec: CalendarSpec) -> CalendarSpec:
    """A calendar of windows alone, the same on each day, that is open wherever ``spec`` is."""
    rules = (Rule(rule.effect, window=rule.window) for rule in spec.rules if rule.effect is Effect.INCLUDE)
    return CalendarSpec(spec.timezone, tuple(rules))


class Openings:
    """A calendar made ready for search. ``days_looked_at`` counts the days that all searches so far asked about."""

    def __init__(self, spec: CalendarSpec) -> None:
        self.spec = spec
        self.zone = load_zone(spec.timezone)
        self._rules = [_Compiled(rule) for rule in spec.rules]
        self._has_include = any(rule.rule.effect is Effect.INCLUDE for rule in self._rules)
        self._solid = [
            rule.range_ordinals for rule in self._rules if rule.is_bare_range and rule.rule.effect is Effect.EXCLUDE
        ]
        ends = [day for rule in self._rules for day in rule.named_days]
        self._last_named = (max(ends) - _EPOCH_DAY) * DAY if ends else 0
        self._has_holidays = any(rule.rule.holidays is not None for rule in self._rules)
        # The days around count too: a schedule's day begins on another day of a calendar far away.
        self._named_years = {
            date.fromordinal(min(day + k, date.max.toordinal())).year
            for rule in self._rules
            for day in rule.named_days
            for k in (-2, 0, 2)
        }
        self._ranges = [rule.range_ordinals for rule in self._rules if rule.rule.date_range is not None]
        self._by_offset = any(rule.rule.period for rule in self._rules)
        self._kept: dict[tuple[int, int], Parts] = {}
        self._closed = (0, 0)
        self.days_looked_at = 0

    def decision(self, at: int) -> Decision:
        """Whether it is open at a UTC second, and by which rule."""
        wall = at + self.zone.span_at(at).offset
        day, second = divmod(wall, DAY)
        included: Rule | None = None
        for rule in self._rules:
            if any(low <= second < high for low, high in rule.parts(day + _EPOCH_DAY, wall - at)):
                if rule.rule.effect is Effect.EXCLUDE:
                    return Decision(False, rule.rule)
                included = included or rule.rule
        return Decision(included is not None or not self._has_include, included)

    def at_or_after(self, at: int, until: int | None = None) -> Opening | None:
        """The first opening that ends after ``at``, cut to begin at ``at``; None if none begins by ``until``.

        Without ``until`` it looks 40 years beyond ``at`` and beyond the last date that a rule names.
        """
        limit = self.search_limit(at)
        if until is not None:
            limit = min(limit, until + 1)
        known, end = self._closed
        opening = self._search(at, min(known, limit)) if at < known else None
        if opening is None:
            opening = self._search(max(at, end) if known < limit else limit, limit)
            closed_to = limit if opening is None else opening.start
            if closed_to - at > max(_LONG, end - known):
                self._closed = at, closed_to
        return opening

    def _search(self, at: int, limit: int) -> Opening | None:
        while at < limit:
            span = self.zone.span_at(at)
            wall, stop = at + span.offset, min(span.end, limit) + span.offset
            day = wall // DAY
            while day * DAY < stop:
                for low, high in self._parts(day, span.offset):
                    start, end = max(day * DAY + low, wall), min(day * DAY + high, span.end + span.offset)
                    if start < min(end, stop):
                        return Opening(start - span.offset, end - span.offset)
                day = self._after_solid_range(day)
            at = max(span.end, day * DAY - 2 * DAY)
        return None

    def between(self, start: int, end: int) -> Iterator[Opening]:
        """The openings within [start, end), ascending, cut to it; two may touch."""
        while start < end and (opening := self.at_or_after(start, end - 1)) is not None:
            yield Opening(opening.start, min(opening.end, end))
            start = opening.end

    def search_limit(self, at: int) -> int:
        """Where a search from ``at`` gives up: 40 years beyond it, and beyond the last date that a rule names."""
        return min(max(at, self._last_named) + _LONGEST_SEARCH, LAST_SECOND)

    def year_type(self, year: int) -> Hashable | None:
        """What decides the days of a year: two years of one type are open on the same days. None: it is like no other,
        for a rule names days of it, or holidays decide, which no pattern foretells."""
        if self._has_holidays or year in self._named_years:
            return None
        first = date(year, 1, 1).toordinal()
        ranges = tuple(low <= first <= high for low, high in self._ranges)
        return first % 7, date(year, 12, 31).toordinal() - first, ranges

    @property
    def is_weekly(self) -> bool:
        """Whether every week beyond the last named date is open like the one before it."""
        return not self._has_holidays and not any(
            rule.rule.month_days or rule.rule.yearly_dates for rule in self._rules
        )

    @property
    def last_named(self) -> int:
        """The UTC second, give or take a day, of the last date that a rule names one by one; 0 if none does."""
        return self._last_named

    def closed_since(self, at: int, floor: int) -> int:
        """The first second of the closure that contains the closed second ``at``, but not before ``floor``."""
        while at > floor:
            span = self.zone.span_at(at)
            wall, first = at + span.offset, max(span.start, floor) + span.offset
            for day in range(wall // DAY, first // DAY - 1, -1):
                for low, high in reversed(self._parts(day, span.offset)):
                    if max(day * DAY + low, first) < min(day * DAY + high, wall):
                        return min(day * DAY + high, wall) - span.offset
            at = span.start - 1
        return floor

    def _after_solid_range(self, day: int) -> int:
        """The next day to look at: the following one, or the one after a date range that closes whole days."""
        ordinal = day + _EPOCH_DAY
        for start, end in self._solid:
            if start <= ordinal <= end:
                return end + 1 - _EPOCH_DAY
        return day + 1

    def _parts(self, day: int, offset: int) -> Parts:
        key = (day, offset if self._by_offset else 0)
        parts = self._kept.get(key)
        if parts is None:
            self.days_looked_at += 1
            if len(self._kept) >= _DAYS_KEPT:
                self._kept.clear()
            parts = self._kept[key] = self._open_parts(day + _EPOCH_DAY, offset)
        return parts

    def _open_parts(self, ordinal: int, offset: int) -> Parts:
        included: list[tuple[int, int]] = []
        excluded: list[tuple[int, int]] = []
        for rule in self._rules:
            parts = rule.parts(ordinal, offset)
            if rule.rule.effect is Effect.INCLUDE:
                included.extend(parts)
            elif parts is WHOLE:
                return ()
            else:
                excluded.extend(parts)
        opened = _union(included) if self._has_include else WHOLE
        return without(opened, _union(excluded)) if excluded else opened


class _Compiled:
    """A rule made ready to be asked about days."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.range_ordinals = (1, date.max.toordinal())
        if rule.date_range is not None:
            start, end = rule.date_range
            self.range_ordinals = (start.toordinal() if start else 1, end.toordinal() if end else date.max.toordinal())
        self._tests: list[Callable[[int], bool]] = []
        if rule.date_range is not None:
            low, high = self.range_ordinals
            self._tests.append(lambda ordinal: low <= ordinal <= high)
        if rule.weekdays:
            wanted = frozenset(weekday % 7 for weekday in rule.weekdays)
            self._tests.append(lambda ordinal: ordinal % 7 in wanted)  # ordinal 1 is a Monday
        if rule.dates:
            ordinals = frozenset(day.toordinal() for day in rule.dates)
            self._tests.append(lambda ordinal: ordinal in ordinals)
        if rule.month_days:
            self._tests.append(self._is_month_day)
        if rule.yearly_dates:
            self._tests.append(self._is_yearly_date)
        if rule.holidays is not None:
            self._tests.append(self._is_holiday)
        self._low, self._high = 0, DAY
        if rule.window is not None:
            self._low, self._high = (t.hour * 3600 + t.minute * 60 + t.second for t in rule.window)
        self._period = tuple(to_seconds(instant) for instant in rule.period) if rule.period else None

    @property
    def is_bare_range(self) -> bool:
        """Whether it is a date range that ends, and nothing else."""
        rule = self.rule
        return (
            len(self._tests) == 1
            and rule.date_range is not None
            and rule.date_range[1] is not None
            and not (rule.window or rule.period)
        )

    @property
    def named_days(self) -> list[int]:
        """Ordinals of the days that the rule names one by one, and of the ends of its range and its period."""
        days = list(self.rule.dates)
        days += [day for day in (self.rule.date_range or ()) if day is not None]
        days += [instant.date() for instant in (self.rule.period or ())]
        return [day.toordinal() for day in days]

    def parts(self, ordinal: int, offset: int) -> Parts:
        """The parts of a day at which the rule matches, where the zone's offset is ``offset``."""
        if self._low < self._high:
            if not self._matches(ordinal):
                return ()
            parts = WHOLE if self._high - self._low == DAY else ((self._low, self._high),)
        else:  # over midnight
            parts = ((0, self._high),) if self._high and self._matches(ordinal - 1) else ()
            if self._matches(ordinal):
                parts = (*parts, (self._low, DAY))
        if self._period is not None:
            midnight = (ordinal - _EPOCH_DAY) * DAY - offset
            low, high = (instant - midnight for instant in self._period)
            parts = tuple((max(a, low), min(b, high)) for a, b in parts if max(a, low) < min(b, high))
        return parts

    def _matches(self, ordinal: int) -> bool:
        return all(test(ordinal) for test in self._tests)

    def _is_month_day(self, ordinal: int) -> bool:
        day = date.fromordinal(ordinal)
        first_of_next = date(day.year + day.month // 12, day.month % 12 + 1, 1).toordinal()
        return day.day in self.rule.month_days or ordinal - first_of_next in self.rule.month_days

    def _is_yearly_date(self, ordinal: int) -> bool:
        day = date.fromordinal(ordinal)
        return (day.month, day.day) in self.rule.yearly_dates

    def _is_holiday(self, ordinal: int) -> bool:
        day, of = date.fromordinal(ordinal), self.rule.holidays
        if of is None:
            return False
        return day in holiday_days.named_days(of.country, of.subdivision, of.categories, of.observed, day.year)


def _union(parts: list[tuple[int, int]]) -> Parts:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def without(parts: Parts, taken: Parts) -> Parts:
    """What of the parts lies outside of ``taken``."""
    left: list[tuple[int, int]] = []
    for low, high in parts:
        at = low
        for begin, end in taken:
            if end <= at or begin >= high:
                continue
            if begin > at:
                left.append((at, begin))
            at = max(at, end)
        if at < high:
            left.append((at, high))
    return tuple(left)
