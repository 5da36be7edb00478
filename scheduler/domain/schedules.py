"""Schedules and their fires.

An *occurrence* is an instant of the schedule, a *fire* the instant after the calendar decided. Both are pure functions
of what is passed; nothing here knows the time. All instants are aware and come out in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from calendars.domain.errors import InvalidField
from calendars.domain.openings import openings_of
from calendars.domain.rules import CalendarSpec, OnBlocked
from scheduler.domain.blocked import advanced, deferred
from scheduler.domain.durations import parse_duration
from scheduler.domain.occurrences import (
    SHORTEST_PERIOD,
    TICK,
    CronSchedule,
    Fire,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
    occurrences,
    occurrences_from,
)
from scheduler.domain.rolls import rolled

__all__ = [
    "SHORTEST_PERIOD",
    "CronSchedule",
    "Fire",
    "IntervalSchedule",
    "OnceSchedule",
    "Schedule",
    "fires",
    "next_after",
    "next_fire",
    "occurrences",
    "parse_on_blocked",
    "refuse_never",
    "schedule_from_text",
]


def fires(
    schedule: Schedule,
    *,
    after: datetime,
    until: datetime | None = None,
    count: int | None = None,
    calendar: CalendarSpec | None = None,
    on_blocked: OnBlocked | str | None = None,
    since: datetime | None = None,
) -> list[Fire]:
    """The fires in (after, until], ascending, each instant once, at most ``count``; one of the two bounds is needed.

    ``since``: occurrences at or before it do not count (the trigger's creation); it matters where one is deferred
    beyond ``after``. ``on_blocked`` None means advance, and defer for a once schedule.
    """
    if until is None and count is None:
        raise ValueError("fires needs until or count: most schedules never end")
    return list(islice(_fires(schedule, after, until, calendar, on_blocked, since), count))


def next_fire(
    schedule: Schedule,
    *,
    after: datetime,
    calendar: CalendarSpec | None = None,
    on_blocked: OnBlocked | str | None = None,
    since: datetime | None = None,
) -> Fire | None:
    """The first fire strictly after ``after``; None if there is none any more."""
    return next(_fires(schedule, after, None, calendar, on_blocked, since), None)


def next_after(
    schedule: Schedule, t: datetime, *, calendar: CalendarSpec | None = None, on_blocked: OnBlocked | str | None = None
) -> datetime | None:
    """The instant of the first fire strictly after ``t``; None if there is none any more."""
    fire = next_fire(schedule, after=t, calendar=calendar, on_blocked=on_blocked)
    return None if fire is None else fire.at


def refuse_never(
    schedule: Schedule,
    *,
    after: datetime,
    calendar: CalendarSpec | None = None,
    on_blocked: OnBlocked | str | None = None,
) -> None:
    """Refuse a schedule that has no fire after ``after``, naming the field that is to blame. Bounded: about 0.1 s."""
    if next_fire(schedule, after=after, calendar=calendar, on_blocked=on_blocked) is not None:
        return
    if next(occurrences(schedule, after=after), None) is not None:
        if isinstance(schedule, OnceSchedule) and on_blocked == OnBlocked.PRECEDING:
            message = "The last day before this instant on which the calendar is open is past; it would never run."
            raise InvalidField("on_blocked", f"{message} 'following' and 'defer' go forward.")
        also = " at its local time" if on_blocked in (OnBlocked.FOLLOWING, OnBlocked.PRECEDING) else ""
        message = f"The calendar is closed{also} whenever this schedule would run; it would never run."
        raise InvalidField("calendar", f"{message} Change the time, or let on_blocked 'defer' it to the next opening.")
    field = {CronSchedule: "cron_expression", IntervalSchedule: "every", OnceSchedule: "run_at"}[type(schedule)]
    raise InvalidField(field, "This schedule has no instant left in the future; it would never run.")


def parse_on_blocked(value: str | None, schedule: Schedule) -> OnBlocked:
    """The policy for blocked occurrences; None or empty is the schedule's default."""
    if not value:
        return OnBlocked.DEFER if isinstance(schedule, OnceSchedule) else OnBlocked.ADVANCE
    if value not in list(OnBlocked):
        known = ", ".join(OnBlocked)
        raise InvalidField("on_blocked", f"{str(value)[:32]!r} is not one of: {known}.")
    return OnBlocked(value)


def schedule_from_text(
    text: str, *, anchor: datetime, timezone: str = "UTC", hash_key: str = "", field: str = "schedule"
) -> CronSchedule | IntervalSchedule:
    """Read a registration's schedule: "5m", "300" (seconds), or cron text; an interval begins at ``anchor``.

    Refuses with ``field`` named, an unknown zone with ``timezone``.
    """
    if not isinstance(text, str):
        raise InvalidField(field, "A schedule is a text, such as '5m' or '0 3 * * *'.")
    try:
        if len(text.split(maxsplit=1)) > 1 or text.lstrip().startswith("@"):
            return CronSchedule(text.strip(), timezone, hash_key)
        every = parse_duration(text, field=field, bare_seconds=True)
        return IntervalSchedule(every, anchor, timezone)
    except InvalidField as refused:
        if refused.field in ("cron_expression", "every"):
            raise InvalidField(field, refused.message) from refused
        raise


def _fires(
    schedule: Schedule,
    after: datetime,
    until: datetime | None,
    calendar: CalendarSpec | None,
    on_blocked: OnBlocked | str | None,
    since: datetime | None,
) -> Iterator[Fire]:
    policy = parse_on_blocked(on_blocked, schedule)
    if calendar is None or not calendar.rules:
        start = after if since is None else max(after, since)
        return (Fire(at, at) for at in occurrences_from(schedule, start + TICK, until))
    openings = openings_of(calendar)
    match policy:
        case OnBlocked.DEFER:
            return deferred(schedule, after, until, openings, since)
        case OnBlocked.FOLLOWING | OnBlocked.PRECEDING:
            return rolled(schedule, after, until, openings, since, back=policy is OnBlocked.PRECEDING)
    return advanced(schedule, after if since is None else max(after, since), until, openings)
