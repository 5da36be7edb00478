"""End claims without a verdict: losses, answers that nobody was there to hear, and runs whose attempts are used up."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from croniq_site.kernel.database import chunks, write_transaction
from runners.services.audit import record_events
from runners.services.outages import note_outage
from scheduler.domain.transitions import State
from scheduler.domain.work import Buried, LossCause
from scheduler.models import Attempt, QueueEntry
from scheduler.queries.holders import holdings_of
from scheduler.services import queue
from scheduler.services.tally import Kind, tally
from scheduler.services.wake import tell, wake
from scheduler.sql.locks import lock_expired_leases

CLAIMS_PER_TRANSACTION = 100
"""Each loss writes up to five rows (attempt, entry, run, letter, event): together no more than 500."""
LOSSES_EXHAUSTED = "losses_exhausted"
RETRIES_EXHAUSTED = "retries_exhausted"
JOB_DELETED = "job_deleted"
WAITING = (QueueEntry.State.READY, QueueEntry.State.GATED, QueueEntry.State.HELD)


@dataclass(frozen=True)
class ReapSummary:
    """What a reap did: claims that were lost, of those the runs that it buried, and handlers it no longer waits for."""

    lost: int = 0
    buried: int = 0
    wound_down: int = 0

    @property
    def total(self) -> int:
        return self.lost + self.wound_down


def release(claims: Collection[tuple[UUID, int]], now: datetime, cause: LossCause) -> int:
    """End these claims (run, attempt) for ``cause``; return how many were still claimed with that attempt.

    A loss is counted, kept as an `Attempt`, audited, and raises the attempt cap by one while the job's ``max_losses``
    allows; the run is ready again now, or buried if no attempt is left. `LossCause.DISCONNECTED` is no loss: the
    attempt number is given back and the run is as if it had never been claimed.
    """
    released = 0
    for batch in chunks(list(claims), CLAIMS_PER_TRANSACTION):
        with write_transaction():
            attempts = dict(batch)
            held = [
                entry
                for entry in queue.lock_entries(attempts)
                if entry.state == QueueEntry.State.CLAIMED and entry.attempt == attempts[entry.run_id]
            ]
            if cause is LossCause.DISCONNECTED:
                _give_back(held, now)
            else:
                _lose(held, now, cause)
            released += len(held)
    return released


def _give_back(held: Sequence[QueueEntry], now: datetime) -> None:
    # Nothing of a deleted job begins any more: what was claimed when it was deleted and never began ends here.
    kept = [entry for entry in held if entry.job.deleted_at is None]
    gone = [entry for entry in held if entry.job.deleted_at is not None]
    queue.send_to_rest(
        [queue.Rest(entry, entry.available_at, entry.attempt - 1, entry.max_attempts, entry.losses) for entry in kept],
        now,
    )
    queue.remove_entries(gone, now)
    queue.end_runs([queue.Ending(entry, State.CANCELLED, entry.attempt - 1, JOB_DELETED) for entry in gone], now)
    wake({entry.lane_id for entry in kept})


def _lose(held: Sequence[QueueEntry], now: datetime, cause: LossCause) -> int:
    """Count a loss on each of these locked, claimed entries; return how many runs were buried for it."""
    Attempt.objects.bulk_create(
        Attempt(
            run_id=entry.run_id,
            attempt=entry.attempt,
            outcome=Attempt.Outcome.LOST,
            cause=cause.value,
            runner_id=queue.holder_name(entry),
            claimed_at=entry.claimed_at,
            ended_at=now,
            duration_ms=queue.duration_ms(entry.claimed_at, now),
        )
        for entry in held
    )
    rests = [queue.Rest(entry, now, entry.attempt, _cap_after_loss(entry), entry.losses + 1) for entry in held]
    queue.send_to_rest(rests, now)
    record_events(
        (
            queue.run_event(
                "run.lost", entry, cause=cause.value, attempt=entry.attempt, runner_id=queue.holder_name(entry)
            )
            for entry in held
        ),
        now,
    )
    tally(Kind.LOST, cause.value, len(held))
    tell({entry.holder_id for entry in held})
    used_up = {rest.entry.run_id for rest in rests if rest.attempt >= rest.max_attempts}
    wake({entry.lane_id for entry in held if entry.run_id not in used_up})
    return len(bury(used_up, now))


def _cap_after_loss(entry: QueueEntry) -> int:
    # So a run starts at most max_retries + 1 + max_losses times. A deleted job's run starts no more.
    if entry.job.deleted_at is not None:
        return entry.attempt
    return entry.max_attempts + (1 if entry.losses < entry.max_losses else 0)


def bury(run_ids: Collection[UUID], now: datetime) -> list[Buried]:
    """End those of these waiting runs whose attempts are used up: dead with a letter, or failed without. Audited.

    The claim calls it for what it finds due, the loss of a claim for what has no attempt left.
    """
    if not run_ids:
        return []
    with write_transaction():
        used_up = [
            entry
            for entry in queue.lock_entries(run_ids)
            if entry.state in WAITING and entry.attempt >= entry.max_attempts
        ]
        queue.remove_entries(used_up, now)
        last = _last_attempts(used_up)
        queue.end_runs([_burial(entry, last.get(entry.run_id, [])) for entry in used_up], now)
        record_events((queue.run_event("run.buried", entry, attempt=entry.attempt) for entry in used_up), now)
        tally(Kind.BURIED, events=len(used_up))
    return [Buried(entry.run_id, entry.job_id, entry.lane_id, entry.attempt) for entry in used_up]


def _last_attempts(entries: Sequence[QueueEntry]) -> dict[UUID, list[Attempt]]:
    """Return the attempts of these runs, the last first."""
    found: dict[UUID, list[Attempt]] = {}
    for row in Attempt.objects.filter(run_id__in=[entry.run_id for entry in entries]).order_by("-attempt"):
        found.setdefault(row.run_id, []).append(row)
    return found


def _burial(entry: QueueEntry, attempts: Sequence[Attempt]) -> queue.Ending:
    last = attempts[0] if attempts else None
    is_lost = last is not None and last.outcome == Attempt.Outcome.LOST
    said = next((row.error for row in attempts if row.error), "")
    if not said:
        said = (
            f"Attempt {entry.attempt} was lost ({last.cause}), and none is left." if is_lost else "No attempt is left."
        )
    return queue.Ending(
        entry=entry,
        verdict=queue.ending_state(entry.job),
        attempt=entry.attempt,
        reason=LOSSES_EXHAUSTED if is_lost else RETRIES_EXHAUSTED,
        error=said,
        runner_id=last.runner_id if last else "",
        claimed_at=last.claimed_at if last else None,
        duration_ms=last.duration_ms if last else None,
    )


def reap_leases(now: datetime, limit: int = 500) -> ReapSummary:
    """End the claims whose lease ended at or before ``now``, oldest first, at most ``limit``.

    A claimed run is a loss; a stopping one's handler is no longer waited for. What somebody else has locked (its
    holder's ack, another reaper) is left to them. Nobody is reaped in an outage, nor before one lease of his after it.
    Several transactions: each batch stands for itself.
    """
    lost = buried = wound_down = 0
    outage_ended_at = note_outage(now)
    while (size := min(limit - lost - wound_down, CLAIMS_PER_TRANSACTION)) > 0:
        with write_transaction():
            expired = queue.lock_entries(lock_expired_leases(now, size, outage_ended_at))
            gone = [entry for entry in expired if entry.state == QueueEntry.State.STOPPING]
            held = [entry for entry in expired if entry.state == QueueEntry.State.CLAIMED]
            queue.remove_entries(gone, now)
            buried += _lose(held, now, LossCause.LEASE)
        lost, wound_down = lost + len(held), wound_down + len(gone)
        if len(expired) < size:
            break
    return ReapSummary(lost=lost, buried=buried, wound_down=wound_down)


def let_go(holder_ids: Collection[int], now: datetime) -> int:
    """Take from these deposed instances all that they hold: claims go back (losses, cause takeover), handlers are no
    longer waited for. Returns how many claims went back. Needs the transaction that deposed them.

    All their entries are locked first, in the order of run ids: acks of claims and of what winds down may come in one
    array, and lock both kinds in that order.
    """
    holdings = holdings_of(holder_ids)
    queue.lock_entries(run_id for holding in holdings.values() for run_id in (*holding.claims, *holding.stopping))
    released = 0
    for holder_id, holding in sorted(holdings.items()):
        released += release(list(holding.claims.items()), now, LossCause.TAKEOVER)
        wind_down(holder_id, holding.stopping, now)
    tell(holder_ids)
    return released


def wind_down(holder_id: int, run_ids: Collection[UUID], now: datetime) -> int:
    """Stop waiting for the handlers of these ``stopping`` runs of the instance: its poll no longer lists them.

    Returns how many entries went; others of ``run_ids`` are left alone.
    """
    if not run_ids:
        return 0
    with write_transaction():
        gone = [
            entry
            for entry in queue.lock_entries(run_ids)
            if entry.state == QueueEntry.State.STOPPING and entry.holder_id == holder_id
        ]
        queue.remove_entries(gone, now)
    return len(gone)
