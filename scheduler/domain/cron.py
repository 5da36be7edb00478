"""Cron text to a `Cron`: which wall-clock days and seconds it names. The walk over time is in walk.py.

Five fields (minute hour day-of-month month day-of-week), six (seconds first), seven (year last). All ranges are checked
before they are expanded, so any text is answered in bounded time.
"""

from __future__ import annotations

import calendar
import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from calendars.domain.errors import InvalidField

FIELD = "cron_expression"
LONGEST_TEXT = 255
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = {name: n for n, name in enumerate(_MONTHS, 1)}
_HASH = re.compile(r"(?:^|[\s,])H", re.IGNORECASE)
WEEKDAYS = {name: n for n, name in enumerate(_WEEKDAYS)}


@dataclass(frozen=True, slots=True)
class Days:
    """Which days of a month match. Weekdays here are cron's: 0 = Sunday … 6 = Saturday."""

    month_days: frozenset[int] = frozenset()
    from_end: frozenset[int] = frozenset()  # L-n: n days before the last
    nearest_weekday: frozenset[int] = frozenset()  # nW
    last_weekday: bool = False  # LW
    weekdays: frozenset[int] = frozenset()
    nth_weekdays: frozenset[tuple[int, int]] = frozenset()  # MON#2 = (1, 2)
    last_weekdays: frozenset[int] = frozenset()  # 5L
    both: bool = True  # either text begins with * or ?: both fields must match, else either


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. ``in_hour``: the matching seconds of a matching hour, ascending, 0..3599.

    ``fixed``: neither minute nor hour text begins with `*`: each wall time runs once whatever the clock does.
    """

    text: str
    in_hour: tuple[int, ...]
    hours: tuple[int, ...]
    days: Days
    months: tuple[int, ...]
    years: tuple[int, ...] | None
    fixed: bool

    def month_days(self, year: int, month: int) -> tuple[int, ...]:
        """The matching days of a month, ascending, without regard to ``months`` and ``years``."""
        _, first, length = _month(year, month)
        return _days_of(self.days, first, length)


@dataclass(frozen=True, slots=True)
class _Field:
    """The bounds, names and label of one position."""

    label: str
    low: int
    high: int
    names: tuple[tuple[str, int], ...] = ()

    def number(self, text: str) -> int:
        names = dict(self.names)
        if text.upper() in names:
            return names[text.upper()]
        top = 7 if self.label == "day-of-week" else self.high
        if not re.fullmatch(r"\d{1,4}", text, re.ASCII):
            named = f" or {self.names[0][0]} to {self.names[-1][0]}" if self.names else ""
            taken = f"{self.low} to {top}{named}"
            raise _refusal(f"{text[:20]!r} is not a value of the {self.label} field, which takes {taken}.")
        value = int(text)
        if not self.low <= value <= top:
            raise _refusal(f"{value} is not in {self.low}-{top}, the range of the {self.label} field.")
        return value


SECOND = _Field("second", 0, 59)
MINUTE = _Field("minute", 0, 59)
HOUR = _Field("hour", 0, 23)
MONTH_DAY = _Field("day-of-month", 1, 31)
MONTH = _Field("month", 1, 12, tuple(MONTHS.items()))
WEEKDAY = _Field("day-of-week", 0, 6, tuple(WEEKDAYS.items()))
YEAR = _Field("year", 1970, 2199)


def _refusal(message: str) -> InvalidField:
    return InvalidField(FIELD, message)


def uses_hash(text: str) -> bool:
    """Whether an expression has an H; no name of a month or a weekday begins with one."""
    return _HASH.search(text) is not None


@lru_cache(maxsize=4096)
def parse_cron(text: str, hash_key: str = "") -> Cron:
    """Parse an expression; ``hash_key`` (the job's key) decides what `H` stands for.

    Refuses, naming ``cron_expression``, what is not cron and what can never match, such as 30 February.
    """
    expression = text.strip(" \t\r\n")
    if not expression:
        raise _refusal("A cron expression is needed, such as '0 3 * * *'.")
    if len(text) > LONGEST_TEXT:
        raise _refusal(f"A cron expression may be {LONGEST_TEXT} characters long at most; this one has {len(text)}.")
    if not expression.isascii() or not expression.replace("\t", " ").isprintable():
        raise _refusal("A cron expression is printable ASCII on one line.")
    if expression.startswith("@"):
        macro = MACROS.get(expression.lower())
        if macro is None:
            known = ", ".join(sorted(MACROS))
            hint = " A run at boot has no time." if expression.lower() == "@reboot" else ""
            raise _refusal(f"{expression[:20]!r} is not one of {known}.{hint}")
        expression = macro
    parts = expression.split()
    if len(parts) not in (5, 6, 7):
        raise _refusal(
            f"A cron expression has 5 fields (minute hour day-of-month month day-of-week), 6 (seconds first) "
            f"or 7 (year last); this one has {len(parts)}."
        )
    second, (minute, hour, month_day, month, weekday), year = "0", parts[:5], None
    if len(parts) > 5:
        second, (minute, hour, month_day, month, weekday) = parts[0], parts[1:6]
        year = parts[6] if len(parts) == 7 else None
    seconds = sorted(_values(second, SECOND, hash_key))
    minutes = sorted(_values(minute, MINUTE, hash_key))
    cron = Cron(
        text=expression,
        in_hour=tuple(m * 60 + s for m in minutes for s in seconds),
        hours=tuple(sorted(_values(hour, HOUR, hash_key))),
        days=_days(month_day, weekday, hash_key),
        months=tuple(sorted(_values(month, MONTH, hash_key))),
        years=None if year is None or year == "*" else tuple(sorted(_values(year, YEAR, ""))),
        fixed=not (minute.startswith("*") or hour.startswith("*")),
    )
    _refuse_impossible(cron)
    return cron


def _values(text: str, field: _Field, hash_key: str) -> set[int]:
    values: set[int] = set()
    for item in text.split(","):
        values |= _item_values(item, field, hash_key)
    return values


def _item_values(item: str, field: _Field, hash_key: str) -> set[int]:
    """One item of a list: `*`, `*/n`, `a`, `a/n`, `a-b`, `a-b/n`, `H`, `H/n`, `H(a-b)`, `H(a-b)/n`."""
    base, slash, step_text = item.partition("/")
    step = 1
    if slash:
        if not re.fullmatch(r"\d{1,4}", step_text, re.ASCII) or int(step_text) == 0:
            raise _refusal(f"The step of {item[:30]!r} in the {field.label} field must be a number above zero.")
        step = int(step_text)
    if base[:1] in ("H", "h"):
        return _hashed(base, step, bool(slash), field, hash_key)
    if base == "*":
        low, high = field.low, field.high
    elif "-" in base:
        low_text, _, high_text = base.partition("-")
        low, high = field.number(low_text), field.number(high_text)
        if field is WEEKDAY and low == 7:
            low = 0
    else:
        low = field.number(base)
        if field is WEEKDAY:
            low %= 7
        high = field.high if slash else low
    if low > high and field is YEAR:
        raise _refusal(f"The years {item[:30]!r} run backwards.")
    size = field.high - field.low + 1
    length = high - low if low <= high else high - low + size  # a cyclic range, such as FRI-MON or 22-2
    return {field.low + (low - field.low + k) % size for k in range(0, length + 1, step)}


def _hashed(base: str, step: int, stepped: bool, field: _Field, hash_key: str) -> set[int]:
    """`H`: one value of the range, the same for a job for ever and spread evenly over jobs."""
    if field is YEAR:
        raise _refusal("The year field takes no H.")
    # 28: every month has that day.
    low, high = field.low, 28 if field is MONTH_DAY else field.high
    if base not in ("H", "h"):
        match = re.fullmatch(r"[Hh]\((\w+)-(\w+)\)", base, re.ASCII)
        if match is None:
            raise _refusal(f"{base[:30]!r} is not H or H(a-b).")
        low, high = field.number(match[1]), field.number(match[2])
        if low > high:
            raise _refusal(f"The range of {base[:30]!r} runs backwards.")
    digest = hashlib.sha256(f"{hash_key}\0{field.label}".encode()).digest()
    number = int.from_bytes(digest[:8], "big")
    if not stepped:
        return {_as_weekday(low + number % (high - low + 1), field)}
    start = low + number % min(step, high - low + 1)
    return {_as_weekday(value, field) for value in range(start, high + 1, step)}


def _as_weekday(value: int, field: _Field) -> int:
    return value % 7 if field is WEEKDAY else value


def _days(month_day: str, weekday: str, hash_key: str) -> Days:
    plain: set[int] = set()
    from_end: set[int] = set()
    nearest: set[int] = set()
    last_weekday = False
    for item in month_day.split(","):
        if item == "?":
            plain |= set(range(1, 32))
        elif item.upper() == "LW":
            last_weekday = True
        elif match := re.fullmatch(r"L(?:-(\d{1,2}))?", item, re.ASCII | re.IGNORECASE):
            back = int(match[1] or 0)
            if back > 30:
                raise _refusal(f"{item!r}: no month has more than 30 days before its last.")
            from_end.add(back)
        elif match := re.fullmatch(r"(\d{1,2})W", item, re.ASCII | re.IGNORECASE):
            nearest.add(MONTH_DAY.number(match[1]))
        else:
            plain |= _item_values(item, MONTH_DAY, hash_key)
    weekdays: set[int] = set()
    nth: set[tuple[int, int]] = set()
    last: set[int] = set()
    for item in weekday.split(","):
        if item == "?":
            weekdays |= set(range(7))
        elif match := re.fullmatch(r"(\w+)#(\w+)", item, re.ASCII):
            if match[2] not in ("1", "2", "3", "4", "5"):
                raise _refusal(f"{item[:30]!r}: a weekday comes round one to five times in a month.")
            nth.add((WEEKDAY.number(match[1]) % 7, int(match[2])))
        elif match := re.fullmatch(r"(\w{1,3})L", item, re.ASCII | re.IGNORECASE):
            last.add(WEEKDAY.number(match[1]) % 7)
        else:
            weekdays |= _item_values(item, WEEKDAY, hash_key)
    return Days(
        month_days=frozenset(plain),
        from_end=frozenset(from_end),
        nearest_weekday=frozenset(nearest),
        last_weekday=last_weekday,
        weekdays=frozenset(weekdays),
        nth_weekdays=frozenset(nth),
        last_weekdays=frozenset(last),
        both=month_day[0] in "*?" or weekday[0] in "*?",
    )


@lru_cache(maxsize=65_536)
def _days_of(rule: Days, first: int, length: int) -> tuple[int, ...]:
    """The matching days of a month of ``length`` days whose first is weekday ``first``: only 28 such months exist."""
    found = []
    for day in range(1, length + 1):
        weekday = (first + day - 1) % 7
        by_month_day = (
            day in rule.month_days
            or length - day in rule.from_end
            or any(_nearest_weekday(wanted, first, length) == day for wanted in rule.nearest_weekday)
            or (rule.last_weekday and _nearest_weekday(length, first, length) == day)
        )
        by_weekday = (
            weekday in rule.weekdays
            or (weekday, (day + 6) // 7) in rule.nth_weekdays
            or (weekday in rule.last_weekdays and day + 7 > length)
        )
        if (by_month_day and by_weekday) if rule.both else (by_month_day or by_weekday):
            found.append(day)
    return tuple(found)


def _nearest_weekday(day: int, first: int, length: int) -> int | None:
    """The Monday-to-Friday day nearest to ``day`` within its month; None if the month has no such day."""
    if day > length:
        return None
    weekday = (first + day - 1) % 7
    if weekday == 6:  # Saturday
        return day - 1 if day > 1 else day + 2
    if weekday == 0:  # Sunday
        return day + 1 if day < length else day - 2
    return day


def _refuse_impossible(cron: Cron) -> None:
    """Refuse a date that no year has. Each month begins with each weekday in some year, so 7 x 13 looks are enough."""
    if cron.years is not None:
        if any(cron.month_days(year, month) for year in cron.years for month in cron.months):
            return
    else:
        for month in cron.months:
            lengths = (28, 29) if month == 2 else (calendar.monthrange(2001, month)[1],)
            if any(_days_of(cron.days, first, length) for length in lengths for first in range(7)):
                return
    raise _refusal(f"No year has a day that {cron.text!r} names; it would never run.")


def matching_days(cron: Cron, first: int, last: int) -> Iterator[int]:
    """The days in [first, last] that match, ascending, as proleptic ordinals (`date.toordinal`)."""
    begin, last_year = date.fromordinal(first), date.fromordinal(last).year
    for year in range(begin.year, last_year + 1) if cron.years is None else cron.years:
        if not begin.year <= year <= last_year:
            continue
        months = cron.months[bisect_left(cron.months, begin.month) :] if year == begin.year else cron.months
        for month in months:
            before, weekday, length = _month(year, month)
            if before >= last:
                return
            for day in _days_of(cron.days, weekday, length):
                if first <= before + day <= last:
                    yield before + day


@lru_cache(maxsize=8192)
def _month(year: int, month: int) -> tuple[int, int, int]:
    """The ordinal of the day before a month begins, cron's weekday of its first day, its length."""
    first, length = calendar.monthrange(year, month)
    return date(year, month, 1).toordinal() - 1, (first + 1) % 7, length
