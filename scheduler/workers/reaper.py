"""The reaper's unit of work: chores, each guarded alone, so that one that fails keeps no other from being done."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial

from croniq_site.kernel.database import WRITE_BATCH_ROWS, is_outage
from runners.services.audit_retention import drop_old_events
from scheduler.queries.prunable import KINDS
from scheduler.services.admit import admit
from scheduler.services.alerts.causes import drop_old_alerts
from scheduler.services.alerts.watch import watch
from scheduler.services.clock_set_back import forget_the_future
from scheduler.services.finish import time_out
from scheduler.services.maintenance import end_expired_maintenance
from scheduler.services.missed import skip_missed
from scheduler.services.newest import NewestKept
from scheduler.services.pause import resume_expired
from scheduler.services.release import reap_leases
from scheduler.services.retention import (
    drop_dead_runners,
    drop_deposed_instances,
    drop_expired_keys,
    drop_expired_letters,
    drop_expired_sessions,
    drop_old_heartbeats,
    drop_old_lines,
    drop_old_runs,
    drop_old_spans,
    has_settled,
)
from scheduler.services.tally import fold_tallies
from scheduler.services.waiting import (
    drop_stray_slots,
    expire_waiting,
    gate_strays,
    pass_over_unclaimed,
    skip_beyond_depth,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReapPass:
    """What each chore did, by name, and which failed. ``is_done``: no chore had more to do than a batch."""

    done: dict[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    is_done: bool = True


def _leases(now: datetime, limit: int) -> int:
    return reap_leases(now, limit).total


CHORES: dict[str, Callable[[datetime, int], int]] = {
    "clock": forget_the_future,  # before all that goes by signs of life
    "missed_fires": skip_missed,
    "leases": _leases,
    "deadlines": time_out,
    "pauses": resume_expired,
    "maintenance": end_expired_maintenance,
    "queue_ttl": expire_waiting,
    "queue_depth": skip_beyond_depth,
    "unclaimed": pass_over_unclaimed,
    "stray_runs": gate_strays,
    "stray_slots": drop_stray_slots,
    "admit": admit,
    "idempotency_keys": drop_expired_keys,
    "dead_letters": drop_expired_letters,
    "log_lines": drop_old_lines,
    "runs": drop_old_runs,
    "newest_runs": NewestKept(),
    "gaps": drop_old_spans,
    "audit": drop_old_events,
    "instances": drop_deposed_instances,
    "runners": drop_dead_runners,
    "heartbeats": drop_old_heartbeats,
    "tallies": fold_tallies,
    "alert_rules": watch,
    "sessions": drop_expired_sessions,
    "alerts": drop_old_alerts,
}


def run_once(now: datetime, limit: int = WRITE_BATCH_ROWS) -> ReapPass:
    """Do a batch of every chore, in their order. A database that is away ends the pass (the caller backs off)."""
    done: dict[str, int] = {}
    failed: list[str] = []
    # Asked once, and after the chores that write down that servers were silent.
    may_throw_away = cache(partial(has_settled, now))
    for name, chore in CHORES.items():
        try:
            done[name] = 0 if name in KINDS and not may_throw_away() else chore(now, limit)
        except Exception as error:
            if is_outage(error):
                raise
            _log.exception("the chore %r failed; the others go on", name)
            failed.append(name)
    return ReapPass(done, tuple(failed), is_done=all(count < limit for count in done.values()))
