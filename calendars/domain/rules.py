"""What a calendar is: a zone of its own and rules, each a conjunction of conditions.

Open = (no include rule, or any include rule matches) and no exclude rule matches. The daily window of a rule may cross
midnight; its day conditions are then judged on the day on which the window begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from difflib import get_close_matches
from enum import StrEnum

from calendars.domain import holiday_days
from calendars.domain.errors import InvalidField
from calendars.domain.zones import load_zone
from croniq_site.kernel.text import cleaned

FIRST_DATE, LAST_DATE = date(1970, 1, 1), date(2199, 12, 31)
MOST_RULES = 200
MOST_DATES = 2000
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


class Effect(StrEnum):
    INCLUDE = "include"
    EXCLUDE = "exclude"


class OnBlocked(StrEnum):
    """What becomes of an occurrence at which the calendar is closed."""

    ADVANCE = "advance"
    DEFER = "defer"
    FOLLOWING = "following"
    PRECEDING = "preceding"


@dataclass(frozen=True, slots=True)
class HolidaySet:
    """The public holidays of a country, by the `holidays` package. No categories = the country's default (public)."""

    country: str
    subdivision: str = ""
    categories: tuple[str, ...] = ()
    observed: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """A conjunction; an empty condition does not restrict.

    ``weekdays`` are ISO, 1 = Monday. ``month_days``: 1..31, or -1 for the last, -2 for the last but one. ``date_range``
    is inclusive, an open end is None. ``window`` is half-open; its end before its start = over midnight. ``period`` is
    a half-open pair of aware instants.
    """

    effect: Effect
    name: str = ""
    weekdays: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    yearly_dates: frozenset[tuple[int, int]] = frozenset()
    dates: frozenset[date] = frozenset()
    date_range: tuple[date | None, date | None] | None = None
    window: tuple[time, time] | None = None
    holidays: HolidaySet | None = None
    period: tuple[datetime, datetime] | None = None


@dataclass(frozen=True, slots=True)
class CalendarSpec:
    """A calendar. Making one refuses an unknown zone."""

    timezone: str
    rules: tuple[Rule, ...] = field(default=())

    def __post_init__(self) -> None:
        load_zone(self.timezone)
        if len(self.rules) > MOST_RULES:
            raise InvalidField(
                "rules", f"A calendar may have {MOST_RULES} rules at most; this one has {len(self.rules)}."
            )


_KNOWN = frozenset(
    {
        "effect",
        "name",
        "weekdays",
        "month_days",
        "yearly_dates",
        "dates",
        "range_start",
        "range_end",
        "window_start",
        "window_end",
        "holiday_country",
        "holiday_subdivision",
        "holiday_categories",
        "holiday_observed",
    }
)


def parse_rule(values: Mapping[str, object]) -> Rule:
    """Make a rule of values named as the columns of a rule, each a JSON value or already of its Python type.

    Refuses, naming the column: unknown names, wrong types, values out of range, and a rule without any condition.
    """
    unknown = sorted(set(values) - _KNOWN)
    if unknown:
        near = get_close_matches(str(unknown[0])[:64].lower(), sorted(_KNOWN), n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(sorted(_KNOWN))}."
        raise InvalidField(cleaned(str(unknown[0]), 256), f"A calendar rule has no such field. {hint}")
    effect = values.get("effect")
    if effect not in list(Effect):
        raise InvalidField("effect", "A rule's effect is 'include' or 'exclude'.")
    rule = Rule(
        effect=Effect(effect),
        name=_text(values, "name", 255),
        weekdays=frozenset(_weekday(item) for item in _items(values, "weekdays", 7)),
        month_days=frozenset(_month_day(item) for item in _items(values, "month_days", 62)),
        yearly_dates=frozenset(_yearly_date(item) for item in _items(values, "yearly_dates", 366)),
        dates=frozenset(_date(item, "dates") for item in _items(values, "dates", MOST_DATES)),
        date_range=_range(values),
        window=_window(values),
        holidays=_holidays(values),
    )
    if not any(
        (rule.weekdays, rule.month_days, rule.yearly_dates, rule.dates, rule.date_range, rule.window, rule.holidays)
    ):
        raise InvalidField("effect", "A rule needs at least one condition, such as weekdays.")
    return rule


