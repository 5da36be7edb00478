"""One runner: what it holds, which processes spoke for it, when its identity changed hands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, Min

from runners.models import Runner, RunnerInstance
from scheduler.models import QueueEntry
from scheduler.queries.runners import RunnerRow, row_of, rows_with_counts
from scheduler.services.identity import FLAPPING_TAKEOVERS, FLAPPING_WINDOW

MOST_HELD = 200
MOST_INSTANCES = 50
MOST_TAKEOVERS = 5_000
State = QueueEntry.State
_HELD = [State.CLAIMED, State.STOPPING]


@dataclass(frozen=True)
class Leases:
    """What a runner holds: since when the oldest of it, and when the first of its leases ends."""

    held: int
    oldest_at: datetime | None
    first_end_at: datetime | None


@dataclass(frozen=True)
class Hold:
    """A run in a runner's hand. ``lease_began_at``: its claim or its last renewal. ``is_winding_down``: it is final
    already and its handler has yet to end."""

    run_id: UUID
    job_key: str
    attempt: int
    claimed_at: datetime
    lease_began_at: datetime
    lease_seconds: float
    lease_expires_at: datetime
    deadline_at: datetime | None
    is_winding_down: bool

    def lease_spent(self, now: datetime) -> float:
        """How much of the lease is over, 0 to 1."""
        return min(1.0, max(0.0, (now - self.lease_began_at).total_seconds() / self.lease_seconds))


@dataclass(frozen=True)
class Instance:
    """A process that polled as the runner. No ``instance_id``: it said none; no ``deposed_at``: it is current."""

    instance_id: str
    first_seen_at: datetime
    last_poll_at: datetime
    deposed_at: datetime | None


@dataclass(frozen=True)
class Takeover:
    """A change of an identity's hands. ``is_flapping``: the third or a later one within ten minutes."""

    runner_pk: int
    runner_id: str
    at: datetime
    is_flapping: bool


def leases_of(runner_pks: Collection[int]) -> dict[int, Leases]:
    """Return what each of these runners holds, by its primary key; those that hold nothing are left out."""
    held = QueueEntry.objects.filter(holder__runner__in=list(runner_pks), state__in=_HELD).order_by()
    rows = held.values_list("holder__runner").annotate(Count("pk"), Min("claimed_at"), Min("lease_expires_at"))
    return {pk: Leases(*rest) for pk, *rest in rows}


def runner_of_pk(pk: int, now: datetime) -> RunnerRow | None:
    runner = rows_with_counts(now).filter(pk=pk).first()
    return None if runner is None else row_of(runner, now)


def runner_pk_of(runner_id: str) -> int | None:
    return Runner.objects.filter(runner_id=runner_id).values_list("pk", flat=True).first()


def holds_of(runner_pk: int) -> list[Hold]:
    """Return what the runner holds, at most `MOST_HELD`, the lease that ends first at the top."""
    held = QueueEntry.objects.filter(holder__runner=runner_pk, state__in=_HELD).select_related("job")
    return [
        Hold(
            run_id=entry.run_id,
            job_key=entry.job.job_key,
            attempt=entry.attempt,
            claimed_at=entry.claimed_at,
            lease_began_at=entry.lease_expires_at - timedelta(seconds=entry.lease_seconds),
            lease_seconds=entry.lease_seconds,
            lease_expires_at=entry.lease_expires_at,
            deadline_at=entry.deadline_at,
            is_winding_down=entry.state == State.STOPPING,
        )
        for entry in held.order_by("lease_expires_at", "run_id")[:MOST_HELD]
    ]


def instances_of(runner_pk: int) -> list[Instance]:
    """Return the processes that spoke for it, the newest first, at most `MOST_INSTANCES`."""
    rows = RunnerInstance.objects.filter(runner=runner_pk).order_by("-first_seen_at", "-pk")[:MOST_INSTANCES]
    return [Instance(row.instance_id, row.first_seen_at, row.last_poll_at, row.deposed_at) for row in rows]


def takeovers_since(since: datetime, runner_pk: int | None = None) -> list[Takeover]:
    """Return the takeovers after ``since``, the oldest first, of the newest `MOST_TAKEOVERS`; of one runner or of all.

    A process that was deposed is kept for seven days.
    """
    deposed = RunnerInstance.objects.filter(deposed_at__gt=since - FLAPPING_WINDOW)
    if runner_pk is not None:
        deposed = deposed.filter(runner=runner_pk)
    rows = deposed.order_by("-deposed_at").values_list("runner_id", "runner__runner_id", "deposed_at")[:MOST_TAKEOVERS]
    return [takeover for takeover in marked(reversed(rows)) if takeover.at > since]


def marked(rows: Iterable[tuple[int, str, datetime]]) -> list[Takeover]:
    """Say of each takeover (runner, its id, instant; the oldest first) whether it is one of a flapping identity."""
    before: dict[int, list[datetime]] = defaultdict(list)
    found = []
    for pk, runner_id, at in rows:
        recent = before[pk] = [earlier for earlier in before[pk] if earlier > at - FLAPPING_WINDOW] + [at]
        found.append(Takeover(pk, runner_id, at, is_flapping=len(recent) >= FLAPPING_TAKEOVERS))
    return found
