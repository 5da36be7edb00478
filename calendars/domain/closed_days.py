"""Whole days that a calendar closes."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from calendars.domain.openings import openings_of
from calendars.domain.preview import day_bounds
from calendars.domain.rules import CalendarSpec
from calendars.domain.zones import DAY, to_instant, to_seconds

_EPOCH_DAY = date(1970, 1, 1).toordinal()


def closed_until(spec: CalendarSpec, now: datetime) -> datetime | None:
    """The midnight (of the calendar's zone) that ends the closed days around ``now``; None if the calendar opens at any
    time of this day. Where it never opens again it is tomorrow: the rules may be others by then."""
    gate = openings_of(spec)
    at = to_seconds(now)
    today = date.fromordinal((at + gate.zone.offset_at(at)) // DAY + _EPOCH_DAY)
    start, end = day_bounds(gate, today)
    if next(gate.between(start, end), None) is not None:
        return None
    opening = gate.at_or_after(end)
    if opening is None:
        return now + timedelta(days=1)
    first = date.fromordinal((opening.start + gate.zone.offset_at(opening.start)) // DAY + _EPOCH_DAY)
    return to_instant(day_bounds(gate, first)[0])
