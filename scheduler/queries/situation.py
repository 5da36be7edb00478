"""What somebody who opens the dashboard has to know: what is broken, late, failing, held, and by what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import BooleanField, Count, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Left

from runners.models import Runner, RunnerInstance
from scheduler.models import Maintenance, Run, Trigger
from scheduler.queries.gauges import runners_having
from scheduler.queries.jobs import OVERDUE_AFTER, has_missed, live_jobs
from scheduler.queries.maintenance import current_maintenance
from scheduler.queries.runners import STALE_SECONDS, status_of
from scheduler.queries.takers import Untaken, untaken
from scheduler.queries.trouble import Pulse, pulse, sentences
from scheduler.queries.waiting_letters import letters_by_job
from scheduler.services.identity import FLAPPING_TAKEOVERS, FLAPPING_WINDOW
from scheduler.sql.gauges import job_facts, queue_now

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
    """``troubles``: sentences about this installation; ``overdue`` and ``letters`` (with how many wait) by job key;
    ``lacking``: capabilities that jobs require and no runner that is online and takes work has; ``untaken``: jobs of
    which no runner takes a run though each capability is had; ``drained``: runners that take none. ``running`` counts
    claimed runs, ``waiting`` those that are due or are to be tried again. ``beats`` are the last signs of life by kind
    of process; no news, so they are in no ``repr``."""

    troubles: tuple[str, ...]
    maintenance: Maintenance | None
    overdue: Some[str]
    failing: Some[FailingJob]
    letters: Some[tuple[str, int]]
    flapping: Some[str]
    stale: Some[str]
    drained: Some[str]
    lacking: Some[str]
    untaken: Some[Untaken]
    paused: Some[PausedJob]
    running: int
    waiting: int
    beats: dict[str, datetime | None] = field(repr=False)

    @property
    def is_quiet(self) -> bool:
        """Nothing is wrong. A pause, a drained runner and a maintenance are somebody's will."""
        kinds = (self.troubles, self.overdue, self.failing, self.letters, self.flapping, self.stale, self.lacking)
        return not any((*kinds, self.untaken))


def situation(now: datetime, seen: Pulse | None = None) -> Situation:
    """At most fourteen queries, whatever is wrong."""
    queue, letters = queue_now(now), letters_by_job()
    triggers, jobs, runners = _suspects(now), _jobs(), _runners(now)
    present = [row for row in runners if status_of(row.last_poll_at, now) == "online"]
    taking = [row for row in present if not row.is_drained]
    wanted = {(tenant, name) for job in jobs if job.is_active for tenant, name in job.wanted}
    having = runners_having(wanted, [(row.runner_id, row.tenant, row.capabilities) for row in taking])
    seen = seen or pulse()
    broken = [(trigger.job.job_key, trigger.config_error) for trigger in triggers if trigger.config_error]
    paused = sorted((job for job in jobs if job.paused_at is not None), key=lambda job: job.paused_at, reverse=True)
    return Situation(
        troubles=tuple(sentences(now, seen, queue.oldest_at, lambda: bool(present), broken)),
        maintenance=current_maintenance() if queue.is_held else None,
        overdue=_some(_overdue(triggers, now)),
        failing=_failing(now),
        letters=Some(tuple(letters[:MOST_NAMED]), len(letters)),
        flapping=_some(row.runner_id for row in runners if row.recent_takeovers >= FLAPPING_TAKEOVERS),
        stale=_some(row.runner_id for row in runners if status_of(row.last_poll_at, now) == "stale"),
        drained=_some(row.runner_id for row in runners if row.is_drained),
        lacking=_some(name for name, number in having.items() if number == 0),
        untaken=_some(untaken([job.needs for job in jobs if job.is_active], [row.offer for row in taking])),
        paused=_some(PausedJob(job.job_key, job.paused_at, job.paused_until, job.paused_reason) for job in paused),
        running=queue.running,
        waiting=queue.waiting,
        beats=seen.beats,
    )


class _Job(NamedTuple):
    job_key: str
    is_active: bool
    paused_at: datetime | None
    paused_until: datetime | None
    paused_reason: str
    tenant: str
    require: list[str]
    prefer: list[str]

    @property
    def needs(self) -> tuple[str, str, list[str], list[str]]:
        return self.job_key, self.tenant, self.require, self.prefer

    @property
    def wanted(self) -> list[tuple[str, str]]:
        return [(self.tenant, name) for name in self.require]


