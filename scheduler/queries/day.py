"""All jobs over one day: what ran, as it was, and what is to come, as the newest runs let expect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest

from scheduler.domain.occurrences import TICK
from scheduler.models import Job, QueueEntry, Run
from scheduler.queries.forecast import forecast
from scheduler.queries.forecast_rows import Bucket
from scheduler.queries.statistics import percentile
from scheduler.sql.day import SecondsOf, recent_durations
from scheduler.sql.hours import HourOf

DAY = timedelta(days=1)
MOST_RUNS = 8_000
"""A day with more runs is read as numbers by the hour."""
EXPECTED_OF = 30
"""So many of a job's newest runs say how long the next ones take."""
QUARTER = timedelta(minutes=15)
LISTED_OF_A_JOB = 96

_FAILED = (Run.Verdict.FAILED, Run.Verdict.DEAD)


@dataclass(frozen=True, slots=True)
class DayJob:
    """A job's names: ``group`` is empty where it is in none."""

    id: int
    job_key: str
    tenant: str
    tags: tuple[str, ...]
    group: str


class DayRun(NamedTuple):
    """A run. Instants are seconds since 1970: due, claimed (None: never) and ended (None: not yet)."""

    id: UUID
    job_id: int
    runner_id: str
    due: float
    claimed: float | None
    ended: float | None
    verdict: str | None


@dataclass(frozen=True, slots=True)
class HourOfRuns:
    """``hour`` 0 to 23 of the day; how many runs of a job fell into it (on a runner), and how many of them failed."""

    job_id: int
    runner_id: str
    hour: int
    runs: int
    failed: int


@dataclass(frozen=True, slots=True)
class Expected:
    """A fire to come, in seconds since 1970, with how long it takes: median and 95th percentile, None unknown."""

    job_id: int
    at: float
    median_seconds: float | None
    most_seconds: float | None


@dataclass(frozen=True)
class Day:
    """The day [start, end), up to ``now`` as ``runs`` (or, of too many, as ``hours``; ``total`` counts them), after it
    as ``expected``. ``quarters``: the fires of all jobs to come, also those that are not listed; ``unlisted`` counts
    the latter by job and hour of the day (24 numbers)."""

    start: datetime
    end: datetime
    jobs: dict[int, DayJob]
    runs: tuple[DayRun, ...]
    hours: tuple[HourOfRuns, ...]
    total: int
    expected: tuple[Expected, ...]
    unlisted: dict[int, tuple[int, ...]]
    quarters: tuple[Bucket, ...]


def day_of(start: datetime, now: datetime) -> Day:
    """Read the day that begins at ``start``. At most twelve queries, whatever is in it.

    Runs count to the day for which they were scheduled; one that was scheduled up to a day before and still ran is part
    of it too.
    """
    end = start + DAY
    until = min(end - TICK, now)
    found = _runs_until(start, until) if start <= now else []
    rows, hours = found or [], () if found is not None else tuple(_hours(start, until))
    total = len(rows) + sum(hour.runs for hour in hours)
    expected, unlisted, quarters, keys = _expected(max(start, now), end, now) if now < end else ((), {}, (), {})
    jobs = keys | _jobs({run.job_id for run in rows} | {hour.job_id for hour in hours}, known=keys)
    return Day(start, end, jobs, tuple(rows), hours, total, expected, unlisted, quarters)


def _ran(start: datetime, until: datetime) -> QuerySet[Run]:
    runs = Run.objects.filter(scheduled_for__gte=start, scheduled_for__lte=until)
    return runs.filter(Q(problem__isnull=True) | ~Q(problem=Run.Verdict.SKIPPED))


