"""End attempts: by the holder's ack, or because their deadline passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from uuid import UUID

from croniq_site.kernel import tracing
from croniq_site.kernel.database import write_transaction
from runners.services.outages import note_outage
from scheduler.domain.retries import backoff
from scheduler.domain.work import Ack, AckAnswer, AckStatus
from scheduler.metrics import traces
from scheduler.metrics.hot import note_ended
from scheduler.models import Attempt, Job, QueueEntry, Run
from scheduler.services import queue
from scheduler.services.admit import settle_jobs_later
from scheduler.services.release import JOB_DELETED
from scheduler.services.wake import tell, wake
from scheduler.sql import backend, hot_statement
from scheduler.sql.locks import lock_passed_deadlines
from scheduler.sql.rows import Closed

ACKS_PER_TRANSACTION = 150
"""Each ack writes up to three rows (entry, run, letter or attempt): together no more than 500."""
RETRIES_EXHAUSTED = "retries_exhausted"
TIMED_OUT = "timed_out"
TIMED_OUT_ERROR = "The attempt ran past its timeout."
_JITTER = Random()  # noqa: S311 - spreads retries, keeps no secret


@dataclass(frozen=True)
class _Failure:
    entry: QueueEntry
    outcome: Attempt.Outcome
    error: str
    duration_ms: int | None


def finish(acks: Sequence[Ack], now: datetime, rng: Random = _JITTER) -> list[AckAnswer]:
    """Take the holders' verdicts; one answer an ack, in order. Of two acks for one run the first counts.

    An ack counts only while its attempt is claimed by its runner. Success ends the run; failure sends it back to wait
    for its next attempt, or ends it as dead with a letter (failed, where the job has dead letters off). Each ack and
    all that it causes is in one transaction, several acks may share it.
    """
    answers: dict[int, AckAnswer] = {}
    pending = list(enumerate(acks))
    while pending:
        # One ack a run at a time: the second of two equal acks finds what the first one left.
        batch: dict[UUID, tuple[int, Ack]] = {}
        for place, ack in pending:
            if len(batch) < ACKS_PER_TRANSACTION:
                batch.setdefault(ack.run_id, (place, ack))
        taken = {place for place, _ in batch.values()}
        pending = [(place, ack) for place, ack in pending if place not in taken]
        given = _finish_distinct([ack for _, ack in batch.values()], now, rng)
        answers.update((place, given[run_id]) for run_id, (place, _) in batch.items())
    return [answers[place] for place in range(len(acks))]


def _finish_distinct(acks: Sequence[Ack], now: datetime, rng: Random) -> dict[UUID, AckAnswer]:
    answers: dict[UUID, AckAnswer] = {}
    successes = [ack for ack in acks if ack.status is AckStatus.SUCCESS]
    if successes:
        closed = _complete(successes, now)
        note_ended([(one.job_id, Run.Verdict.COMPLETED.value, one.duration_ms) for one in closed])
        answers.update((one.run_id, AckAnswer.ACCEPTED) for one in closed)
        if tracing.active is not None:
            traces.note_completed([one.run_id for one in closed])
    # In a transaction of their own: each locks its entries in the order of run ids, from the first to the last.
    others = [ack for ack in acks if ack.run_id not in answers]
    if others:
        with write_transaction():
            given, ended = _finish_others(others, now, rng)
        note_ended([(entry.job_id, queue.ending_state(entry.job).value, None) for entry in ended])
        answers.update(given)
    return answers


def _complete(acks: Sequence[Ack], now: datetime) -> list[Closed]:
    """End the runs that succeeded and return them. What holds slots is closed in a transaction that hands them on."""
    with hot_statement():
        found = backend().complete(acks, now)
        settle_jobs_later({one.job_id for one in found if one.is_limited and one.is_closed}, now)
    closed = [one for one in found if one.is_closed]
    limited = {one.run_id for one in found if not one.is_closed}
    if limited:
        with write_transaction():
            more = backend().complete([ack for ack in acks if ack.run_id in limited], now, limited=True)
            settle_jobs_later({one.job_id for one in more if one.is_limited}, now)
        closed += more
    return closed


def _finish_others(acks: Sequence[Ack], now: datetime, rng: Random) -> tuple[dict[UUID, AckAnswer], list[QueueEntry]]:
    """Return the answers, and the entries of the runs that ended."""
    answers: dict[UUID, AckAnswer] = {}
    entries = {entry.run_id: entry for entry in queue.lock_entries(ack.run_id for ack in acks)}
    failures, gone = [], []
    for ack in acks:
        entry = entries.get(ack.run_id)
        if entry is None or entry.attempt != ack.attempt or queue.holder_name(entry) != ack.runner_id:
            continue
        if entry.state == QueueEntry.State.STOPPING:
            gone.append(entry)
            answers[ack.run_id] = AckAnswer.WOUND_DOWN
        elif entry.state == QueueEntry.State.CLAIMED and ack.status is AckStatus.FAILURE:
            measured = ack.duration_ms if ack.duration_ms is not None else queue.duration_ms(entry.claimed_at, now)
            failures.append(_Failure(entry, Attempt.Outcome.FAILED, ack.error, measured))
            answers[ack.run_id] = AckAnswer.ACCEPTED
    queue.remove_entries(gone, now)
    ended = _fail(failures, now, rng)
    queue.remove_entries(ended, now)
    rest = [ack for ack in acks if ack.run_id not in answers]
    return answers | _answers_without_a_claim(rest), ended


def _fail(failures: Sequence[_Failure], now: datetime, rng: Random) -> list[QueueEntry]:
    """Send back what has attempts left and end the runs of the others; return the entries of those."""
    retried = [failure for failure in failures if _has_attempts_left(failure.entry)]
    ended = [failure for failure in failures if not _has_attempts_left(failure.entry)]
    Attempt.objects.bulk_create(
        Attempt(
            run_id=failure.entry.run_id,
            attempt=failure.entry.attempt,
            outcome=failure.outcome,
            runner_id=queue.holder_name(failure.entry),
            claimed_at=failure.entry.claimed_at,
            ended_at=now,
            duration_ms=failure.duration_ms,
            error=failure.error,
        )
        for failure in retried
    )
    queue.send_to_rest(
        [
            queue.Rest(
                entry=failure.entry,
                available_at=now + _wait(failure.entry, rng),
                attempt=failure.entry.attempt,
                max_attempts=failure.entry.max_attempts,
                losses=failure.entry.losses,
                error=failure.error,
            )
            for failure in retried
        ],
        now,
    )
    queue.end_runs(
        [
            queue.Ending(
                entry=failure.entry,
                verdict=queue.ending_state(failure.entry.job),
                attempt=failure.entry.attempt,
                reason=_reason(failure),
                error=failure.error,
                runner_id=queue.holder_name(failure.entry),
                claimed_at=failure.entry.claimed_at,
                duration_ms=failure.duration_ms,
            )
            for failure in ended
        ],
        now,
    )
    # Not due yet, but whoever waits for the next to fall due may now have to wait for less.
    wake({failure.entry.lane_id for failure in retried})
    return [failure.entry for failure in ended]


def _has_attempts_left(entry: QueueEntry) -> bool:
    # Nothing of a deleted job begins any more; what runs may end.
    return entry.attempt < entry.max_attempts and entry.job.deleted_at is None


def _reason(failure: _Failure) -> str:
    if failure.outcome is Attempt.Outcome.TIMED_OUT:
        return TIMED_OUT
    return JOB_DELETED if failure.entry.attempt < failure.entry.max_attempts else RETRIES_EXHAUSTED


def _wait(entry: QueueEntry, rng: Random):
    job: Job = entry.job
    return backoff(
        job.retry_strategy,
        entry.attempt,
        job.retry_base_seconds,
        job.retry_step_seconds,
        job.retry_cap_seconds,
        job.retry_jitter,
        rng,
    )


def _answers_without_a_claim(acks: Sequence[Ack]) -> dict[UUID, AckAnswer]:
    """Say what an ack is that finds no claim: said before, of a run that was ended under it, or not this runner's."""
    run_ids = [ack.run_id for ack in acks]
    runs = Run.objects.in_bulk(run_ids)
    attempts = {(row.run_id, row.attempt): row for row in Attempt.objects.filter(run_id__in=run_ids)} if acks else {}
    return {ack.run_id: _answer_of(ack, runs.get(ack.run_id), attempts.get((ack.run_id, ack.attempt))) for ack in acks}


