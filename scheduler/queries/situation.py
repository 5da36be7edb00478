"""What somebody who opens the dashboard has to know: what is broken, late, failing, held, and by what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Left

from scheduler.models import DeadLetter, Maintenance, QueueEntry, Run
from scheduler.queries.gauges import capability_runners, flapping_runners, job_gauges
from scheduler.queries.jobs import live_jobs
from scheduler.queries.maintenance import current_maintenance
from scheduler.queries.runners import runner_list
from scheduler.queries.trouble import troubles
from scheduler.sql.gauges import due_unclaimed

MOST_NAMED = 20
"""So many of a kind are named; the others are counted."""
ERROR_CHARACTERS = 200

T = TypeVar("T")


@dataclass(frozen=True)
class Some(Generic[T]):
    """The first of a kind, and how many there are."""

    first: tuple[T, ...]
    total: int

    @property
    def more(self) -> int:
        return self.total - len(self.first)

    def __bool__(self) -> bool:
        return self.total > 0


@dataclass(frozen=True)
class FailingJob:
    """A job whose newest ended run failed for good; ``error`` begins as the run's does."""

    job_key: str
    run_id: UUID
    state: str
    ended_at: datetime
    error: str


@dataclass(frozen=True)
class PausedJob:
    job_key: str
    since: datetime
    until: datetime | None
    reason: str


@dataclass(frozen=True)
class Situation:
    """``troubles``: sentences about this installation; ``overdue`` and ``letters`` (with their numbers) by job key;
    ``lacking``: capabilities that jobs require and no runner that is online has. ``running`` and ``waiting`` count runs
    that are claimed, and due runs that nobody has claimed."""

    troubles: tuple[str, ...]
    maintenance: Maintenance | None
    overdue: Some[str]
    failing: Some[FailingJob]
    letters: Some[tuple[str, int]]
    flapping: Some[str]
    stale: Some[str]
    lacking: Some[str]
    paused: Some[PausedJob]
    running: int
    waiting: int

    @property
    def is_quiet(self) -> bool:
        """Nothing is wrong. A pause and a maintenance are somebody's will."""
        kinds = (self.troubles, self.overdue, self.failing, self.letters, self.flapping, self.stale, self.lacking)
        return not any(kinds)


def situation(now: datetime) -> Situation:
    letters = _letters()
    return Situation(
        troubles=tuple(troubles(now)),
        maintenance=current_maintenance(),
        overdue=_some(job.job_key for job in job_gauges(now) if job.is_overdue),
        failing=_failing(now),
        letters=Some(tuple(letters[:MOST_NAMED]), len(letters)),
        flapping=_some(flapping_runners(now)),
        stale=_some(runner.runner_id for runner in runner_list(now, status="stale", limit=500)),
        lacking=_some(name for name, runners in capability_runners(now).items() if runners == 0),
        paused=_paused(),
        running=QueueEntry.objects.filter(state=QueueEntry.State.CLAIMED).count(),
        waiting=due_unclaimed(now),
    )


def _some(items: Iterable[T]) -> Some[T]:
    found = tuple(items)
    return Some(found[:MOST_NAMED], len(found))


def _failing(now: datetime) -> Some[FailingJob]:
    ended = Run.objects.filter(job_id=OuterRef("pk"), verdict__isnull=False, scheduled_for__lte=now)
    ran = ended.exclude(verdict__in=[Run.Verdict.SKIPPED, Run.Verdict.CANCELLED])
    newest = live_jobs().annotate(newest=Subquery(ran.order_by("-scheduled_for", "-id").values("pk")[:1]))
    bad = Run.objects.filter(
        pk__in=newest.filter(newest__isnull=False).order_by().values("newest"),
        problem__in=[Run.Verdict.FAILED, Run.Verdict.DEAD],
    )
    rows = bad.annotate(head=Left("error", ERROR_CHARACTERS)).order_by("-finished_at", "-pk")
    found = rows.values_list("job__job_key", "pk", "verdict", "finished_at", "head")
    return _some(FailingJob(*row) for row in found)


def _letters() -> list[tuple[str, int]]:
    counted = DeadLetter.objects.values("job__job_key").annotate(number=Count("pk"))
    return list(counted.order_by("-number", "job__job_key").values_list("job__job_key", "number"))


def _paused() -> Some[PausedJob]:
    paused = live_jobs().filter(paused_at__isnull=False).order_by("-paused_at", "job_key")
    return _some(PausedJob(*row) for row in paused.values_list("job_key", "paused_at", "paused_until", "paused_reason"))
