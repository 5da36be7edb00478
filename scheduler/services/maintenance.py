"""Hold all dispatch, and let it go again.

While maintenance is on, no claim of any server hands out a run, of whatever kind: the claim's own statement looks for
it. A claim whose statement began before that was committed is the old claim; its runs, as all that are claimed, go on
and end. Nothing is moved in the queue, so nothing has to be moved back.

At its end it is as after a pause: scheduled runs that fell due in it are ``skipped`` (maintenance), future ones go on
with the ids that they had. What waited before, manual runs, replays and retries is handed out then.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from croniq_site.kernel.database import WRITE_BATCH_ROWS, write_transaction
from croniq_site.kernel.errors import InvalidInput
from runners.domain.differences import difference
from runners.services.audit import SYSTEM, Actor, Event, record_events
from scheduler.domain.inputs import text_of
from scheduler.domain.trigger_fields import instant_of
from scheduler.models import Maintenance, QueueEntry, Run, Slot
from scheduler.services.admit import settle_jobs_later
from scheduler.services.tally import Kind, tally
from scheduler.services.wake import wake
from scheduler.sql.planned import close_runs, delete_waiting

MAINTENANCE = "maintenance"
SKIPPED_PER_TRANSACTION = WRITE_BATCH_ROWS // 2
"""Each of them loses its entry and gets its verdict."""


def begin_maintenance(now: datetime, actor: Actor, reason: Any = "", until: Any = None) -> Maintenance:
    """Hold all dispatch from now on; where it is held already, change its reason and its end. ``until`` is an instant
    (also as text), None: until somebody ends it. Raises InvalidInput by field."""
    reason = text_of("reason", "" if reason is None else reason, most=255)
    until = None if until is None else instant_of("until", until)
    if until is not None and until <= now:
        raise InvalidInput.of("until", "Maintenance ends after it begins.")
    with write_transaction():
        row = None
        while row is None:  # again, where it was ended in this moment
            # Of two that begin it at once the database lets one through; the other changes what the winner began.
            fresh = Maintenance(is_on=True, began_at=now, until=until, reason=reason)
            Maintenance.objects.bulk_create([fresh], ignore_conflicts=True)
            row = Maintenance.objects.select_for_update().filter(is_on=True).first()
        is_new = (row.began_at, row.until, row.reason) == (now, until, reason)
        before = {} if is_new else _state_of(row)
        Maintenance.objects.filter(pk=row.pk, is_on=True).update(until=until, reason=reason)
        row.until, row.reason = until, reason
        diff = difference(before, _state_of(row))
        action = "maintenance.began" if is_new else "maintenance.changed"
        record_events([Event(action, "system", MAINTENANCE, actor, diff=diff)], now)
        return row


def end_maintenance(now: datetime, actor: Actor = SYSTEM) -> bool:
    """End it now, whatever its ``until``; return whether it was on. Transactions of at most 500 rows each, the last of
    which lets the claims go."""
    was_on = False
    while (step := _end_step(now, actor, only_if_over=False)) is not None:
        was_on = True
        if step < SKIPPED_PER_TRANSACTION:
            break
    return was_on


def end_expired_maintenance(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """End the maintenance whose end has come; return how much was done, ``limit`` at most: with that there is more."""
    done = 0
    while done < limit and (step := _end_step(now, SYSTEM, only_if_over=True)) is not None:
        if step < SKIPPED_PER_TRANSACTION:
            return min(done + 1, limit - 1)
        done += step
    return done


def _end_step(now: datetime, actor: Actor, *, only_if_over: bool) -> int | None:
    """Skip a batch of what fell due in it; with the last batch it is over. None: it is not on (or not over yet)."""
    with write_transaction():
        row = Maintenance.objects.select_for_update().filter(is_on=True).first()
        if row is None or (only_if_over and (row.until is None or row.until > now)):
            return None
        end = min(now, row.until) if row.until is not None else now
        gone = delete_waiting(_fell_due(row.began_at, end))
        slots = Slot.objects.filter(run_id__in=gone)
        settle_jobs_later(set(slots.values_list("run__job_id", flat=True)), now)
        slots.delete()
        close_runs(gone, Run.Verdict.SKIPPED, MAINTENANCE, now)
        tally(Kind.SKIPPED, MAINTENANCE, len(gone))
        changes: dict[str, Any] = {"skipped": row.skipped + len(gone)}
        if len(gone) < SKIPPED_PER_TRANSACTION:
            changes |= {"is_on": False, "ended_at": now}
            diff = {**difference(_state_of(row), {}), "skipped": changes["skipped"]}
            record_events([Event("maintenance.ended", "system", MAINTENANCE, actor, diff=diff)], now)
            wake()
        Maintenance.objects.filter(pk=row.pk, is_on=True).update(**changes)
        return len(gone)


def _state_of(row: Maintenance) -> dict[str, Any]:
    return {"on": True, "reason": row.reason, "until": None if row.until is None else row.until.isoformat()}


def _fell_due(after: datetime, until: datetime) -> list[Any]:
    """A batch of the scheduled runs that fell due in (after, until] and that no attempt was made of. Those of paused
    jobs are left to the end of the pause."""
    entries = QueueEntry.objects.filter(
        state__in=[QueueEntry.State.READY, QueueEntry.State.GATED],
        attempt=0,
        run__kind=Run.Kind.SCHEDULED,
        run__scheduled_for__gt=after,
        run__scheduled_for__lte=until,
    )
    return list(entries.order_by("run_id").values_list("run_id", flat=True)[:SKIPPED_PER_TRANSACTION])