def _items(values: Mapping[str, object], name: str, most: int) -> Iterable[object]:
    items = values.get(name)
    if items is None or items == "":
        return ()
    if not isinstance(items, (list, tuple, set, frozenset)):
        raise InvalidField(name, "This must be a list.")
    if len(items) > most:
        raise InvalidField(name, f"This may have {most} values at most; it has {len(items)}.")
    return items


def _text(values: Mapping[str, object], name: str, longest: int) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest or (value and not value.isprintable()):
        raise InvalidField(name, f"This must be a printable text of at most {longest} characters.")
    return value


def _weekday(item: object) -> int:
    if isinstance(item, str) and item.upper() in WEEKDAYS:
        return WEEKDAYS.index(item.upper()) + 1
    if isinstance(item, int) and not isinstance(item, bool) and 1 <= item <= 7:
        return item
    raise InvalidField("weekdays", f"A weekday is 1 (Monday) to 7, or MON to SUN; not {_shown(item)}.")


def _month_day(item: object) -> int:
    if isinstance(item, int) and not isinstance(item, bool) and (1 <= item <= 31 or -31 <= item <= -1):
        return item
    raise InvalidField("month_days", f"A month day is 1 to 31, or -1 for the last; not {_shown(item)}.")


def _yearly_date(item: object) -> tuple[int, int]:
    match = re.fullmatch(r"(\d\d)-(\d\d)", item, re.ASCII) if isinstance(item, str) else None
    if match:
        try:
            day = date(2000, int(match[1]), int(match[2]))  # a leap year: 02-29 is a yearly date
        except ValueError:
            pass
        else:
            return day.month, day.day
    raise InvalidField("yearly_dates", f"A yearly date is written MM-DD, such as '12-24'; not {_shown(item)}.")


def _date(item: object, name: str) -> date:
    day: date | None = None
    if isinstance(item, date) and not isinstance(item, datetime):
        day = item
    elif isinstance(item, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", item, re.ASCII):
        try:
            day = date.fromisoformat(item)
        except ValueError:
            day = None
    if day is None:
        raise InvalidField(name, f"A date is written YYYY-MM-DD, such as '2026-12-24'; not {_shown(item)}.")
    if not FIRST_DATE <= day <= LAST_DATE:
        raise InvalidField(name, f"A date lies between {FIRST_DATE} and {LAST_DATE}; not {day}.")
    return day


def _range(values: Mapping[str, object]) -> tuple[date | None, date | None] | None:
    start, end = (None if values.get(n) in (None, "") else _date(values[n], n) for n in ("range_start", "range_end"))
    if start is None and end is None:
        return None
    if start is not None and end is not None and end < start:
        raise InvalidField("range_end", "The range ends before it starts.")
    return start, end


def _window(values: Mapping[str, object]) -> tuple[time, time] | None:
    start, end = (None if values.get(n) in (None, "") else _time(values[n], n) for n in ("window_start", "window_end"))
    if start is None and end is None:
        return None
    if start is None or end is None:
        raise InvalidField("window_start" if start is None else "window_end", "A window needs its start and its end.")
    if start == end:
        raise InvalidField(
            "window_end", "A window that ends when it starts is empty; leave both out for the whole day."
        )
    return start, end


def _time(item: object, name: str) -> time:
    if isinstance(item, str) and re.fullmatch(r"\d\d:\d\d(:\d\d)?", item, re.ASCII):
        with suppress(ValueError):
            item = time.fromisoformat(item)
    if isinstance(item, time) and item.microsecond == 0 and item.tzinfo is None:
        return item
    raise InvalidField(name, f"A time of day is written HH:MM, such as '08:30'; not {_shown(item)}.")


def _holidays(values: Mapping[str, object]) -> HolidaySet | None:
    country = _text(values, "holiday_country", 16)
    subdivision = _text(values, "holiday_subdivision", 32)
    categories = tuple(sorted({str(item)[:64] for item in _items(values, "holiday_categories", 32)}))
    observed = values.get("holiday_observed", True)
    if not isinstance(observed, bool):
        raise InvalidField("holiday_observed", "This must be true or false.")
    if not country:
        for name, given in (("holiday_subdivision", subdivision), ("holiday_categories", categories)):
            if given:
                raise InvalidField(name, "This needs a holiday_country.")
        return None
    holiday_days.check(country, subdivision, categories)
    return HolidaySet(country, subdivision, categories, observed)


def _shown(item: object) -> str:
    shown = repr(item) if isinstance(item, (str, int, float, bool, type(None))) else type(item).__name__
    return shown if len(shown) <= 64 else shown[:61] + "…"
