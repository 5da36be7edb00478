"""How the whole does, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduler.models import QueueEntry
from scheduler.queries.runners import runner_counts
from scheduler.queries.trouble import pulse


@dataclass(frozen=True)
class Health:
    runners_online: int
    runners_stale: int
    runners_dead: int
    queued: int
    scheduler_last_tick_at: datetime | None


def site_health(now: datetime) -> Health:
    """Count runners by presence and the due runs that wait; the last tick is that of any materializer."""
    runners = runner_counts(now)
    waiting = [QueueEntry.State.READY, QueueEntry.State.GATED, QueueEntry.State.HELD]
    return Health(
        runners_online=runners["online"],
        runners_stale=runners["stale"],
        runners_dead=runners["dead"],
        queued=QueueEntry.objects.filter(state__in=waiting, available_at__lte=now).count(),
        scheduler_last_tick_at=pulse(now).ticks.get("materialize"),
    )
