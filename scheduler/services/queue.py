"""The guarded writes that several events share: lock entries, send them back to wait, end their runs.

Every function here needs the caller's transaction and entries that `lock_entries` gave in it. Each write names the
state and the attempt again and checks its count (of what RETURNING gives: SQLite's driver counts no statement that
begins with WITH): were a lock ever missing, it would fail loudly and change nothing.
"""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from croniq_site.kernel import tracing
from croniq_site.kernel.database import row_list
from croniq_site.kernel.ids import uuid7
from runners.services.audit import SYSTEM, Actor, Event
from scheduler.domain import transitions
from scheduler.domain.fingerprints import fingerprint_of
from scheduler.domain.transitions import State
from scheduler.metrics import traces
from scheduler.models import DeadLetter, Job, QueueEntry, Run, Slot
from scheduler.services.admit import domain_of, is_limited, settle_later
from scheduler.services.alerts.causes import FailedRun, tell_of_failures
from scheduler.services.tally import tally_failed

STATE_NUMBERS = {
    State.READY: QueueEntry.State.READY,
    State.GATED: QueueEntry.State.GATED,
    State.HELD: QueueEntry.State.HELD,
    State.CLAIMED: QueueEntry.State.CLAIMED,
    State.STOPPING: QueueEntry.State.STOPPING,
}
STATES = {number: state for state, number in STATE_NUMBERS.items()}


class GuardFailed(RuntimeError):
    """A guarded write met another number of rows than it had locked: a fault of ours, the transaction rolls back."""


@dataclass(frozen=True)
class Rest:
    """Send a claimed entry back to wait, with these numbers; ``error``: what its attempt failed with."""

    entry: QueueEntry
    available_at: datetime
    attempt: int
    max_attempts: int
    losses: int
    error: str = ""


@dataclass(frozen=True)
class Ending:
    """Give a run its verdict; ``reason`` is also the letter's ``dead_reason``."""

    entry: QueueEntry
    verdict: State
    attempt: int
    reason: str = ""
    error: str = ""
    runner_id: str = ""
    claimed_at: datetime | None = None
    duration_ms: int | None = None


def lock_entries(run_ids: Iterable[UUID]) -> list[QueueEntry]:
    """Lock the entries of these runs, in the order of run ids, and return them with run, job and holder.

    What goes with an entry is read only once it is locked: a row that was joined before the wait would be an old one.
    """
    return list(
        QueueEntry.objects.select_for_update()
        .filter(run_id__in=list(run_ids))
        .order_by("run_id")
        .prefetch_related("run", "job", "holder__runner")
    )


def lock_entries_of(job: Job) -> None:
    """Lock all entries of a job that is being edited, also those that are claimed: an attempt that ends in this moment
    either is over, and its run is found where it waits, or it reads the job as it will be."""
    list(QueueEntry.objects.select_for_update().filter(job=job).order_by("pk").values_list("pk", flat=True))


def holder_name(entry: QueueEntry) -> str:
    """Return the ``runner_id`` of the entry's holder, empty where nobody holds it."""
    return entry.holder.runner.runner_id if entry.holder_id else ""


def resting_state(entry: QueueEntry) -> State:
    """Return where this run waits for its next attempt. Pause holds scheduled runs only."""
    is_held = entry.job.paused_at is not None and entry.run.kind == Run.Kind.SCHEDULED
    return transitions.resting_state(is_limited=is_limited(entry.job), is_held=is_held)


def ending_state(job: Job) -> State:
    """Return the verdict of a run of ``job`` whose attempts are used up; nobody reads the letters of a deleted job."""
    return transitions.ending_state(dead_letters=job.dead_letter_enabled and job.deleted_at is None)


