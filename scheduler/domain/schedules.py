"""Schedules and their fires.

An *occurrence* is an instant of the schedule, a *fire* the instant after the calendar decided. Both are pure functions
of what is passed; nothing here knows the time. All instants are aware and come out in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from calendars.domain.errors import InvalidField
from calendars.domain.openings import Openings, openings_of
from calendars.domain.rules import CalendarSpec, OnBlocked
from calendars.domain.zones import LAST_SECOND, load_zone, to_instant, to_seconds
from scheduler.domain.cron import parse_cron
from scheduler.domain.durations import checked_duration, parse_duration
from scheduler.domain.walk import cron_seconds

SHORTEST_PERIOD = timedelta(seconds=1)
_TICK = timedelta(microseconds=1)
_LAST = to_instant(LAST_SECOND)

# How many blocked occurrences in a row, each followed by a jump to the next opening, are looked at before a schedule is
# said never to fire under its calendar: eight years of a daily one, so that a leap day of 2096 to 2104 is reached.
MOST_BLOCKED = 3000


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A cron expression on the wall clock of a zone. ``hash_key`` (the job's key) decides what `H` stands for.

    Making one refuses what is not cron (``cron_expression``) and an unknown zone (``timezone``).
    """

    expression: str
    timezone: str = "UTC"
    hash_key: str = ""

    def __post_init__(self) -> None:
        parse_cron(self.expression, self.hash_key)
        load_zone(self.timezone)


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """``anchor + k * every`` for k >= 0, in elapsed time: no zone, no clock change has an effect.

    Making one refuses a period under a second or over ten years (``every``).
    """

    every: timedelta
    anchor: datetime

    def __post_init__(self) -> None:
        checked_duration(self.every, field="every", least=SHORTEST_PERIOD)
        _refuse_naive(self.anchor, "anchor")


@dataclass(frozen=True, slots=True)
class OnceSchedule:
    """One instant."""

    at: datetime

    def __post_init__(self) -> None:
        _refuse_naive(self.at, "run_at")


Schedule = CronSchedule | IntervalSchedule | OnceSchedule


@dataclass(frozen=True, slots=True)
class Fire:
    """An instant at which to run, and the earliest occurrence that led to it (the same, unless it was deferred)."""

    at: datetime
    occurrence_at: datetime


def occurrences(
    schedule: Schedule, *, after: datetime, until: datetime | None = None, count: int | None = None
) -> Iterator[datetime]:
    """The instants of the schedule, without a calendar: ascending, in (after, until], at most ``count``."""
    found = _occurrences(schedule, after + _TICK, until)
    return found if count is None else islice(found, count)


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
        raise InvalidField("calendar", "The calendar is closed whenever this schedule would run; it would never run.")
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
        load_zone(timezone)
        return IntervalSchedule(every, anchor)
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
        return (Fire(at, at) for at in _occurrences(schedule, start + _TICK, until))
    openings = openings_of(calendar)
    if policy is OnBlocked.DEFER:
        return _deferred(schedule, after, until, openings, since)
    return _advanced(schedule, after if since is None else max(after, since), until, openings)


def _advanced(schedule: Schedule, after: datetime, until: datetime | None, openings: Openings) -> Iterator[Fire]:
    """The occurrences at which it is open."""
    last = None if until is None else to_seconds(until)
    found = _occurrences(schedule, after + _TICK, until)
    open_until, blocked = None, 0
    while (at := next(found, None)) is not None:
        second = to_seconds(at)
        if open_until is None or second >= open_until:
            opening = openings.at_or_after(second, last)
            if opening is None:
                return
            if opening.start > second:
                blocked += 1
                if blocked > MOST_BLOCKED:
                    return
                found = _occurrences(schedule, to_instant(opening.start), until)
                continue
            open_until = opening.end
        blocked = 0
        yield Fire(at, at)


def _deferred(
    schedule: Schedule, after: datetime, until: datetime | None, openings: Openings, since: datetime | None
) -> Iterator[Fire]:
    """Each occurrence at the first open instant; all that a closure blocks become one fire, at its end."""
    last = None if until is None else to_seconds(until)
    start = after + _TICK
    second = to_seconds(start)
    opening = openings.at_or_after(second, last)
    if opening is None:
        return
    if opening.start > second:
        # `after` lies in a closure: what it blocked before `after` still fires at its end.
        floor = _earliest(schedule, since)
        start = min(start, max(to_instant(openings.closed_since(second, min(to_seconds(floor), second))), floor))
    if since is not None:
        start = max(start, since + _TICK)
    found = _occurrences(schedule, start, until)
    open_until = None
    while (at := next(found, None)) is not None:
        second = to_seconds(at)
        if open_until is None or second >= open_until:
            opening = openings.at_or_after(second, last)
            if opening is None:
                return
            if opening.start > second:
                deferred_to = to_instant(opening.start)
                if until is not None and deferred_to > until:
                    return
                yield Fire(deferred_to, at)
                found = _occurrences(schedule, deferred_to + _TICK, until)
                continue
            open_until = opening.end
        yield Fire(at, at)


def _earliest(schedule: Schedule, since: datetime | None) -> datetime:
    """Before this no occurrence counts. Without ``since``, a cron schedule is taken to have existed always."""
    if since is not None:
        return since
    match schedule:
        case IntervalSchedule():
            return schedule.anchor
        case OnceSchedule():
            return schedule.at
        case CronSchedule():
            return datetime(1970, 1, 1, tzinfo=UTC)


def _occurrences(schedule: Schedule, start: datetime, until: datetime | None) -> Iterator[datetime]:
    """The instants in [start, until]."""
    match schedule:
        case CronSchedule():
            first = -((-to_micro(start)) // 1_000_000)
            seconds = cron_seconds(
                parse_cron(schedule.expression, schedule.hash_key),
                load_zone(schedule.timezone),
                first,
                None if until is None else to_seconds(until),
            )
            return (to_instant(second) for second in seconds)
        case IntervalSchedule():
            return _interval(schedule, start, until)
        case OnceSchedule():
            at = schedule.at.astimezone(UTC)
            return iter([at] if start <= at and (until is None or at <= until) else [])


def _interval(schedule: IntervalSchedule, start: datetime, until: datetime | None) -> Iterator[datetime]:
    anchor = schedule.anchor.astimezone(UTC)
    last = _LAST if until is None else min(until, _LAST)
    if start > last:
        return
    k = max(0, -((anchor - start) // schedule.every))
    at = anchor + k * schedule.every
    while at <= last:
        yield at
        at += schedule.every


def to_micro(instant: datetime) -> int:
    return (instant - to_instant(0)) // _TICK


def _refuse_naive(instant: datetime, field: str) -> None:
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise InvalidField(field, "An instant needs its offset from UTC, such as 2026-12-24T12:00:00Z.")
    if not datetime(1970, 1, 1, tzinfo=UTC) <= instant < _LAST:
        raise InvalidField(field, "An instant lies between 1970 and 9980.")
