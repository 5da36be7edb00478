"""Plan one trigger: which of its fires become runs now. `materialize` does it for all that are due, `replan` for a job
that was edited; both hold the lock of the job.

Plans are in microseconds since 1970, as the statements that carry them out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError

from croniq_site.kernel import tracing
from croniq_site.kernel.database import chunks
from croniq_site.kernel.ids import uuid7_of
from croniq_site.kernel.text import cleaned
from runners.services.audit import Event, record_events
from scheduler.domain.downtime import MOST_CAUGHT_UP, caught_up, is_downtime
from scheduler.domain.occurrences import to_micro
from scheduler.domain.schedules import Fire, occurrences
from scheduler.metrics import traces
from scheduler.models import Job, QueueEntry, SkippedSpan, Trigger
from scheduler.queries.fires import newest_trigger_fires, schedule_of, trigger_fires
from scheduler.queries.gates import fires_counted
from scheduler.services.admit import is_limited, settle_jobs_later
from scheduler.services.caps import most_planned
from scheduler.services.tally import Kind, tally
from scheduler.services.wake import wake
from scheduler.sql.due import DueJob, DueTrigger
from scheduler.sql.planned import CursorMove, PlannedRun, batch_size, each_once, insert_planned, move_cursors

_log = logging.getLogger(__name__)

MOST_COUNTED = 5000
"""A gap of more fires than this is counted by arithmetic; of one whose calendar moves fires it is only said that there
are at least so many."""

RETRY_BROKEN = timedelta(hours=1)
DOWNTIME = "downtime"
_POSITIVE_INTEGER_MOST = 2**31 - 1


@dataclass(frozen=True)
class Gap:
    """Fires that are skipped; ``count`` of them, or, if that is `MOST_COUNTED`, at least so many."""

    first_at: datetime
    last_at: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided for one trigger. Fires in (``was``, ``cursor_at``] are decided by it; each has the earliest
    occurrence that led to it, in ``occurrences``."""

    trigger: Trigger | DueTrigger
    fires: Sequence[int]
    occurrences: Sequence[int]
    skipped: Gap | None
    was: int
    cursor_at: int
    next_materialize_at: int | None
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
        at = to_micro(trigger.cursor_at)
        return Plan(trigger, (), (), None, at, at, to_micro(now + RETRY_BROKEN), reason)


def _plan(trigger: Trigger, now: datetime, room: int) -> Plan:
    cursor, most = trigger.cursor_at, most_planned(now)
    late, skipped = _caught_up(trigger, now) if cursor < now else ([], None)
    ahead = trigger_fires(trigger, after=now, until=now + horizon(), count=most)
    end = ahead[-1].at if len(ahead) == most else now + horizon()
    fires = [*late, *(fire for fire in ahead if fire.at > cursor)]
    if len(fires) > room:
        return _plan_of(trigger, fires[:room], skipped, fires[room - 1].at, now)
    cursor = max(cursor, end)
    following = trigger_fires(trigger, after=cursor, count=1)
    if following:
        # Half of what is planned is used up by then; a sparse schedule is left alone until its fire comes near.
        next_at = following[0].at - (cursor - now) // 2
        return _plan_of(trigger, fires, skipped, cursor, next_at)
    return _plan_of(trigger, fires, skipped, cursor, None, "" if ahead else _why_never(trigger, cursor))


def _plan_of(
    trigger: Trigger,
    fires: Sequence[Fire],
    skipped: Gap | None,
    cursor: datetime,
    next_at: datetime | None,
    config_error: str = "",
) -> Plan:
    return Plan(
        trigger,
        [to_micro(fire.at) for fire in fires],
        [to_micro(fire.occurrence_at) for fire in fires],
        skipped,
        to_micro(trigger.cursor_at),
        to_micro(cursor),
        None if next_at is None else to_micro(next_at),
        config_error,
    )


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
    first_at, last_at = behind[0].at, skipped[-1].at
    number = None
    if len(behind) == MOST_COUNTED:
        number = fires_counted(trigger, after=trigger.cursor_at, until=last_at)
    return late, Gap(first_at, last_at, number or sum(1 for fire in behind if fire.at <= last_at))


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
    # Before they are cut into statements: the fire at which two triggers meet may stand in two of them.
    rows = each_once([run for plan in plans if plan.fires for run in _planned_runs(plan)])
    inserted = [run for chunk in chunks(rows, batch_size().runs) for run in insert_planned(chunk, now)]
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
        gated, at = QueueEntry.State.GATED, to_micro(now)
        settle_jobs_later({run.job_id for run in inserted if run.state == gated and run.scheduled_for <= at}, now)
        if tracing.active is not None:
            traces.note_planned(inserted, (plan.trigger.job for plan in plans), now)
    return inserted


def waiting_state(job: Job | DueJob) -> QueueEntry.State:
    """The state in which a scheduled run of this job begins to wait."""
    if job.paused_at is not None:
        return QueueEntry.State.HELD
    return QueueEntry.State.GATED if is_limited(job) else QueueEntry.State.READY


def most_attempts(job: Job | DueJob) -> int:
    return min(job.max_retries + 1, _POSITIVE_INTEGER_MOST)


def planned_run(job: Job, fire: Fire) -> PlannedRun:
    """The run of a fire of this job, as `insert_planned` takes it."""
    at = to_micro(fire.at)
    return PlannedRun(uuid7_of(at, job.pk), job.pk, job.lane_id, at, to_micro(fire.occurrence_at), *_begins(job))


def _planned_runs(plan: Plan) -> Iterator[PlannedRun]:
    job = plan.trigger.job
    job_id, lane_id, begins = job.pk, job.lane_id, _begins(job)
    for at, occurrence_at in zip(plan.fires, plan.occurrences, strict=True):
        # Planned again, it is the same run.
        yield PlannedRun(uuid7_of(at, job_id), job_id, lane_id, at, occurrence_at, *begins)


def _begins(job: Job | DueJob) -> tuple[int, int, int, float, float]:
    """What every run of the job begins with: the last fields of a `PlannedRun`."""
    return int(waiting_state(job)), most_attempts(job), job.max_losses, job.lease_seconds, job.timeout_seconds


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
        CursorMove(plan.trigger.pk, plan.was, plan.cursor_at, plan.next_materialize_at, plan.config_error)
        for plan in plans
    ]
    moved = move_cursors(moves)
    if moved != len(moves):
        # Under the locks nobody else moves a cursor; the whole transaction is undone and done again.
        raise RuntimeError(f"{len(moves) - moved} cursors were moved by somebody who held no lock")


def broken_event(trigger_id: UUID, job_key: str, tenant: str, config_error: str) -> Event:
    diff = {"job_key": job_key, "config_error": config_error}
    return Event("trigger.broken", "trigger", str(trigger_id), tenant=tenant, diff=diff)
