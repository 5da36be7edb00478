"""Cancel runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.services.audit import Actor, record_events
from scheduler.domain.inputs import text_of
from scheduler.domain.transitions import State
from scheduler.models import QueueEntry, Run
from scheduler.services import queue
from scheduler.services.wake import tell

MOST_RUNS = 150
"""Of one call: each writes up to three rows (entry, run, event), together no more than 500."""


@dataclass(frozen=True)
class CancelResult:
    """``delivered_via_runner``: a handler has it and is told by its runner's poll."""

    run_id: UUID
    cancelled: bool
    delivered_via_runner: bool


def cancel_runs(
    run_ids: Collection[UUID],
    now: datetime,
    actor: Actor,
    reason: str = "",
    *,
    only: Collection[QueueEntry.State] | None = None,
) -> list[CancelResult]:
    """Cancel these runs (at most 150), all or none; one result each, in order. Audited.

    A waiting run is over at once. A claimed one has its verdict at once too, and its entry stays ``stopping``, with
    lease and slots, until its handler is gone. One that is cancelled already is cancelled: nothing changes. Raises
    NotFound, and Conflict ``already_finished`` for a run with another verdict. With ``only`` neither: a run whose entry
    is in none of these states by now is left out, also of the results. Raises InvalidInput (``ids``, and ``reason`` of
    more than 255 characters). Who may cancel what is the caller's question.
    """
    if len(run_ids) > MOST_RUNS:
        raise InvalidInput.of("ids", f"At most {MOST_RUNS} executions can be cancelled at once.")
    reason = text_of("reason", reason, most=255)
    with write_transaction():
        entries = {entry.run_id: entry for entry in queue.lock_entries(run_ids)}
        if only is not None:
            # Between the look and the lock it may have been claimed, or have ended: that is not what was meant.
            run_ids = [run_id for run_id in run_ids if run_id in entries and entries[run_id].state in only]
            entries = {run_id: entries[run_id] for run_id in run_ids}
        runs = Run.objects.in_bulk(list(run_ids))
        for run_id in run_ids:
            _check(run_id, runs.get(run_id))
        live = [entry for entry in entries.values() if runs[entry.run_id].verdict is None]
        held = [entry for entry in live if entry.state == QueueEntry.State.CLAIMED]
        waiting = [entry for entry in live if entry.state != QueueEntry.State.CLAIMED]
        queue.remove_entries(waiting, now)
        queue.begin_stopping(held)
        queue.end_runs([_ending(entry, reason, now) for entry in live], now)
        record_events((queue.run_event("run.cancelled", entry, actor=actor, reason=reason) for entry in live), now)
        tell({entry.holder_id for entry in held})
    stopping = {entry.run_id for entry in entries.values() if entry.holder_id is not None}
    return [CancelResult(run_id, cancelled=True, delivered_via_runner=run_id in stopping) for run_id in run_ids]


def _check(run_id: UUID, run: Run | None) -> None:
    if run is None:
        raise NotFound(f"There is no execution {run_id}.")
    if run.verdict not in (None, Run.Verdict.CANCELLED):
        raise Conflict(f"The execution {run_id} is {run.verdict} already.", code="already_finished")


def _ending(entry: QueueEntry, reason: str, now: datetime) -> queue.Ending:
    return queue.Ending(
        entry=entry,
        verdict=State.CANCELLED,
        attempt=entry.attempt,
        reason=reason,
        runner_id=queue.holder_name(entry),
        claimed_at=entry.claimed_at,
        duration_ms=queue.duration_ms(entry.claimed_at, now),
    )
