"""Why a run has not started: what holds it, what it waits for, who is before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from croniq_site.kernel.capabilities import may_take
from scheduler.domain.budgets import Budget
from scheduler.models import Lane, QueueEntry, Run, Slot
from scheduler.queries.maintenance import current_maintenance
from scheduler.queries.waits import Hold, Reason, Taker, reasons_of, takers_online, working_for

MOST_COUNTED = 1000
"""More than so many runs before this one are not counted."""
MOST_HOLDERS = 20

State = QueueEntry.State


@dataclass(frozen=True)
class Explanation:
    """How a run stands. ``state`` as in lists; ``ahead``: due runs that its tenant's runners take first, None where it
    cannot be claimed or has started, at most `MOST_COUNTED`. A run that has started or completed has no ``reasons``;
    one that ended otherwise has one, of that: its code is the run's own where it has one, else its state."""

    state: str
    reasons: tuple[Reason, ...]
    ahead: int | None = None


def explain(run_id: UUID, now: datetime) -> Explanation | None:
    """Say why this run does not run, most decisive first; None if there is no such run."""
    run = Run.objects.filter(pk=run_id).only("verdict", "reason", "problem").first()
    if run is None:
        return None
    if run.verdict is not None:
        return Explanation(run.verdict, _why_it_ended(run))
    entry = (
        QueueEntry.objects.select_related("job", "job__concurrency_group", "lane")
        .filter(pk=run_id, state__in=[State.READY, State.GATED, State.HELD])
        .first()
    )
    if entry is None:
        return Explanation("claimed", ())
    takers = takers_online(now)
    is_claimable = entry.state == State.READY and entry.available_at <= now
    ahead = _ahead_of(entry, now, working_for(entry.lane.tenant, takers)) if is_claimable else None
    return Explanation("queued", tuple(_reasons(entry, now, ahead, takers)), ahead)


def _why_it_ended(run: Run) -> tuple[Reason, ...]:
    """Why it did not complete; nothing for what did."""
    if run.problem is None:
        return ()
    why = f": {run.reason.replace('_', ' ')}" if run.reason else ""
    # Of a cancelled run it is whatever somebody wrote.
    code = run.reason if run.reason.isidentifier() else run.problem
    return (Reason(code, f"It ended as {run.problem}{why}."),)


def _reasons(entry: QueueEntry, now: datetime, ahead: int | None, takers: Sequence[Taker]) -> Iterator[Reason]:
    maintenance = current_maintenance()
    hold = None if maintenance is None else Hold(maintenance.reason, maintenance.until)
    yield from reasons_of(entry, now, hold, takers, _holders_of)
    if ahead:
        yield Reason("in_queue", f"{_counted(ahead)} due before it.")


def _holders_of(budget: Budget) -> tuple[int, tuple[UUID, ...]]:
    slots = Slot.objects.filter(budget=budget.name).order_by("admitted_at", "pk")
    holders = tuple(slots.values_list("run_id", flat=True))
    return len(holders), holders[:MOST_HOLDERS]


def _ahead_of(entry: QueueEntry, now: datetime, runners: Sequence[frozenset[str]]) -> int:
    """Count the claimable runs that the tenant's runners take first: of higher priority, or earlier in their order.
    Those that no runner can take stand in nobody's way."""
    tenant = Lane.objects.filter(tenant=entry.lane.tenant, priority__gte=entry.lane.priority)
    lanes = [
        lane_id
        for lane_id, require, prefer in tenant.values_list("pk", "require", "prefer")
        if any(may_take(has, frozenset(require), frozenset(prefer)) for has in runners)
    ]
    earlier = Q(available_at__lt=entry.available_at) | Q(available_at=entry.available_at, run_id__lt=entry.run_id)
    before = Q(lane__priority__gt=entry.lane.priority) | (Q(lane__priority=entry.lane.priority) & earlier)
    due = QueueEntry.objects.filter(state=State.READY, lane__in=lanes, available_at__lte=now).filter(before)
    return len(due.order_by().values_list("pk", flat=True)[:MOST_COUNTED])


def _counted(ahead: int) -> str:
    if ahead == 1:
        return "One run is"
    return f"{ahead} runs are" if ahead < MOST_COUNTED else f"{ahead} runs or more are"
