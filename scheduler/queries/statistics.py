"""What became of runs: of one job over days, of all by the hour, failures by weekday and hour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Count, QuerySet

from scheduler.models import Run
from scheduler.sql.buckets import ended_runs
from scheduler.sql.hours import HourOf

MOST_DURATIONS = 20_000
"""Percentiles are those of so many of the newest completed runs at most."""

WINDOWS = {"24h": (timedelta(hours=24), 1), "7d": (timedelta(days=7), 6), "30d": (timedelta(days=30), 24)}
"""Window → its length, and hours a bucket."""

Verdict = Run.Verdict


@dataclass(frozen=True)
class JobStatistics:
    """A job's ended runs by verdict. ``success_rate`` 0 to 1 of those that ran to a verdict (completed, failed, dead),
    None where none did; the percentiles are milliseconds of completed runs, nearest rank, None without any."""

    total: int
    completed: int
    failed: int
    dead: int
    cancelled: int
    skipped: int
    success_rate: float | None
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None


@dataclass(frozen=True)
class Bucket:
    """Runs scheduled for an instant in [start_at, the next bucket's), by what became of them."""

    start_at: datetime
    completed: int
    failed: int
    dead: int
    cancelled: int
    skipped: int


def job_statistics(job_id: int, now: datetime, days: int) -> JobStatistics:
    """Count the job's runs that were scheduled for the last ``days`` days and have ended."""
    runs = Run.objects.filter(
        job_id=job_id, scheduled_for__gt=now - timedelta(days=days), scheduled_for__lte=now, verdict__isnull=False
    )
    by_verdict = dict(runs.order_by().values_list("verdict").annotate(Count("pk")))
    counts = {verdict: by_verdict.get(verdict, 0) for verdict in Verdict.values}
    tried = counts[Verdict.COMPLETED] + counts[Verdict.FAILED] + counts[Verdict.DEAD]
    completed = runs.filter(verdict=Verdict.COMPLETED, duration_ms__isnull=False).order_by("-scheduled_for", "-id")
    durations = sorted(completed.values_list("duration_ms", flat=True)[:MOST_DURATIONS])
    return JobStatistics(
        total=sum(counts.values()),
        success_rate=counts[Verdict.COMPLETED] / tried if tried else None,
        p50_ms=percentile(durations, 0.50),
        p95_ms=percentile(durations, 0.95),
        p99_ms=percentile(durations, 0.99),
        **counts,
    )


def percentile(ascending: Sequence[int], share: float) -> int | None:
    """Return the nearest-rank percentile: the smallest value that ``share`` of all do not exceed."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None


def throughput(now: datetime, window: str, tenant: str | None = None) -> list[Bucket]:
    """Count the ended runs of a window of `WINDOWS` in buckets of whole hours UTC, oldest first, none left out. What it
    costs is a look at an index for each run."""
    length, hours = WINDOWS[window]
    width = timedelta(hours=hours)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    last = day + (now - day) // width * width
    starts = [last - width * k for k in range(length // width, -1, -1)]
    stretches = [(start, start + width) for start in starts]
    ended = ended_runs(stretches, now, tenant)
    return [Bucket(start_at=start, **runs._asdict()) for start, runs in zip(starts, ended, strict=True)]


def failures_by_hour(now: datetime, days: int, zone: ZoneInfo, tenant: str | None = None) -> list[list[int]]:
    """Count runs that failed or died in the last ``days`` days by weekday (Monday first) and hour of ``zone``.

    Counted by the UTC hour that a run was scheduled for: in zones whose offset is no whole hour, by the hour in which
    that one begins.
    """
    runs = Run.objects.filter(
        problem__in=[Verdict.FAILED, Verdict.DEAD], scheduled_for__gt=now - timedelta(days=days), scheduled_for__lte=now
    )
    rows = [[0] * 24 for _ in range(7)]
    by_hour = _of_tenant(runs, tenant).order_by().annotate(hour=HourOf("scheduled_for")).values_list("hour")
    for hour, number in by_hour.annotate(number=Count("pk")):
        local = hour.astimezone(zone)
        rows[local.weekday()][local.hour] += number
    return rows


def _of_tenant(runs: QuerySet[Run], tenant: str | None) -> QuerySet[Run]:
    return runs if tenant is None else runs.filter(job__tenant=tenant)