def send_to_rest(rests: Sequence[Rest], now: datetime) -> None:
    """Claimed → ready, gated or held; what the holder had is nobody's now, slots are given back. The run waits with the
    lane, lease and timeout that its job has by now, but for a lane or timeout of its own.

    No fire falls due here: it was decided already that the run may wait (``waits_since``).
    """
    if not rests:
        return
    columns = {
        "key": "uuid",
        "attempt": "int",
        "lane_id": "bigint",
        "lease_seconds": "double precision",
        "timeout_seconds": "double precision",
        "state": "smallint",
        "available_at": "timestamptz",
        "next_attempt": "int",
        "max_attempts": "int",
        "losses": "int",
        "waits_since": "timestamptz",
    }
    if tracing.active is not None:
        # Not of a claim that is as if it had never been.
        over = [rest for rest in rests if rest.attempt == rest.entry.attempt]
        outcomes = ["lost" if rest.losses > rest.entry.losses else "failed" for rest in over]
        traces.note_ended([_over(rest.entry, out, rest.error, now) for rest, out in zip(over, outcomes, strict=True)])
    for rest in rests:
        if not rest.entry.own_lane:
            rest.entry.lane_id = rest.entry.job.lane_id
    rows = [
        (
            rest.entry.run_id,
            rest.entry.attempt,
            rest.entry.lane_id,
            rest.entry.job.lease_seconds,
            rest.entry.run.timeout_seconds or rest.entry.job.timeout_seconds,
            int(STATE_NUMBERS[resting_state(rest.entry)]),
            rest.available_at,
            rest.attempt,
            rest.max_attempts,
            rest.losses,
            now,
        )
        for rest in rests
    ]
    resting, parameters = row_list("r", columns, rows)
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {resting} UPDATE scheduler_queueentry AS q SET state = r.state, lane_id = r.lane_id, "
            "lease_seconds = r.lease_seconds, timeout_seconds = r.timeout_seconds, "
            "available_at = r.available_at, attempt = r.next_attempt, max_attempts = r.max_attempts, "
            "losses = r.losses, holder_id = NULL, "
            "waits_since = COALESCE(q.waits_since, "
            "CASE WHEN r.next_attempt > 0 OR r.state = 1 THEN r.waits_since END), passed_over_at = NULL, "
            "claimed_at = NULL, lease_expires_at = NULL, deadline_at = NULL "
            "FROM r WHERE q.run_id = r.key AND q.attempt = r.attempt AND q.state = 3 RETURNING run_id",
            parameters,
        )
        _check(len(cursor.fetchall()), len(rows))
    give_back_slots([rest.entry for rest in rests], now)


def remove_entries(entries: Sequence[QueueEntry], now: datetime) -> None:
    """Take finished runs out of the queue; their slots are given back."""
    for state in sorted({entry.state for entry in entries}):
        run_ids = [entry.run_id for entry in entries if entry.state == state]
        removed, _ = QueueEntry.objects.filter(run_id__in=run_ids, state=state).delete()
        _check(removed, len(run_ids))
    give_back_slots(entries, now)


def begin_stopping(entries: Sequence[QueueEntry]) -> None:
    """Claimed → stopping: the run has its verdict, its handler has yet to go; lease and slots stay."""
    run_ids = [entry.run_id for entry in entries]
    changed = QueueEntry.objects.filter(run_id__in=run_ids, state=QueueEntry.State.CLAIMED).update(
        state=QueueEntry.State.STOPPING
    )
    _check(changed, len(run_ids))


def give_back_slots(entries: Sequence[QueueEntry], now: datetime) -> None:
    """Delete the slots of these runs; at the end of the transaction they go to those that wait for them. Runs of jobs
    without a limit have none and cost nothing here."""
    limited = [entry for entry in entries if is_limited(entry.job)]
    if limited:
        Slot.objects.filter(run_id__in=[entry.run_id for entry in limited]).delete()
        settle_later((domain_of(entry.job) for entry in limited), now)


