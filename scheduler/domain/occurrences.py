"""The kinds of schedules and their occurrences: the instants that a schedule names, before any calendar decides.

All instants are aware and come out in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from calendars.domain.errors import InvalidField
from calendars.domain.zones import LAST_SECOND, load_zone, to_instant, to_seconds
from scheduler.domain.cron import parse_cron, uses_hash
from scheduler.domain.durations import checked_duration
from scheduler.domain.walk import cron_seconds

SHORTEST_PERIOD = timedelta(seconds=1)
TICK = timedelta(microseconds=1)
_EPOCH = to_instant(0)
_LAST = to_instant(LAST_SECOND)


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A cron expression on the wall clock of a zone. ``hash_key`` (the job's key) decides what `H` stands for.

    Making one refuses what is not cron (``cron_expression``) and an unknown zone (``timezone``).
    """

    expression: str
    timezone: str = "UTC"
    hash_key: str = ""

    def __post_init__(self) -> None:
        if self.hash_key and not uses_hash(self.expression):
            # Schedules that differ in nothing else are equal: what is computed of one holds for all.
            object.__setattr__(self, "hash_key", "")
        parse_cron(self.expression, self.hash_key)
        load_zone(self.timezone)


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """``anchor + k * every`` for k >= 0, in elapsed time: no zone, no clock change has an effect.

    ``timezone`` matters to `following` and `preceding` alone: it tells the local time to keep.

    Making one refuses a period under a second or over ten years (``every``).
    """

    every: timedelta
    anchor: datetime
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        load_zone(self.timezone)
        checked_duration(self.every, field="every", least=SHORTEST_PERIOD)
        _refuse_naive(self.anchor, "anchor")


@dataclass(frozen=True, slots=True)
class OnceSchedule:
    """One instant. ``timezone``: the local time that `following` and `preceding` keep."""

    at: datetime
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        load_zone(self.timezone)
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
    found = occurrences_from(schedule, after + TICK, until)
    return found if count is None else islice(found, count)


def occurrences_from(schedule: Schedule, start: datetime, until: datetime | None) -> Iterator[datetime]:
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


def earliest(schedule: Schedule, since: datetime | None) -> datetime:
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


def to_micro(instant: datetime) -> int:
    """Microseconds since 1970 of an aware instant."""
    return (instant - _EPOCH) // TICK


def of_micro(micro: int) -> datetime:
    return _EPOCH + micro * TICK


def _refuse_naive(instant: datetime, field: str) -> None:
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise InvalidField(field, "An instant needs its offset from UTC, such as 2026-12-24T12:00:00Z.")
    if not datetime(1970, 1, 1, tzinfo=UTC) <= instant < _LAST:
        raise InvalidField(field, "An instant lies between 1970 and 9980.")
