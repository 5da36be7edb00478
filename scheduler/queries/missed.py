"""What did not fire, job by job, and why: from the runs that were skipped, the recorded gaps, and the calendars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from calendars.domain.rules import CalendarSpec
from calendars.queries.specs import calendar_spec
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.forecast import counts
from scheduler.domain.occurrences import to_micro
from scheduler.models import Run, SkippedSpan, Trigger
from scheduler.queries.fires import schedule_of
from scheduler.queries.gates import Gates

MOST_TRIGGERS = 500


@dataclass(frozen=True)
class MissedReason:
    """``count`` fires for one reason; ``first_at`` and ``last_at`` are the instants of the first and the last."""

    reason: str
    count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class MissedJob:
    job_key: str
    is_paused: bool
    reasons: tuple[MissedReason, ...]

    @property
    def count(self) -> int:
        return sum(reason.count for reason in self.reasons)

    @property
    def first_at(self) -> datetime:
        return min(reason.first_at for reason in self.reasons)

    @property
    def last_at(self) -> datetime:
        return max(reason.last_at for reason in self.reasons)


@dataclass(frozen=True)
class ClosedJob:
    """How many occurrences of a job its ``calendars`` (names), as they are now, did not let fire when they were."""

    job_key: str
    calendars: tuple[str, ...]
    count: int


def missed_jobs(now: datetime, window: timedelta, job_key: str = "") -> list[MissedJob]:
    """Return the jobs with fires in (now - window, now] that did not become runs and that nobody has dealt with yet,
    the latest first. What was made up for meanwhile is not missed any more. Two queries."""
    skipped = Run.objects.filter(
        problem=Run.Verdict.SKIPPED, scheduled_for__gt=now - window, scheduled_for__lte=now
    ).filter(_unseen("finished_at"))
    spans = SkippedSpan.objects.filter(last_at__gt=now - window, last_at__lte=now).filter(_unseen("recorded_at"))
    runs_counted = {"number": Count("pk"), "first": Min("scheduled_for"), "last": Max("scheduled_for")}
    spans_counted = {"number": Sum("count"), "first": Min("first_at"), "last": Max("last_at")}
    found: dict[tuple[str, bool], dict[str, MissedReason]] = defaultdict(dict)
    for rows, counted in ((skipped, runs_counted), (spans, spans_counted)):
        for row in _by_reason(rows, job_key, counted):
            reasons = found[row["job__job_key"], row["job__paused_at"] is not None]
            one = MissedReason(row["reason"], row["number"], row["first"], row["last"])
            reasons[one.reason] = _joined(reasons.get(one.reason), one)
    jobs = [
        MissedJob(key, is_paused, tuple(sorted(reasons.values(), key=lambda reason: reason.last_at, reverse=True)))
        for (key, is_paused), reasons in found.items()
    ]
    return sorted(jobs, key=lambda job: (-job.last_at.timestamp(), job.job_key))


def closed_jobs(now: datetime, window: timedelta) -> list[ClosedJob]:
    """Return the jobs with occurrences in (now - window, now] at which their calendar was closed, by arithmetic, those
    with the most first; of the first `MOST_TRIGGERS` triggers with a calendar. Two queries."""
    triggers = (
        Trigger.objects.filter(
            enabled=True, calendar__isnull=False, config_error="", job__is_active=True, job__deleted_at__isnull=True
        )
        .select_related("job", "calendar")
        .prefetch_related("calendar__rules")
        .order_by("job__job_key", "id")[:MOST_TRIGGERS]
    )
    specs: dict[int, CalendarSpec] = {}
    found: dict[str, tuple[set[str], int]] = {}
    for trigger in triggers:
        if trigger.calendar_id not in specs:
            specs[trigger.calendar_id] = calendar_spec(trigger.calendar)
        number = _blocked(trigger, specs[trigger.calendar_id], [now - window, now])
        if number:
            names, before = found.get(trigger.job.job_key, (set(), 0))
            found[trigger.job.job_key] = names | {trigger.calendar.name}, before + number
    jobs = [ClosedJob(key, tuple(sorted(names)), number) for key, (names, number) in found.items()]
    return sorted(jobs, key=lambda job: (-job.count, job.job_key))


def _unseen(recorded: str) -> Q:
    return Q(job__missed_seen_at__isnull=True) | Q(**{f"{recorded}__gt": F("job__missed_seen_at")})


def _by_reason(rows: QuerySet, job_key: str, counted: dict[str, Any]) -> Iterable[dict[str, Any]]:
    rows = rows.filter(job__deleted_at__isnull=True)
    if job_key:
        rows = rows.filter(job__job_key=job_key)
    return rows.order_by().values("job__job_key", "job__paused_at", "reason").annotate(**counted)


def _joined(one: MissedReason | None, other: MissedReason) -> MissedReason:
    if one is None:
        return other
    first_at, last_at = min(one.first_at, other.first_at), max(one.last_at, other.last_at)
    return MissedReason(one.reason, one.count + other.count, first_at, last_at)


def _blocked(trigger: Trigger, calendar: CalendarSpec, edges: list[datetime]) -> int:
    try:
        gates = Gates.of(trigger, schedule_of(trigger), calendar, edges)
    except (InvalidInput, ValueError):
        return 0  # broken: the materializer says how
    if gates.last <= gates.first:
        return 0
    low_high = [to_micro(gates.first), to_micro(gates.last)]
    (wanted,) = counts(gates.schedule, low_high, gates.wanted)
    (allowed,) = counts(gates.schedule, low_high, gates.allowed)
    return wanted - allowed
