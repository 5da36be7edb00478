"""What somebody who opens the dashboard has to know: what is broken, late, failing, held, and by what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Left

from scheduler.models import Lane, Maintenance, Run, Trigger
from scheduler.queries.jobs import OVERDUE_AFTER, live_jobs, planned_late
from scheduler.queries.maintenance import current_maintenance
from scheduler.queries.runners import STALE_SECONDS, rows_with_counts, status_of
from scheduler.queries.silent_channels import FAILURES_TOLD
from scheduler.queries.takers import Untaken, having, untaken
from scheduler.queries.trouble import SILENT, Pulse, pulse, sentences
from scheduler.queries.waiting_letters import letters_by_job
from scheduler.queries.waits import Reason, Taker, lack_of_takers, working_for
from scheduler.services.identity import FLAPPING_TAKEOVERS, FLAPPING_WINDOW
from scheduler.sql.gauges import SilentChannel, job_facts, queue_now, silent_channels

MOST_NAMED = 8
"""So many of a kind are named; the others are counted."""
MOST_JOBS_NAMED = 5
"""So many jobs that require a capability are named."""
UNPLANNED, SILENT_PLANNER = "unplanned", "silent_planner"
"""Codes of why a fire is no run yet: the materializer has not come to it, or is not at work."""
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
class OverdueJob:
    """A job of which a run is due ``since`` then, and why nobody has taken it; None if it only has to wait for its
    turn. Of a fire that is no run yet the reason's code is `UNPLANNED` or `SILENT_PLANNER`."""

    job_key: str
    since: datetime
    why: Reason | None


@dataclass(frozen=True)
class Lacking:
    """A capability that nobody has who is online, takes work and may serve the jobs that require it (their keys)."""

    name: str
    job_keys: tuple[str, ...]

    @property
    def first(self) -> tuple[str, ...]:
        return self.job_keys[:MOST_JOBS_NAMED]

    @property
    def more(self) -> int:
        return len(self.job_keys) - len(self.first)


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
    which no runner takes a run though each capability is had; ``drained``: runners that take none; ``channels``: those
    of alerts that do not answer. ``running`` counts
    claimed runs, ``waiting`` those that are due or are to be tried again, ``held`` those that would be, were their job
    not paused. ``beats`` are the last signs of life by kind of process; no news, so they are in no ``repr``."""

    troubles: tuple[str, ...]
    maintenance: Maintenance | None
    overdue: Some[OverdueJob]
    failing: Some[FailingJob]
    letters: Some[tuple[str, int]]
    flapping: Some[str]
    stale: Some[str]
    drained: Some[str]
    lacking: Some[Lacking]
    channels: Some[SilentChannel]
    untaken: Some[Untaken]
    paused: Some[PausedJob]
    running: int
    waiting: int
    held: int
    beats: dict[str, datetime | None] = field(repr=False)

    @property
    def is_quiet(self) -> bool:
        """Nothing is wrong. A pause, a drained runner and a maintenance are somebody's will."""
        kinds = (self.troubles, self.overdue, self.failing, self.letters, self.flapping, self.stale, self.lacking)
        return not any((*kinds, self.channels, self.untaken))


def situation(now: datetime, seen: Pulse | None = None, *, with_alerts: bool = True) -> Situation:
    """At most fifteen queries, whatever is wrong. Without alerts nothing is said of their channels."""
    queue, letters = queue_now(now), letters_by_job()
    triggers, jobs, runners = _suspects(now), _jobs(), _runners(now)
    present = [row for row in runners if status_of(row.last_poll_at, now) == "online"]
    taking = [row for row in present if not row.is_drained]
    seen = seen or pulse(now)
    maintenance = current_maintenance() if queue.is_held else None
    takers = [row.taker for row in present]
    broken = [(trigger.job.job_key, trigger.config_error) for trigger in triggers if trigger.config_error]
    paused = sorted((job for job in jobs if job.paused_at is not None), key=lambda job: job.paused_at, reverse=True)
    return Situation(
        troubles=tuple(sentences(now, seen, queue.oldest_at, lambda: (len(present), len(taking)), broken)),
        maintenance=maintenance,
        overdue=_explained(_overdue(triggers, now), jobs, takers, maintenance, seen, now),
        failing=_failing(now),
        letters=Some(tuple(letters[:MOST_NAMED]), len(letters)),
        flapping=_some(row.runner_id for row in runners if row.recent_takeovers >= FLAPPING_TAKEOVERS),
        stale=_some(row.runner_id for row in runners if status_of(row.last_poll_at, now) == "stale"),
        drained=_some(row.runner_id for row in runners if row.is_drained),
        lacking=_some(_lacking(jobs, takers)),
        channels=_some(silent_channels(FAILURES_TOLD) if with_alerts else ()),
        untaken=_some(untaken([job.needs for job in jobs if job.is_active], [row.offer for row in taking])),
        paused=_some(PausedJob(job.job_key, job.paused_at, job.paused_until, job.paused_reason) for job in paused),
        running=queue.running,
        waiting=queue.waiting,
        held=queue.held,
        beats=seen.beats,
    )


class _Job(NamedTuple):
    job_key: str
    is_active: bool
    paused_at: datetime | None
    paused_until: datetime | None
    paused_reason: str
    lane_id: int
    tenant: str
    require: list[str]
    prefer: list[str]

    @property
    def needs(self) -> tuple[str, str, list[str], list[str]]:
        return self.job_key, self.tenant, self.require, self.prefer


