"""Jobs, their triggers, and how they stand."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Exists, Min, OuterRef, QuerySet, Subquery

from croniq_site.kernel.errors import InvalidInput
from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.queries.fires import next_fires
from scheduler.queries.job_fires import skipped_ahead
from scheduler.sql.arrays import ArrayHolds
from scheduler.sql.fired import fired_runs

OVERDUE_AFTER = timedelta(seconds=60)
"""A due run that nobody has taken for so long, or a fire of which there is no run, makes its job overdue."""

WAITING = QueueEntry.WAITING
KEYS_AROUND = 1000


@dataclass(frozen=True)
class JobState:
    """How a job stands. ``status`` is active, paused or inactive; ``fire_count`` counts the runs that fell due and are
    kept. ``paused_until`` and ``paused_reason`` are those of a pause, None and "" without one."""

    job_key: str
    status: str
    next_fire_at: datetime | None
    last_fired_at: datetime | None
    fire_count: int
    overdue: bool
    config_error: str
    paused_until: datetime | None
    paused_reason: str


def live_jobs(tenant: str | None = None) -> QuerySet[Job]:
    jobs = Job.objects.filter(deleted_at__isnull=True).select_related("concurrency_group")
    return jobs if tenant is None else jobs.filter(tenant=tenant)


def job_list(*, tenant: str | None = None, tag: str | None = None, limit: int, after: str = "") -> list[Job]:
    """Return at most ``limit`` jobs in the order of their keys, those after the key ``after``."""
    jobs = live_jobs(tenant).filter(job_key__gt=after).order_by("job_key")
    if tag is not None:
        jobs = jobs.filter(ArrayHolds("tags", tag))
    return list(jobs[:limit])


def job_of_key(job_key: str, tenant: str | None = None) -> Job | None:
    return live_jobs(tenant).filter(job_key=job_key).first()


def keys_around(job_key: str, tenant: str | None = None) -> list[str]:
    """The keys of jobs that stand next to ``job_key`` in their order, `KEYS_AROUND` on each side."""
    keys = live_jobs(tenant).values_list("job_key", flat=True)
    before = keys.filter(job_key__lt=job_key).order_by("-job_key")[:KEYS_AROUND]
    return [*before, *keys.filter(job_key__gt=job_key).order_by("job_key")[:KEYS_AROUND]]


def schedule_list(
    *, tenant: str | None = None, job_key: str | None = None, limit: int, after: tuple[str, UUID] | None = None
) -> list[Trigger]:
    """Return at most ``limit`` triggers by job key and id, with job and calendar."""
    triggers = _triggers(tenant)
    if job_key is not None:
        triggers = triggers.filter(job__job_key=job_key)
    if after is not None:
        key, trigger_id = after
        triggers = triggers.filter(job__job_key__gte=key).exclude(job__job_key=key, id__lte=trigger_id)
    return list(triggers.order_by("job__job_key", "id")[:limit])


def schedule_detail(trigger_id: UUID, tenant: str | None = None) -> Trigger | None:
    return _triggers(tenant).filter(id=trigger_id).first()


def _triggers(tenant: str | None) -> QuerySet[Trigger]:
    triggers = Trigger.objects.select_related("job", "calendar").filter(job__deleted_at__isnull=True)
    return triggers if tenant is None else triggers.filter(job__tenant=tenant)


def job_states(jobs: Iterable[Job], now: datetime) -> list[JobState]:
    """Return the state of each of ``jobs``, in their order. The number of queries does not depend on theirs."""
    jobs = list(jobs)
    ids = [job.pk for job in jobs]
    last_fired = Run.objects.filter(job_id=OuterRef("pk"), scheduled_for__lte=now).order_by("-scheduled_for", "-id")
    annotated = {
        job.pk: job
        for job in Job.objects.filter(pk__in=ids).annotate(
            last_fired_at=Subquery(last_fired.values("scheduled_for")[:1]),
            has_late=late_runs(now),
        )
    }
    counts = fired_runs(ids, now)
    errors = dict(Trigger.objects.filter(job_id__in=ids).exclude(config_error="").values_list("job_id", "config_error"))
    upcoming, missed = upcoming_and_missed(ids, now)
    return [
        JobState(
            job_key=job.job_key,
            status=status_of(job),
            next_fire_at=upcoming.get(job.pk) if status_of(job) == "active" else None,
            last_fired_at=annotated[job.pk].last_fired_at,
            fire_count=counts.get(job.pk, 0),
            overdue=(bool(annotated[job.pk].has_late) or job.pk in missed) and status_of(job) == "active",
            config_error=errors.get(job.pk, ""),
            paused_until=job.paused_until,
            paused_reason=job.paused_reason,
        )
        for job in jobs
        if job.pk in annotated
    ]


def status_of(job: Job) -> str:
    if not job.is_active:
        return "inactive"
    return "paused" if job.paused_at is not None else "active"


def late_runs(now: datetime) -> Exists:
    """Of a job: whether a run of it fell due long ago and nobody took it."""
    return Exists(
        QueueEntry.objects.filter(
            job_id=OuterRef("pk"),
            state__in=WAITING,
            state=QueueEntry.State.READY,
            available_at__lt=now - OVERDUE_AFTER,
        )
    )


def fires_that_wait() -> QuerySet[QueueEntry]:
    """The planned fires that have yet to fall due. A run that somebody asked for at a later instant is none."""
    return QueueEntry.objects.filter(state__in=WAITING, attempt=0, waits_since__isnull=True)


def upcoming_and_missed(job_ids: Iterable[int], now: datetime) -> tuple[dict[int, datetime], set[int]]:
    """Return the next fire of each job that has one, planned already, else what its triggers say; and the jobs with a
    fire that should have been a run long ago: no `materialize` came by. Four queries."""
    job_ids = list(job_ids)
    found = dict(
        fires_that_wait()
        .filter(job_id__in=job_ids, run__scheduled_for__gt=now)
        .values_list("job_id")
        .annotate(Min("run__scheduled_for"))
        .order_by()
    )
    beyond, missed = fires_beyond([pk for pk in job_ids if pk not in found], now)
    return found | beyond, missed


def fires_beyond(job_ids: Iterable[int], now: datetime) -> tuple[dict[int, datetime], set[int]]:
    """Of jobs without a planned run: the next fires, and the jobs with a fire that should have been a run long ago.
    What somebody took out is no fire."""
    job_ids = list(job_ids)
    beyond_the_horizon = (
        Trigger.objects.filter(job_id__in=job_ids, enabled=True)
        .exclude(next_materialize_at=None)
        .select_related("job", "calendar")
        .prefetch_related("calendar__rules")
    )
    skipped = skipped_ahead(job_ids, now) if job_ids else {}
    found: dict[int, datetime] = {}
    missed = set()
    for trigger in beyond_the_horizon:
        at = _next_of(trigger, now, skipped.get(trigger.job_id, ()))
        if has_missed(trigger, now):
            missed.add(trigger.job_id)
        if at is not None:
            found[trigger.job_id] = min(at, found.get(trigger.job_id, at))
    return found, missed


def has_missed(trigger: Trigger, now: datetime) -> bool:
    """Whether a fire of the trigger should have been planned long ago."""
    return planned_late(trigger, now - OVERDUE_AFTER) is not None


def planned_late(trigger: Trigger, before: datetime) -> datetime | None:
    """The first fire of the trigger that is before ``before`` and no run yet; None: there is none."""
    since = _next_of(trigger, trigger.cursor_at) if trigger.cursor_at < before else None
    return since if since is not None and since < before else None


def _next_of(trigger: Trigger, after: datetime, left_out: Collection[datetime] = ()) -> datetime | None:
    try:
        return next((at for at in next_fires(trigger, after, 1 + len(left_out)) if at not in left_out), None)
    except InvalidInput:
        return None  # broken: its config_error says why, and it must not take the others' answer along