class _Runner(NamedTuple):
    runner_id: str
    tenant: str | None
    capabilities: list[str]
    last_poll_at: datetime
    is_drained: bool
    recent_takeovers: int

    @property
    def offer(self) -> tuple[str, str | None, list[str]]:
        return self.runner_id, self.tenant, self.capabilities


def _jobs() -> list[_Job]:
    own = ("job_key", "is_active", "paused_at", "paused_until", "paused_reason")
    rows = live_jobs().order_by("job_key").values_list(*own, "lane__tenant", "lane__require", "lane__prefer")
    return [_Job(*row) for row in rows]


def _runners(now: datetime) -> list[_Runner]:
    """Those that polled lately: who is online or stale, or was taken over within the window of flapping."""
    deposed = RunnerInstance.objects.filter(runner=OuterRef("pk"), deposed_at__gt=now - FLAPPING_WINDOW)
    takeovers = Coalesce(Subquery(deposed.order_by().values("runner").annotate(n=Count("pk")).values("n")), 0)
    is_drained = ExpressionWrapper(Q(drained_at__isnull=False), BooleanField())
    since = now - max(FLAPPING_WINDOW, timedelta(seconds=STALE_SECONDS))
    rows = Runner.objects.filter(last_poll_at__gte=since).order_by("runner_id")
    return [
        _Runner(*row)
        for row in rows.values_list(
            "runner_id", "client__tenant", "capabilities", "last_poll_at", is_drained, takeovers
        )
    ]


def _suspects(now: datetime) -> list[Trigger]:
    """The triggers that are broken, and those that nobody has planned for long."""
    is_broken = ~Q(config_error="")
    is_behind = Q(enabled=True, next_materialize_at__isnull=False, cursor_at__lt=now - OVERDUE_AFTER)
    rows = Trigger.objects.filter(is_broken | is_behind, job__deleted_at__isnull=True)
    rows = rows.select_related("job", "calendar").prefetch_related("calendar__rules")
    return list(rows.order_by("job__job_key", "created_at"))


def _overdue(suspects: Iterable[Trigger], now: datetime) -> Iterator[str]:
    """As `job_gauges` says it."""
    facts = job_facts(now, now - OVERDUE_AFTER)
    unplanned = {job.job_id for job in facts if job.planned_at is None}
    behind = (trigger for trigger in suspects if trigger.enabled and trigger.next_materialize_at is not None)
    missed = {trigger.job_id for trigger in behind if trigger.job_id in unplanned and has_missed(trigger, now)}
    return (job.job_key for job in facts if job.is_running and (job.is_late or job.job_id in missed))


def _some(items: Iterable[T]) -> Some[T]:
    found = tuple(items)
    return Some(found[:MOST_NAMED], len(found))


def failing_runs(now: datetime) -> QuerySet[Run]:
    """Of each job whose newest run that was neither cancelled nor skipped failed for good: that run."""
    ended = Run.objects.filter(job_id=OuterRef("pk"), verdict__isnull=False, scheduled_for__lte=now)
    ran = ended.exclude(verdict__in=[Run.Verdict.SKIPPED, Run.Verdict.CANCELLED])
    newest = live_jobs().annotate(newest=Subquery(ran.order_by("-scheduled_for", "-id").values("pk")[:1]))
    return Run.objects.filter(
        pk__in=newest.filter(newest__isnull=False).order_by().values("newest"),
        problem__in=[Run.Verdict.FAILED, Run.Verdict.DEAD],
    )


def _failing(now: datetime) -> Some[FailingJob]:
    rows = failing_runs(now).annotate(head=Left("error", ERROR_CHARACTERS)).order_by("-finished_at", "-pk")
    found = rows.values_list("job__job_key", "pk", "verdict", "finished_at", "head")
    return _some(FailingJob(*row) for row in found)


def overdue_jobs(now: datetime) -> list[str]:
    """The keys of the jobs that `situation` calls overdue. Two queries, and one for their calendars' rules."""
    return list(_overdue(_suspects(now), now))
