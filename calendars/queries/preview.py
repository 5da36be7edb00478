"""A calendar's days as they are, or would be."""

from __future__ import annotations

from datetime import date

from calendars.domain.errors import InvalidField
from calendars.domain.preview import DayPreview, preview_days
from calendars.domain.rules import FIRST_DATE, LAST_DATE
from calendars.models import Calendar
from calendars.queries.specs import calendar_spec

MOST_DAYS = 400


def calendar_days(calendar: Calendar, first: date, last: date) -> list[DayPreview]:
    """The days from ``first`` to ``last`` (inclusive), at most `MOST_DAYS`. One query, none with prefetched rules.

    Refuses, naming ``from`` or ``until``, a range that is too long, backward, or outside of the years of calendars;
    and as `calendar_spec` a calendar whose rows are nonsense.
    """
    for name, day in (("from", first), ("until", last)):
        if not FIRST_DATE < day < LAST_DATE:
            raise InvalidField(name, f"A day lies between {FIRST_DATE} and {LAST_DATE}; not {day}.")
    if last < first:
        raise InvalidField("until", "The range ends before it begins.")
    if (last - first).days >= MOST_DAYS:
        raise InvalidField("until", f"At most {MOST_DAYS} days at once; these are {(last - first).days + 1}.")
    return list(preview_days(calendar_spec(calendar), first, last))