def end_runs(endings: Sequence[Ending], now: datetime) -> None:
    """Write the verdicts (any but ``completed``) of runs that have none yet, and a letter for each that is dead."""
    if not endings:
        return
    columns = {
        "key": "uuid",
        "verdict": "text",
        "attempt": "int",
        "reason": "text",
        "error": "text",
        "runner_id": "text",
        "claimed_at": "timestamptz",
        "finished_at": "timestamptz",
        "duration_ms": "bigint",
    }
    rows = [
        (
            ending.entry.run_id,
            ending.verdict.value,
            ending.attempt,
            ending.reason,
            ending.error,
            ending.runner_id,
            ending.claimed_at,
            now,
            ending.duration_ms,
        )
        for ending in endings
    ]
    ended, parameters = row_list("e", columns, rows)
    changes = ", ".join(f"{column} = e.{column}" for column in columns if column != "key")
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {ended} UPDATE scheduler_run AS r SET {changes}, problem = e.verdict "
            "FROM e WHERE r.id = e.key AND r.verdict IS NULL RETURNING id",
            parameters,
        )
        _check(len(cursor.fetchall()), len(rows))
    if tracing.active is not None:
        over = [one for one in endings if one.entry.state == QueueEntry.State.CLAIMED and one.claimed_at is not None]
        traces.note_ended([_over(one.entry, one.verdict.value, one.error or one.reason, now) for one in over])
    DeadLetter.objects.bulk_create(_letter(ending, now) for ending in endings if ending.verdict is State.DEAD)
    failed = [ending for ending in endings if ending.verdict in (State.FAILED, State.DEAD)]
    tally_failed(Counter((ending.entry.job_id, ending.verdict.value) for ending in failed))
    # Nobody waits for the runs of a job that was deleted.
    told = [
        FailedRun(
            ending.entry.run_id,
            ending.entry.run.scheduled_for,
            ending.entry.job.job_key,
            ending.entry.job.tenant,
            ending.reason,
            ending.error,
            ending.entry.job.tags,
        )
        for ending in failed
        if ending.entry.job.deleted_at is None
    ]
    if told:
        tell_of_failures(told, now)


def _over(entry: QueueEntry, outcome: str, error: str, now: datetime) -> traces.EndedAttempt:
    return traces.EndedAttempt(
        entry.run_id,
        entry.job.job_key,
        entry.run.metadata,
        entry.attempt,
        holder_name(entry),
        outcome,
        entry.claimed_at,
        now,
        error=error or outcome,
    )


def _letter(ending: Ending, now: datetime) -> DeadLetter:
    job, run = ending.entry.job, ending.entry.run
    kept = job.dead_letter_retention_seconds
    return DeadLetter(
        id=uuid7(now),
        run_id=run.pk,
        job_id=job.pk,
        error=ending.error,
        attempt=ending.attempt,
        dead_reason=ending.reason,
        scheduled_for=run.scheduled_for,
        fire_at=ending.entry.available_at,
        metadata={**job.metadata, **(run.metadata or {})},
        created_at=now,
        expires_at=now + timedelta(seconds=kept) if kept > 0 else None,
        fingerprint=fingerprint_of(ending.error, ending.reason),
    )


def duration_ms(claimed_at: datetime | None, now: datetime) -> int | None:
    """Return the milliseconds between the two, 0 where the clock went back, None where there was no claim."""
    if claimed_at is None:
        return None
    return max(0, (now - claimed_at) // timedelta(milliseconds=1))


def run_event(action: str, entry: QueueEntry, *, actor: Actor = SYSTEM, **diff: object) -> Event:
    """Return the audit event of something that happened to a run."""
    return Event(
        action=action,
        target_type="run",
        target_id=str(entry.run_id),
        actor=actor,
        tenant=entry.job.tenant,
        diff={"job_key": entry.job.job_key, **diff},
    )


def _check(changed: int, expected: int) -> None:
    if changed != expected:
        raise GuardFailed(f"a guarded write met {changed} rows instead of {expected}")