def _runs_until(start: datetime, until: datetime) -> list[DayRun] | None:
    """None where there are more than the most. Of the day's own runs two indexes tell that; none of them is read."""
    own = Run.objects.filter(scheduled_for__gte=start, scheduled_for__lte=until)
    number = own.count()
    if number > MOST_RUNS and number - own.filter(problem=Run.Verdict.SKIPPED).count() > MOST_RUNS:
        return None
    reaches = Q(scheduled_for__gte=start) | Q(finished_at__gt=start) | Q(entry__state=QueueEntry.State.CLAIMED)
    rows = _ran(start - DAY, until).filter(reaches).order_by("scheduled_for", "id")
    values = rows.values_list(
        "pk",
        "job_id",
        Coalesce("entry__holder__runner__runner_id", "runner_id"),
        SecondsOf(Greatest("scheduled_for", "created_at")),
        SecondsOf(Coalesce("entry__claimed_at", "claimed_at")),
        SecondsOf("finished_at"),
        "verdict",
    )
    found = list(map(DayRun._make, values[: MOST_RUNS + 1]))
    return found if len(found) <= MOST_RUNS else None


def _hours(start: datetime, until: datetime) -> Iterable[HourOfRuns]:
    rows = _ran(start, until).order_by().annotate(hour=HourOf("scheduled_for"))
    counted = rows.values_list("job_id", "runner_id", "hour").annotate(
        runs=Count("pk"), failed=Count("pk", filter=Q(problem__in=_FAILED))
    )
    for job_id, runner_id, hour, runs, failed in counted:
        yield HourOfRuns(job_id, runner_id, int((hour - start) / timedelta(hours=1)), runs, failed)


def _expected(
    begin: datetime, end: datetime, now: datetime
) -> tuple[tuple[Expected, ...], dict[int, tuple[int, ...]], tuple[Bucket, ...], dict[int, DayJob]]:
    # From the beginning of the quarter of an hour on, and that included: a bucket is what lies in (start, end].
    begin = begin - (begin - datetime.min.replace(tzinfo=begin.tzinfo)) % QUARTER - TICK
    found = forecast(begin, end - TICK - begin, bucket=QUARTER, per_job=LISTED_OF_A_JOB)
    coming = {job.job_key: job for job in found.jobs if job.starts}
    jobs = {job.id: job for job in _described(Job.objects.filter(deleted_at__isnull=True)) if job.job_key in coming}
    lengths = recent_durations(jobs, now, EXPECTED_OF)
    expected: list[Expected] = []
    unlisted: dict[int, tuple[int, ...]] = {}
    for job_id, job in jobs.items():
        took = sorted(lengths.get(job_id, ()))
        median, most = percentile(took, 0.5), percentile(took, 0.95)
        listed = (item for item in coming[job.job_key].coming if not item.is_blocked and not item.is_skipped)
        fires = [item for item in listed if not item.is_paused]
        expected += [
            Expected(
                job_id,
                fire.at.timestamp(),
                None if median is None else median / 1000,
                None if most is None else most / 1000,
            )
            for fire in fires
            if fire.at > now
        ]
        if coming[job.job_key].starts > len(fires):
            unlisted[job_id] = _by_hour(found.buckets, coming[job.job_key].unlisted(found.buckets), end - DAY)
    return tuple(sorted(expected, key=lambda fire: fire.at)), unlisted, found.buckets, jobs


def _by_hour(quarters: Iterable[Bucket], numbers: Iterable[int], start: datetime) -> tuple[int, ...]:
    """The numbers of the quarters of an hour, of which none lies in two hours, as the 24 of the day from ``start``."""
    hours = [0] * 24
    for quarter, number in zip(quarters, numbers, strict=True):
        hours[int((quarter.end - start) / timedelta(hours=1))] += number
    return tuple(hours)


def _jobs(job_ids: set[int], known: dict[int, DayJob]) -> dict[int, DayJob]:
    missing = job_ids - known.keys()
    return {job.id: job for job in _described(Job.objects.filter(pk__in=missing))} if missing else {}


def _described(jobs: QuerySet[Job]) -> Iterable[DayJob]:
    rows = jobs.order_by("job_key").values_list("pk", "job_key", "tenant", "tags", "concurrency_group__name")
    for pk, job_key, tenant, tags, group in rows:
        yield DayJob(pk, job_key, tenant, tuple(sorted(map(str, tags))), group or "")
