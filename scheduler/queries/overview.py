"""Jobs as a person looks at them: their schedules in words, their next fire, their last result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import Coalesce

from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.words import describe
from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.queries.fires import schedule_of, zone_of
from scheduler.queries.job_ahead import Ahead, ahead_of
from scheduler.queries.job_choice import JobChoice, chosen_jobs
from scheduler.queries.job_fires import skipped_ahead
from scheduler.queries.jobs import (
    fires_that_wait,
    has_missed,
    late_runs,
    live_jobs,
    status_of,
    upcoming_and_missed,
)
from scheduler.queries.spoken import say


@dataclass(frozen=True)
class TriggerLine:
    """A trigger. ``zone`` is that of its schedule; ``calendar``, a name, and ``config_error`` may be empty."""

    id: UUID
    words: str
    expression: str
    zone: str
    calendar: str
    calendar_id: int | None
    on_blocked: str
    window: str
    enabled: bool
    managed_by: str
    config_error: str


@dataclass(frozen=True)
class LastResult:
    """The newest run with a verdict. ``at`` is when it ended."""

    run_id: UUID
    state: str
    at: datetime


@dataclass(frozen=True)
class JobLine:
    """How a job stands. ``status`` is active, paused or inactive; ``zone`` that of its first trigger. ``is_overdue`` as
    in `job_states`; ``is_failing``: its newest run that was not cancelled or skipped failed for good."""

    id: int
    job_key: str
    tenant: str
    description: str
    tags: tuple[str, ...]
    status: str
    paused_until: datetime | None
    paused_reason: str
    triggers: tuple[TriggerLine, ...]
    zone: str
    next_fire_at: datetime | None
    last: LastResult | None
    running: int
    config_error: str
    is_overdue: bool
    is_failing: bool
    managed_by: str


@dataclass(frozen=True)
class JobStory:
    """A job as its own page tells it: ``line`` without its next fire, which is the first of ``ahead``."""

    job: Job
    line: JobLine
    ahead: tuple[Ahead, ...]


def job_lines(now: datetime, choice: JobChoice, *, limit: int, after: str = "") -> list[JobLine]:
    """Return at most ``limit`` jobs of a choice by key, those after ``after``. The number of queries does not depend on
    theirs."""
    return _lines(chosen_jobs(choice, now).filter(job_key__gt=after)[:limit], now)


def job_story(job_key: str, now: datetime) -> JobStory | None:
    """Return the job of a key; None if there is none. Four queries, whatever there is of it."""
    waiting = fires_that_wait().filter(job_id=OuterRef("pk"))
    jobs = _looked_at(live_jobs().select_related("lane").filter(job_key=job_key), now).annotate(
        is_planned=Exists(waiting.filter(run__scheduled_for__gt=now))
    )
    job = jobs.prefetch_related("triggers__calendar__rules").first()
    if job is None:
        return None
    triggers = list(job.triggers.all())
    for trigger in triggers:
        trigger.job = job  # its schedule asks for the key, and the job would be read again
    live = [trigger for trigger in triggers if trigger.enabled and trigger.next_materialize_at is not None]
    is_missed = not job.is_planned and any(has_missed(trigger, now) for trigger in live)
    skipped = skipped_ahead([job.pk], now).get(job.pk, set())
    line = _line(job, None, is_missed=is_missed)
    return JobStory(job, line, tuple(ahead_of(job, triggers, skipped, now)))


def _looked_at(jobs: QuerySet[Job], now: datetime) -> QuerySet[Job]:
    """The jobs with their triggers, and what `_line` reads besides."""
    finished = Run.objects.filter(job_id=OuterRef("pk"), verdict__isnull=False, scheduled_for__lte=now)
    finished = finished.order_by("-scheduled_for", "-id")
    ran = finished.exclude(verdict__in=[Run.Verdict.SKIPPED, Run.Verdict.CANCELLED])
    claimed = QueueEntry.objects.filter(job_id=OuterRef("pk"), state=QueueEntry.State.CLAIMED)
    triggers = Trigger.objects.select_related("calendar").order_by("created_at", "id")
    return jobs.annotate(
        running=Coalesce(Subquery(claimed.order_by().values("job_id").annotate(n=Count("pk")).values("n")), 0),
        last_id=Subquery(finished.values("id")[:1]),
        last_state=Subquery(finished.values("verdict")[:1]),
        last_at=Subquery(finished.values("finished_at")[:1]),
        last_verdict=Subquery(ran.values("verdict")[:1]),
        is_late=late_runs(now),
    ).prefetch_related(Prefetch("triggers", triggers))


def _lines(jobs: QuerySet[Job], now: datetime) -> list[JobLine]:
    rows = list(_looked_at(jobs, now))
    ids = [job.pk for job in rows]
    upcoming, missed = upcoming_and_missed(ids, now)
    return [_line(job, upcoming.get(job.pk), is_missed=job.pk in missed) for job in rows]


def _line(job: Job, next_fire_at: datetime | None, *, is_missed: bool) -> JobLine:
    triggers = tuple(_trigger_line(trigger) for trigger in job.triggers.all())
    status = status_of(job)
    return JobLine(
        id=job.pk,
        job_key=job.job_key,
        tenant=job.tenant,
        description=job.description,
        tags=tuple(map(str, job.tags)),
        status=status,
        paused_until=job.paused_until,
        paused_reason=job.paused_reason,
        triggers=triggers,
        zone=triggers[0].zone if triggers else "",
        next_fire_at=next_fire_at if status == "active" else None,
        last=None if job.last_id is None else LastResult(job.last_id, job.last_state, job.last_at),
        running=job.running,
        config_error=next((trigger.config_error for trigger in triggers if trigger.config_error), ""),
        is_overdue=status == "active" and (job.is_late or is_missed),
        is_failing=job.last_verdict in (Run.Verdict.FAILED, Run.Verdict.DEAD),
        managed_by=job.managed_by,
    )


def _trigger_line(trigger: Trigger) -> TriggerLine:
    has_window = trigger.window_start is not None and trigger.window_end is not None
    return TriggerLine(
        id=trigger.pk,
        words=_words(trigger),
        expression=trigger.cron_expression,
        zone=zone_of(trigger),
        calendar=trigger.calendar.name if trigger.calendar is not None else "",
        calendar_id=trigger.calendar_id,
        on_blocked=trigger.on_blocked,
        window=f"{trigger.window_start:%H:%M} to {trigger.window_end:%H:%M}" if has_window else "",
        enabled=trigger.enabled,
        managed_by=trigger.managed_by,
        config_error=trigger.config_error,
    )


def _words(trigger: Trigger) -> str:
    try:
        return describe(schedule_of(trigger), say)
    except (InvalidInput, ValueError):  # broken: its config_error says why
        return trigger.cron_expression or trigger.kind
