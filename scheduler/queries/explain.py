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
from scheduler.queries.runners import online_capabilities
from scheduler.queries.takers import lack
from scheduler.services.admit import limits_of

MOST_COUNTED = 1000
"""More than so many runs before this one are not counted."""
MOST_HOLDERS = 20

State = QueueEntry.State


@dataclass(frozen=True)
class Reason:
    """One thing that keeps a run from starting.

    ``code``: maintenance, paused, inactive, not_due, backing_off, job_limit, group_limit, tenant_limit,
    lacking_capability, no_handler, no_taker, drained, no_runner or in_queue. ``until``: when it ends by itself, where
    that is known. ``run_ids``: the runs in its way, at most `MOST_HOLDERS`. ``names``: the capabilities that nobody
    has.
    """

    code: str
    message: str
    until: datetime | None = None
    run_ids: tuple[UUID, ...] = ()
    names: tuple[str, ...] = ()


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
    runners = online_capabilities(entry.lane.tenant, now)
    is_claimable = entry.state == State.READY and entry.available_at <= now
    ahead = _ahead_of(entry, now, runners) if is_claimable else None
    return Explanation("queued", tuple(_reasons(entry, now, ahead, runners)), ahead)


def _why_it_ended(run: Run) -> tuple[Reason, ...]:
    """Why it did not complete; nothing for what did."""
    if run.problem is None:
        return ()
    why = f": {run.reason.replace('_', ' ')}" if run.reason else ""
    # Of a cancelled run it is whatever somebody wrote.
    code = run.reason if run.reason.isidentifier() else run.problem
    return (Reason(code, f"It ended as {run.problem}{why}."),)


def _reasons(
    entry: QueueEntry, now: datetime, ahead: int | None, runners: Sequence[frozenset[str]]
) -> Iterator[Reason]:
    maintenance = current_maintenance()
    if maintenance is not None:
        why = f": {maintenance.reason}" if maintenance.reason else ""
        yield Reason("maintenance", f"All dispatch is held{why}.", maintenance.until)
    if entry.state == State.HELD:
        why = f": {entry.job.paused_reason}" if entry.job.paused_reason else ""
        yield Reason("paused", f"The job is paused{why}.", entry.job.paused_until)
    if entry.available_at > now:
        if entry.attempt:
            yield Reason("backing_off", f"Attempt {entry.attempt} failed; the next waits.", entry.available_at)
        else:
            yield Reason("not_due", "It is not due yet.", entry.available_at)
    elif entry.state == State.GATED:
        yield from _reached_limits(entry)
    yield from _lack_of_runners(entry.lane, runners, now)
    if ahead:
        yield Reason("in_queue", f"{_counted(ahead)} due before it.")


def _reached_limits(entry: QueueEntry) -> Iterator[Reason]:
    for budget in limits_of(entry.job).budgets:
        holders = list(
            Slot.objects.filter(budget=budget.name).order_by("admitted_at", "pk").values_list("run_id", flat=True)
        )
        if len(holders) >= budget.limit:
            yield Reason(
                f"{budget.name.partition(':')[0]}_limit",
                f"{_owner(budget, entry)} runs at most {budget.limit} at once, and {len(holders)} have their slot.",
                run_ids=tuple(holders[:MOST_HOLDERS]),
            )


def _owner(budget: Budget, entry: QueueEntry) -> str:
    kind = budget.name.partition(":")[0]
    if kind == "job":
        return f"The job {entry.job.job_key}"
    if kind == "group":
        return f"The group {entry.job.concurrency_group.name}"
    return f"The tenant {entry.job.tenant}"


def _lack_of_runners(lane: Lane, runners: Sequence[frozenset[str]], now: datetime) -> Iterator[Reason]:
    lacking = [name for name in lane.require if not any(name in has for has in runners)]
    if runners and not lacking:
        if why := lack(lane.require, lane.prefer, runners):
            yield Reason(*why)
        return
    drained = frozenset().union(*online_capabilities(lane.tenant, now, are_drained=True))
    if not runners and drained:
        yield Reason("drained", f"Every runner that serves the tenant {lane.tenant} is drained and takes no more.")
    elif not runners:
        yield Reason("no_runner", f"No runner that serves the tenant {lane.tenant} is online.")
    else:
        nobody = tuple(name for name in lacking if name not in drained)
        drained_alone = tuple(name for name in lacking if name in drained)
        if nobody:
            yield Reason("lacking_capability", f"No runner that is online has {', '.join(nobody)}.", names=nobody)
        if drained_alone:
            yield Reason("drained", f"Only drained runners have {', '.join(drained_alone)}.", names=drained_alone)


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