class _Runner(NamedTuple):
    runner_id: str
    tenant: str | None
    capabilities: list[str]
    last_poll_at: datetime
    is_drained: bool
    recent_takeovers: int
    max_inflight: int
    inflight: int

    @property
    def taker(self) -> Taker:
        has = having(self.runner_id, self.capabilities)
        return Taker(self.tenant, has, self.is_drained, self.inflight >= self.max_inflight)

    @property
    def offer(self) -> tuple[str, str | None, list[str]]:
        return self.runner_id, self.tenant, self.capabilities


def _jobs() -> list[_Job]:
    own = ("job_key", "is_active", "paused_at", "paused_until", "paused_reason")
    of_lane = ("lane_id", "lane__tenant", "lane__require", "lane__prefer")
    rows = live_jobs().order_by("job_key").values_list(*own, *of_lane)
    return [_Job(*row) for row in rows]


def _runners(now: datetime) -> list[_Runner]:
    """Those that polled lately: who is online or stale, or was taken over within the window of flapping."""
    is_drained = ExpressionWrapper(Q(drained_at__isnull=False), BooleanField())
    since = now - max(FLAPPING_WINDOW, timedelta(seconds=STALE_SECONDS))
    rows = rows_with_counts(now).filter(last_poll_at__gte=since).order_by("runner_id")
    own = ("runner_id", "client__tenant", "capabilities", "last_poll_at", is_drained)
    return [_Runner(*row) for row in rows.values_list(*own, "recent_takeovers", "max_inflight", "inflight")]


def _suspects(now: datetime) -> list[Trigger]:
    """The triggers that are broken, and those that nobody has planned for long."""
    is_broken = ~Q(config_error="")
    is_behind = Q(enabled=True, next_materialize_at__isnull=False, cursor_at__lt=now - OVERDUE_AFTER)
    rows = Trigger.objects.filter(is_broken | is_behind, job__deleted_at__isnull=True)
    rows = rows.select_related("job", "calendar").prefetch_related("calendar__rules")
    return list(rows.order_by("job__job_key", "created_at"))


class _Late(NamedTuple):
    """``lane_id``: of the run that nobody takes; None where the fire is no run yet."""

    job_key: str
    since: datetime
    lane_id: int | None


def _overdue(suspects: Iterable[Trigger], now: datetime) -> list[_Late]:
    """As `job_gauges` says it; those that wait longest first."""
    facts = job_facts(now, now - OVERDUE_AFTER)
    unplanned = {job.job_id for job in facts if job.planned_at is None}
    missed: dict[int, datetime] = {}
    for trigger in suspects:
        if trigger.enabled and trigger.next_materialize_at is not None and trigger.job_id in unplanned:
            since = planned_late(trigger, now - OVERDUE_AFTER)
            if since is not None:
                missed[trigger.job_id] = min(since, missed.get(trigger.job_id, since))
    late = [_Late(job.job_key, job.late_at, job.late_lane_id) for job in facts if job.is_running and job.late_at]
    is_told = {job.job_key for job in late}
    late += [
        _Late(job.job_key, missed[job.job_id], None)
        for job in facts
        if job.is_running and job.job_id in missed and job.job_key not in is_told
    ]
    return sorted(late, key=lambda job: (job.since, job.job_key))


def _explained(
    late: Sequence[_Late],
    jobs: Iterable[_Job],
    takers: Sequence[Taker],
    maintenance: Maintenance | None,
    seen: Pulse,
    now: datetime,
) -> Some[OverdueJob]:
    """The first of them with why. One query where a schedule asks for other runners than its job."""
    first = late[:MOST_NAMED]
    lanes = {job.lane_id: (job.tenant, job.require, job.prefer) for job in jobs}
    others = {job.lane_id for job in first} - lanes.keys() - {None}
    if others:
        columns = ("tenant", "require", "prefer")
        lanes |= {pk: needs for pk, *needs in Lane.objects.filter(pk__in=others).values_list("pk", *columns)}

    def why(job: _Late) -> Reason | None:
        if job.lane_id is None:
            beat = seen.beats["materialize"]
            if beat is None or now - beat > SILENT:
                return Reason(SILENT_PLANNER, "No materializer is at work: its fires do not become runs.")
            return Reason(UNPLANNED, "The materializer is behind: a fire that is past is no run yet.")
        if maintenance is not None:
            return Reason("maintenance", "All dispatch is held.", maintenance.until)
        return next(lack_of_takers(*lanes[job.lane_id], takers, is_due=True), None)

    return Some(tuple(OverdueJob(job.job_key, job.since, why(job)) for job in first), len(late))


def _lacking(jobs: Iterable[_Job], takers: Sequence[Taker]) -> Iterator[Lacking]:
    """By name, with the active jobs that ask for it in vain."""
    had: dict[str, frozenset[str]] = {}
    needing: dict[str, list[str]] = {}
    for job in jobs:
        if job.tenant not in had:
            had[job.tenant] = frozenset().union(*working_for(job.tenant, takers))
        for name in job.require if job.is_active else ():
            if name not in had[job.tenant]:
                needing.setdefault(name, []).append(job.job_key)
    return (Lacking(name, tuple(keys)) for name, keys in sorted(needing.items()))


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
    return [job.job_key for job in _overdue(_suspects(now), now)]
