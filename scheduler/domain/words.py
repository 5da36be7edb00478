"""A schedule in plain words. What cannot be said simply is shown as it is written, never said wrongly.

``say`` words a text, with values in the places that it names: in English here, in a page's language where a page asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from calendars.domain.zones import load_zone
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


Say = Callable[..., str]


def english(text: str, **values: object) -> str:
    return text.format(**values)


def lacking_words(capability: str) -> str:
    return f"No live runner has the capability {capability!r}; its runs wait until one has."


def describe(schedule: Schedule, say: Say = english) -> str:
    """Say when it runs: "every 10 seconds", "at 02:00 on Monday to Friday, Europe/Vienna"."""
    match schedule:
        case IntervalSchedule():
            return _every(schedule.every, say)
        case OnceSchedule():
            words = say("once at {at}", at=_wall_text(schedule.at, schedule.timezone))
            return f"{words}, {schedule.timezone}"
        case CronSchedule():
            expression = schedule.expression.strip()
            words = _cron(expression, say) or say("cron {expression}", expression=repr(expression))
            return f"{words}, {schedule.timezone}"


def _wall_text(at: datetime, zone: str) -> str:
    """An instant on the clock of ``zone``, to the minute where it is on one; with its offset where the clock shows that
    time twice."""
    local = at.astimezone(load_zone(zone).info)
    text = f"{local:%Y-%m-%d %H:%M:%S}" if local.second else f"{local:%Y-%m-%d %H:%M}"
    is_twice = local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
    offset = f"{local:%z}"
    return f"{text} {offset[:3]}:{offset[3:5]}" if is_twice else text


def _every(value: timedelta, say: Say) -> str:
    rest, parts = value // timedelta(microseconds=1), []
    days, rest = divmod(rest, 86_400_000_000)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds = f"{rest // 1_000_000}.{rest % 1_000_000:06d}".rstrip("0").removesuffix(".")
    alone = {
        (1, 0, 0, "0"): lambda: say("every day"),
        (0, 1, 0, "0"): lambda: say("every hour"),
        (0, 0, 1, "0"): lambda: say("every minute"),
        (0, 0, 0, "1"): lambda: say("every second"),
    }.get((days, hours, minutes, seconds))
    if alone is not None:
        return alone()
    if days:
        parts.append(say("1 day") if days == 1 else say("{n} days", n=days))
    if hours:
        parts.append(say("1 hour") if hours == 1 else say("{n} hours", n=hours))
    if minutes:
        parts.append(say("1 minute") if minutes == 1 else say("{n} minutes", n=minutes))
    if seconds != "0":
        parts.append(say("1 second") if seconds == "1" else say("{n} seconds", n=seconds))
    return say("every {period}", period=" ".join(parts))


def _cron(expression: str, say: Say) -> str | None:
    """The words, or None where there are no simple ones."""
    fields = MACROS.get(expression.lower(), expression).split()
    if len(fields) == 6 and fields[0] == "0":
        fields = fields[1:]
    if len(fields) == 6:
        clock, day_fields = _seconds(*fields[:3], say), fields[3:]
    elif len(fields) == 5:
        clock, day_fields = _clock(*fields[:2], say), fields[2:]
    else:
        return None
    month_day, month, weekday = day_fields
    if clock is None or (month_day not in ("*", "?") and weekday not in ("*", "?")):
        return None
    months = _list(month, _month, say) if month != "*" else ""
    if months is None:
        return None
    if weekday not in ("*", "?"):
        days = _list(weekday, _weekday, say)
        if days is None:
            return None
        if months:
            return say("{clock} on {days} in {months}", clock=clock, days=days, months=months)
        return say("{clock} on {days}", clock=clock, days=days)
    if month_day not in ("*", "?"):
        days = say("last day") if month_day.upper() == "L" else _list(month_day, _month_day, say)
        if days is None:
            return None
        if months:
            return say("{clock} on the {days} of {months}", clock=clock, days=days, months=months)
        return say("{clock} on the {days} of the month", clock=clock, days=days)
    return say("{clock} in {months}", clock=clock, months=months) if months else clock


def _seconds(second: str, minute: str, hour: str, say: Say) -> str | None:
    if (minute, hour) != ("*", "*"):
        return None
    if second == "*":
        return say("every second")
    step = _even_step(second, 60)
    return say("every {step} seconds", step=step) if step else None


def _clock(minute: str, hour: str, say: Say) -> str | None:
    """The time of day: only what is evenly spaced is said to be "every"."""
    step = _even_step(minute, 60)
    often = say("every minute") if minute == "*" else say("every {step} minutes", step=step) if step else None
    if often:
        return often if hour == "*" else _within(often, hour, say)
    if hour == "*":
        return say("at minute {minute} of every hour", minute=int(minute)) if minute.isdigit() else None
    hours = _numbers(hour, 23)
    minutes = _numbers(minute, 59)
    if minutes is not None and hours is not None and len(minutes) * len(hours) <= 6:
        return say("at {times}", times=_and([f"{h:02d}:{m:02d}" for h in hours for m in minutes], say))
    step = _even_step(hour, 24)
    if step and minutes is not None and len(minutes) == 1:
        return say("every {step} hours at minute {minute}", step=step, minute=minutes[0])
    return None


def _within(often: str, hour: str, say: Say) -> str | None:
    """A range of hours; not one over midnight, which on a single weekday means two parts of that day."""
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", hour, re.ASCII)
    if match is None or not int(match[1]) <= int(match[2]) <= 23:
        return None
    start, end = f"{int(match[1]):02d}:00", f"{int(match[2]):02d}:59"
    return say("{often} from {start} to {end}", often=often, start=start, end=end)


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


def _list(text: str, name: Callable[[str, Say], str | None], say: Say) -> str | None:
    """Name a list of values and ranges, "Monday to Friday and Sunday"; None where one has no name."""
    items = []
    for item in text.split(","):
        ends = [name(end, say) for end in item.split("-")]
        if len(ends) > 2 or None in ends:
            return None
        items.append(say("{first} to {last}", first=ends[0], last=ends[1]) if len(ends) == 2 else ends[0])
    return _and(items, say)


def _weekday(text: str, say: Say) -> str | None:
    name = _DAYS[int(text)] if text in ("0", "1", "2", "3", "4", "5", "6", "7") else _DAY_NAMES.get(text.upper())
    return None if name is None else say(name)


def _month(text: str, say: Say) -> str | None:
    is_number = text.isdigit() and len(text) <= 2 and 1 <= int(text) <= 12
    name = _MONTHS[int(text) - 1] if is_number else _MONTH_NAMES.get(text.upper())
    return None if name is None else say(name)


def _month_day(text: str, say: Say) -> str | None:
    if not (text.isdigit() and len(text) <= 2):
        return None
    number = int(text)
    ending = "th" if 11 <= number <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return {
        "st": lambda: say("{number}st", number=number),
        "nd": lambda: say("{number}nd", number=number),
        "rd": lambda: say("{number}rd", number=number),
        "th": lambda: say("{number}th", number=number),
    }[ending]()


def _and(items: list[str], say: Say) -> str:
    if len(items) == 1:
        return items[0]
    return say("{items} and {last}", items=", ".join(items[:-1]), last=items[-1])
