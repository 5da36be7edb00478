"""A schedule in plain words. What cannot be said simply is shown as it is written, never said wrongly."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

from scheduler.domain.cron import MACROS
from scheduler.domain.schedules import CronSchedule, IntervalSchedule, OnceSchedule, Schedule

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY_NAMES = {name[:3].upper(): name for name in _DAYS}
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_MONTH_NAMES = {name[:3].upper(): name for name in _MONTHS}


def lacking_words(capability: str) -> str:
    return f"No live runner has the capability {capability!r}; its runs wait until one has."


def describe(schedule: Schedule) -> str:
    """Say when it runs: "every 10 seconds", "at 02:00 on Monday to Friday, Europe/Vienna"."""
    match schedule:
        case IntervalSchedule():
            return f"every {_duration(schedule.every)}"
        case OnceSchedule():
            return f"once at {schedule.at:%Y-%m-%d %H:%M:%S%z}"
        case CronSchedule():
            words = _cron(schedule.expression.strip())
            return f"{words or f'cron {schedule.expression.strip()!r}'}, {schedule.timezone}"


def _duration(value: timedelta) -> str:
    parts = []
    rest = value // timedelta(microseconds=1)
    for unit, size in (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000)):
        number, rest = divmod(rest, size)
        if number:
            parts.append((number, unit))
    if rest:
        seconds, micro = divmod(rest, 1_000_000)
        parts.append((f"{seconds}.{micro:06d}".rstrip("0") if micro else seconds, "second"))
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    return " ".join(f"{number} {unit}{'' if number == 1 else 's'}" for number, unit in parts)


def _cron(expression: str) -> str | None:
    """The words, or None where there are no simple ones."""
    fields = MACROS.get(expression.lower(), expression).split()
    if len(fields) == 6 and fields[0] == "0":
        fields = fields[1:]
    if len(fields) == 6:
        clock, day_fields = _seconds(*fields[:3]), fields[3:]
    elif len(fields) == 5:
        clock, day_fields = _clock(*fields[:2]), fields[2:]
    else:
        return None
    month_day, month, weekday = day_fields
    if clock is None or (month_day not in ("*", "?") and weekday not in ("*", "?")):
        return None
    days = ""
    if weekday not in ("*", "?"):
        named = _list(weekday, _weekday)
        if named is None:
            return None
        days = f" on {named}"
    elif month_day not in ("*", "?"):
        named = "last day" if month_day.upper() == "L" else _list(month_day, _month_day)
        if named is None:
            return None
        days = f" on the {named}"
        if month == "*":
            days += " of the month"
    if month != "*":
        named = _list(month, _month)
        if named is None:
            return None
        days += f" of {named}" if month_day not in ("*", "?") else f" in {named}"
    return clock + days


def _seconds(second: str, minute: str, hour: str) -> str | None:
    if (minute, hour) != ("*", "*"):
        return None
    if second == "*":
        return "every second"
    step = _even_step(second, 60)
    return f"every {step} seconds" if step else None


def _clock(minute: str, hour: str) -> str | None:
    """The time of day: only what is evenly spaced is said to be "every"."""
    step = _even_step(minute, 60)
    often = "every minute" if minute == "*" else f"every {step} minutes" if step else None
    if often:
        within = "" if hour == "*" else _within(hour)
        return None if within is None else often + within
    if hour == "*":
        if minute.isdigit():
            return f"at minute {int(minute)} of every hour"
        return None
    hours = _numbers(hour, 23)
    minutes = _numbers(minute, 59)
    if minutes is not None and hours is not None and len(minutes) * len(hours) <= 6:
        return "at " + _and([f"{h:02d}:{m:02d}" for h in hours for m in minutes])
    step = _even_step(hour, 24)
    if step and minutes is not None and len(minutes) == 1:
        return f"every {step} hours at minute {minutes[0]}"
    return None


def _within(hour: str) -> str | None:
    """A range of hours; not one over midnight, which on a single weekday means two parts of that day."""
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", hour, re.ASCII)
    if match is None or not int(match[1]) <= int(match[2]) <= 23:
        return None
    return f" from {int(match[1]):02d}:00 to {int(match[2]):02d}:59"


def _even_step(text: str, size: int) -> int | None:
    match = re.fullmatch(r"\*/(\d+)", text, re.ASCII)
    step = int(match[1]) if match else 0
    return step if 1 < step < size and size % step == 0 else None


def _numbers(text: str, most: int) -> list[int] | None:
    """The numbers of a plain list, in order, each once."""
    if not re.fullmatch(r"\d{1,2}(,\d{1,2})*", text, re.ASCII):
        return None
    numbers = sorted({int(item) for item in text.split(",")})
    return numbers if numbers[-1] <= most else None


def _list(text: str, name: Callable[[str], str | None]) -> str | None:
    """Name a list of values and ranges, "Monday to Friday and Sunday"; None where one has no name."""
    items = []
    for item in text.split(","):
        ends = [name(end) for end in item.split("-")]
        if len(ends) > 2 or None in ends:
            return None
        items.append(" to ".join(ends))
    return _and(items)


def _weekday(text: str) -> str | None:
    if text in ("0", "1", "2", "3", "4", "5", "6", "7"):
        return _DAYS[int(text)]
    return _DAY_NAMES.get(text.upper())


def _month(text: str) -> str | None:
    if text.isdigit() and len(text) <= 2 and 1 <= int(text) <= 12:
        return _MONTHS[int(text) - 1]
    return _MONTH_NAMES.get(text.upper())


def _month_day(text: str) -> str | None:
    if not (text.isdigit() and len(text) <= 2):
        return None
    number = int(text)
    ending = "th" if 11 <= number <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
