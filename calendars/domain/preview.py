"""A calendar day by day: open, closed or partly open, and what decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

from calendars.domain.openings import Openings, openings_of
from calendars.domain.reasons import NEVER_OPEN, holiday_name, rule_words
from calendars.domain.rules import CalendarSpec, Effect
from calendars.domain.zones import DAY

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MOST_REASONS = 4


class DayState(StrEnum):
    OPEN = "open"
    CLOSED = "closed"
    PARTLY = "partly"


@dataclass(frozen=True, slots=True)
class DayPreview:
    """A day of the calendar's own zone. ``windows``: when it is open, wall times "HH:MM" (its end may be "24:00").

    ``reason``: the names of the holidays and rules that decide; "" where no rule does and it is open.
    """

    day: date
    state: DayState
    windows: tuple[tuple[str, str], ...]
    reason: str


def preview_days(spec: CalendarSpec, first: date, last: date) -> Iterator[DayPreview]:
    """The days from ``first`` to ``last`` (inclusive). The caller bounds their number and keeps them within the years
    of calendars (`FIRST_DATE` to `LAST_DATE`)."""
    gate = openings_of(spec)
    day = first
    while day <= last:
        yield _day(gate, day)
        day += timedelta(days=1)


def day_bounds(gate: Openings, day: date) -> tuple[int, int]:
    """UTC seconds [start, end) of a day of the calendar's zone; equal where the zone skipped that day."""
    wall = (day.toordinal() - _EPOCH_DAY) * DAY
    return gate.zone.to_utc(wall), gate.zone.to_utc(wall + DAY)


def _day(gate: Openings, day: date) -> DayPreview:
    start, end = day_bounds(gate, day)
    parts = _joined((opening.start, opening.end) for opening in gate.between(start, end))
    if not parts:
        middle = (start + end) // 2
        return DayPreview(day, DayState.CLOSED, (), _because(gate, day, [middle]) or NEVER_OPEN)
    if parts == [(start, end)]:
        rule = gate.decision(start).rule
        reason = "" if rule is None else holiday_name(rule, day) or rule_words(rule)
        return DayPreview(day, DayState.OPEN, ((_shown(gate, start, day), "24:00"),), reason)
    windows = tuple((_shown(gate, low, day), _shown(gate, high, day)) for low, high in parts)
    closed = [*([start] if parts[0][0] > start else []), *(high for _, high in parts if high < end)]
    opens = gate.decision(parts[0][0]).rule
    reason = _because(gate, day, closed) or ("" if opens is None else rule_words(opens))
    return DayPreview(day, DayState.PARTLY, windows, reason)


def _because(gate: Openings, day: date, seconds: Iterable[int]) -> str:
    """The exclude rules that close these seconds, or the holidays that they mean; "" where none does."""
    found: dict[str, None] = {}
    for second in seconds:
        rule = gate.decision(second).rule
        if rule is not None and rule.effect is Effect.EXCLUDE:
            found[holiday_name(rule, day) or rule_words(rule)] = None
    names = list(found)
    return "; ".join(names[:_MOST_REASONS]) + (" …" if len(names) > _MOST_REASONS else "")


def _joined(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in parts:
        if joined and joined[-1][1] == low:
            joined[-1] = joined[-1][0], high
        else:
            joined.append((low, high))
    return joined


def _shown(gate: Openings, second: int, day: date) -> str:
    wall_day, wall = divmod(second + gate.zone.offset_at(second), DAY)
    if wall_day + _EPOCH_DAY > day.toordinal():
        return "24:00"
    minutes, seconds = divmod(wall, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}" + (f":{seconds:02d}" if seconds else "")
