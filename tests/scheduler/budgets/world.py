"""Limited jobs, runners and what both do, for stories about budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from runners.models import RunnerInstance
from scheduler.domain.work import Ack, AckAnswer, AckStatus, Claimed
from scheduler.models import ConcurrencyGroup, Job, Lane, QueueEntry, Run, Slot
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from tests.factories import JobFactory, LaneFactory, QueueEntryFactory

SECOND = timedelta(seconds=1)
State = QueueEntry.State


def limited_job(**rules: object) -> Job:
    return JobFactory(**{"max_concurrent": 1, **rules})


def waiting_run(job: Job, at: datetime, **entry: object) -> UUID:
    """A run of a limited job that was let wait: due at ``at``."""
    return QueueEntryFactory(job=job, state=State.GATED, available_at=at, waits_since=at, **entry).run_id


def fire(job: Job, at: datetime) -> UUID:
    """A scheduled run, planned an hour ahead, that nobody has looked at yet."""
    return QueueEntryFactory(
        job=job, state=State.GATED, available_at=at, run__scheduled_for=at, run__created_at=at - timedelta(hours=1)
    ).run_id


def claim(now: datetime, holder: RunnerInstance, limit: int = 10, lanes: Sequence[Lane] | None = None) -> list[Claimed]:
    lane_ids = [lane.pk for lane in lanes] if lanes is not None else list(Lane.objects.values_list("pk", flat=True))
    return list(claim_due(now, limit, holder.pk, lane_ids))


def ack(claimed: Claimed, holder: RunnerInstance, now: datetime, status: AckStatus = AckStatus.SUCCESS) -> AckAnswer:
    return finish([Ack(claimed.run_id, claimed.attempt, holder.runner.runner_id, status)], now)[0]


def state_of(run_id: UUID) -> State | str | None:
    """The state of the run's entry, else its verdict."""
    entry = QueueEntry.objects.filter(pk=run_id).first()
    return State(entry.state) if entry else Run.objects.get(pk=run_id).verdict


def states(run_ids: Sequence[UUID]) -> list[State | str | None]:
    return [state_of(run_id) for run_id in run_ids]


def slots() -> dict[str, int]:
    return dict(Counter(Slot.objects.values_list("budget", flat=True)))


def group_of(limit: int = 1, name: str = "db", tenant: str = "default") -> ConcurrencyGroup:
    return ConcurrencyGroup.objects.create(name=name, tenant=tenant, max_concurrent=limit)


def other_lane(priority: int = 0, **lane: object) -> Lane:
    return LaneFactory(priority=priority, **lane)


def running() -> int:
    return QueueEntry.objects.filter(state__in=[State.CLAIMED, State.STOPPING]).count()
