"""Forget what a clock that was set back had said: signs of life "from later than now" would hide for hours that nobody
gives any."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db.models import F, Max, QuerySet

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, write_transaction
from runners.models import Heartbeat, Runner, RunnerInstance
from runners.services.audit import Event, record_events
from scheduler.models import Alert, AlertChannel, AlertRule, QueueEntry
from scheduler.queries.trouble import SILENT

_log = logging.getLogger(__name__)

HELD = (QueueEntry.State.CLAIMED, QueueEntry.State.STOPPING)


def forget_the_future(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Where the last sign of life of any process lies well after ``now``, move what is said of the time since to as
    long before that sign as it was; returns 1 where it did, and audits it.

    Moved are instants at which something was seen (heartbeats, polls, takeovers, claims), and those that were counted
    from them (leases, deadlines, when a channel is tried again). Not what somebody named: fires, pauses, snoozes, ends
    of keys. The heartbeats go last: where this is interrupted, the next pass finds them. Batches of ``limit`` rows.
    """
    last = Heartbeat.objects.aggregate(at=Max("beat_at"))["at"]
    if last is None or last - now <= SILENT:
        return 0
    step, later = last - now, now + SILENT
    for rows, column in (
        (Runner.objects.all(), "last_poll_at"),
        (Runner.objects.all(), "flapping_reported_at"),
        (RunnerInstance.objects.all(), "last_poll_at"),
        (RunnerInstance.objects.all(), "deposed_at"),
        (AlertRule.objects.all(), "looked_at"),
        (AlertChannel.objects.all(), "tried_at"),
        (AlertChannel.objects.all(), "closed_until"),
        (Alert.objects.all(), "began_at"),
        # What a snooze or a closed day holds back is held until an instant that was named.
        (Alert.objects.filter(held=""), "next_at"),
    ):
        _move(rows, column, later, step, limit)
    _move_claims(later, step, limit)
    _move(Heartbeat.objects.all(), "tick_at", later, step, limit)
    with write_transaction():
        beats = Heartbeat.objects.filter(beat_at__gt=later)
        if not beats.update(beat_at=F("beat_at") - step):
            return 0  # somebody else was there first, and says so
        diff = {"seconds": round(step.total_seconds())}
        record_events([Event("site.clock_set_back", "site", "clock", diff=diff)], now)
    _log.warning("the database's clock was set back by about %d seconds", step.total_seconds())
    return 1


def _move(rows: QuerySet, column: str, later: datetime, step: timedelta, limit: int) -> None:
    ahead = rows.filter(**{f"{column}__gt": later})
    # Read once: what was counted from a sign of life may lie ahead still when it was moved.
    for some in chunks(list(ahead.order_by().values_list("pk", flat=True)), limit):
        # Named again: whoever has spoken meanwhile did so by the clock as it is.
        ahead.filter(pk__in=some).update(**{column: F(column) - step})


def _move_claims(later: datetime, step: timedelta, limit: int) -> None:
    """Leases that were given by the clock as it was; and claims with their deadlines."""
    held = QueueEntry.objects.filter(state__in=HELD, lease_expires_at__gt=later).order_by("run_id")
    given = [
        (run_id, attempt, expires_at, claimed_at > later)
        for run_id, attempt, expires_at, seconds, claimed_at in held.values_list(
            "run_id", "attempt", "lease_expires_at", "lease_seconds", "claimed_at"
        )
        if expires_at - timedelta(seconds=seconds) > later
    ]
    for some in chunks(given, limit):
        with write_transaction():
            for run_id, attempt, expires_at, is_claimed_later in some:
                # Neither one that was renewed meanwhile nor one that was claimed anew.
                entry = held.filter(run_id=run_id, attempt=attempt, lease_expires_at=expires_at)
                moved = {"lease_expires_at": F("lease_expires_at") - step}
                if is_claimed_later:
                    moved |= {name: F(name) - step for name in ("claimed_at", "deadline_at")}
                entry.order_by().update(**moved)
