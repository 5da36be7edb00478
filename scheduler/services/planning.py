"""Plan one trigger: which of its fires become runs now. `materialize` does it for all that are due, `replan` for a job
that was edited; both hold the lock of the job."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks
from croniq_site.kernel.ids import uuid7_of
from croniq_site.kernel.text import cleaned
from runners.services.audit import Event, record_events
from scheduler.domain.downtime import MOST_CAUGHT_UP, caught_up, is_downtime
from scheduler.domain.schedules import Fire, occurrences
from scheduler.models import Job, QueueEntry, SkippedSpan, Trigger
from scheduler.queries.fires import newest_trigger_fires, schedule_of, trigger_fires
from scheduler.services.admit import is_limited, settle_jobs_later
from scheduler.services.tally import Kind, tally
from scheduler.services.wake import wake
from scheduler.sql.planned import CursorMove, PlannedRun, insert_planned, move_cursors

_log = logging.getLogger(__name__)

MOST_PLANNED = 1000
"""So many future runs of a trigger are planned at most, however long the horizon is."""

MOST_COUNTED = 5000
"""A gap of more fires than this is not counted to its end: what it is said to have skipped is then at least so many."""

RETRY_BROKEN = timedelta(hours=1)
DOWNTIME = "downtime"
_POSITIVE_INTEGER_MOST = 2**31 - 1


@dataclass(frozen=True)
class Gap:
    """Fires that are skipped; ``count`` of them, at least."""

    first_at: datetime
    last_at: datetime
    count: int


@dataclass(frozen=True)
class Plan:
    """What a pass decided for one trigger. Fires in (the row's cursor, ``cursor_at``] are decided by it."""

    trigger: Trigger
    fires: Sequence[Fire]
    skipped: Gap | None
    cursor_at: datetime
    next_materialize_at: datetime | None
    config_error: str = ""


def horizon() -> timedelta:
    return timedelta(seconds=settings.CRONIQ_HORIZON_SECONDS)


def plan_of(trigger: Trigger, now: datetime, room: int) -> Plan:
    """Decide the fires in (cursor, now + horizon], at most ``room`` of them; a trigger that cannot be read is broken
    and stands still for an hour or until it is edited. Writes nothing; the trigger's job is loaded."""
    try:
        return _plan(trigger, now, room)
    except DatabaseError:
        raise
    except Exception as error:
        _log.warning("trigger %s of %s cannot be planned: %s", trigger.pk, trigger.job.job_key, error)
        reason = cleaned(f"{error}" or type(error).__name__, 2000)
        return Plan(trigger, (), None, trigger.cursor_at, now + RETRY_BROKEN, reason)


def _plan(trigger: Trigger, now: datetime, room: int) -> Plan:
    cursor = trigger.cursor_at
    late, skipped = _caught_up(trigger, now) if cursor < now else ([], None)
    ahead = trigger_fires(trigger, after=now, until=now + horizon(), count=MOST_PLANNED)
    end = ahead[-1].at if len(ahead) == MOST_PLANNED else now + horizon()
    fires = [*late, *(fire for fire in ahead if fire.at > cursor)]
    if len(fires) > room:
        return Plan(trigger, fires[:room], skipped, fires[room - 1].at, now)
    cursor = max(cursor, end)
    following = trigger_fires(trigger, after=cursor, count=1)
    if following:
        # Half of what is planned is used up by then; a sparse schedule is left alone until its fire comes near.
        next_at = following[0].at - (cursor - now) / 2
        return Plan(trigger, fires, skipped, cursor, next_at)
    return Plan(trigger, fires, skipped, cursor, None, "" if ahead else _why_never(trigger, cursor))


def _caught_up(trigger: Trigger, now: datetime) -> tuple[list[Fire], Gap | None]:
    """What of the fires behind the cursor is to run still, and what is not. However long nobody planned, no more than
    `MOST_COUNTED` fires from either end are looked at."""
    job = trigger.job
    behind = trigger_fires(trigger, after=trigger.cursor_at, until=now, count=MOST_COUNTED)
    if not behind or not is_downtime(behind, now):
        return behind, None
    newest = behind
    if len(behind) == MOST_COUNTED:
        newest = newest_trigger_fires(trigger, after=trigger.cursor_at, until=now, count=MOST_CAUGHT_UP + 1)
    late, skipped = caught_up(
        newest, now, policy=job.catch_up, grace_seconds=job.misfire_grace_seconds, most=job.max_catch_up
    )
    if not skipped:
        return late, None
    last_at = skipped[-1].at
    return late, Gap(behind[0].at, last_at, sum(1 for fire in behind if fire.at <= last_at))


def _why_never(trigger: Trigger, after: datetime) -> str:
    """Why a trigger without any fire left is broken; empty if it is merely done."""
    if trigger.calendar_id is None or trigger.not_after is not None:
        return ""
    if next(occurrences(schedule_of(trigger), after=after), None) is None:
        return ""
    return "The calendar is closed whenever this schedule would run; it never runs."


def carry_out(plans: Sequence[Plan], now: datetime) -> list[PlannedRun]:
    """Insert the runs, move the cursors and write down what is skipped or broken: one transaction, the caller's, which
    holds the locks of the jobs. Returns the runs that were new."""
    rows = [planned_run(plan.trigger.job, fire) for plan in plans for fire in plan.fires]
    inserted = [run for chunk in chunks(rows, WRITE_BATCH_ROWS) for run in insert_planned(chunk, now)]
    for plan in plans:
        _record_skipped(plan, now)
    _move_cursors(plans)
    broken = [plan for plan in plans if plan.config_error and plan.config_error != plan.trigger.config_error]
    record_events(
        (
            broken_event(plan.trigger.pk, plan.trigger.job.job_key, plan.trigger.job.tenant, plan.config_error)
            for plan in broken
        ),
        now,
    )
    if inserted:
        wake(sorted({run.lane_id for run in inserted}))
        gated = QueueEntry.State.GATED
        settle_jobs_later({run.job_id for run in inserted if run.state == gated and run.scheduled_for <= now}, now)
    return inserted


def waiting_state(job: Job) -> QueueEntry.State:
    """The state in which a scheduled run of this job begins to wait."""
    if job.paused_at is not None:
        return QueueEntry.State.HELD
    return QueueEntry.State.GATED if is_limited(job) else QueueEntry.State.READY


def most_attempts(job: Job) -> int:
    return min(job.max_retries + 1, _POSITIVE_INTEGER_MOST)


def planned_run(job: Job, fire: Fire) -> PlannedRun:
    """The run of a fire of this job, as `insert_planned` takes it. Planned again, it is the same run."""
    return PlannedRun(
        run_id=uuid7_of(fire.at, f"{job.pk} {fire.at.isoformat()}"),
        job_id=job.pk,
        lane_id=job.lane_id,
        scheduled_for=fire.at,
        occurrence_at=fire.occurrence_at,
        state=int(waiting_state(job)),
        max_attempts=most_attempts(job),
        max_losses=job.max_losses,
        lease_seconds=job.lease_seconds,
        timeout_seconds=job.timeout_seconds,
    )


def _record_skipped(plan: Plan, now: datetime) -> None:
    """One span a gap."""
    gap = plan.skipped
    if gap is None:
        return
    job = plan.trigger.job
    SkippedSpan.objects.create(
        job=job, first_at=gap.first_at, last_at=gap.last_at, count=gap.count, reason=DOWNTIME, recorded_at=now
    )
    tally(Kind.SKIPPED, DOWNTIME, gap.count)
    diff = {"reason": DOWNTIME, "first_at": gap.first_at.isoformat(), "trigger_id": str(plan.trigger.pk)}
    record_events([Event("job.fires_skipped", "job", job.job_key, tenant=job.tenant, diff=diff)], now)


def _move_cursors(plans: Sequence[Plan]) -> None:
    moves = [
        CursorMove(plan.trigger.pk, plan.trigger.cursor_at, plan.cursor_at, plan.next_materialize_at, plan.config_error)
        for plan in plans
    ]
    moved = move_cursors(moves)
    if moved != len(moves):
        # Under the locks nobody else moves a cursor; the whole transaction is undone and done again.
        raise RuntimeError(f"{len(moves) - moved} cursors were moved by somebody who held no lock")


def broken_event(trigger_id: UUID, job_key: str, tenant: str, config_error: str) -> Event:
    diff = {"job_key": job_key, "config_error": config_error}
    return Event("trigger.broken", "trigger", str(trigger_id), tenant=tenant, diff=diff)