def _answer_of(ack: Ack, run: Run | None, earlier: Attempt | None) -> AckAnswer:
    if run is None:
        return AckAnswer.UNKNOWN
    if earlier is not None and earlier.runner_id == ack.runner_id:
        if earlier.outcome == Attempt.Outcome.TIMED_OUT:
            return AckAnswer.WOUND_DOWN
        if earlier.outcome == Attempt.Outcome.FAILED and ack.status is AckStatus.FAILURE:
            return AckAnswer.REPEATED
        return AckAnswer.STALE
    if run.attempt != ack.attempt or run.runner_id != ack.runner_id:
        return AckAnswer.STALE
    if run.verdict == Run.Verdict.CANCELLED or run.reason == TIMED_OUT:
        return AckAnswer.WOUND_DOWN
    if run.verdict == Run.Verdict.COMPLETED:
        return AckAnswer.REPEATED if ack.status is AckStatus.SUCCESS else AckAnswer.STALE
    was_failure = run.reason in (RETRIES_EXHAUSTED, JOB_DELETED)
    return AckAnswer.REPEATED if was_failure and ack.status is AckStatus.FAILURE else AckAnswer.STALE


def time_out(now: datetime, limit: int, rng: Random = _JITTER) -> int:
    """Fail the attempts whose deadline has come, oldest first, at most ``limit``; return how many.

    What has attempts left goes back to wait at once; the last attempt's run is dead (or failed) now, and its entry is
    ``stopping`` until the handler is gone. Either way the holder's next poll lists a run that it does not hold: it is
    told to cancel. An outage spares deadlines as it does leases. Several transactions: each batch stands for itself.
    """
    done = 0
    outage_ended_at = note_outage(now)
    while (size := min(limit - done, ACKS_PER_TRANSACTION)) > 0:
        with write_transaction():
            entries = queue.lock_entries(lock_passed_deadlines(now, size, outage_ended_at))
            failures = [
                _Failure(entry, Attempt.Outcome.TIMED_OUT, TIMED_OUT_ERROR, queue.duration_ms(entry.claimed_at, now))
                for entry in entries
            ]
            queue.begin_stopping(_fail(failures, now, rng))
            tell({entry.holder_id for entry in entries})
        done += len(entries)
        if len(entries) < size:
            break
    return done
