"""Why runs wait: what holds them, what they wait for, and whether anybody is there to take them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import CharField, Count, OuterRef, Subquery, Value
from django.db.models.functions import Cast, Concat

from croniq_site.kernel.capabilities import may_take
from scheduler.domain.budgets import Budget
from scheduler.models import Maintenance, QueueEntry, Run, Slot
from scheduler.queries.bulk import REPEATABLE
from scheduler.queries.runners import ONLINE_SECONDS, rows_with_counts
from scheduler.queries.runs import RunRow
from scheduler.queries.takers import having, lack
from scheduler.services.admit import limits_of

State = QueueEntry.State


@dataclass(frozen=True)
class Reason:
    """One thing that keeps a run from starting.

    ``code``: maintenance, paused, inactive, not_due, backing_off, job_limit, group_limit, tenant_limit,
    lacking_capability, no_handler, no_taker, drained, no_runner, runners_full or in_queue. ``until``: when it ends by
    itself, where that is known. ``run_ids``: the runs in its way, some of them. ``names``: the capabilities that nobody
    has.
    """

    code: str
    message: str
    until: datetime | None = None
    run_ids: tuple[UUID, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Taker:
    """A runner that is online: what it ``has``, whose runs it serves (``tenant`` None: all), whether it is drained, and
    whether it holds as many runs as it takes at once."""

    tenant: str | None
    has: frozenset[str]
    is_drained: bool
    is_full: bool


@dataclass(frozen=True)
class Note:
    """What a list says of a run besides its row. ``is_waiting``: it is queued; ``why`` is the first thing besides its
    time that keeps it from starting, else that, None where it only has to wait for its turn. ``replayed_as``: the run
    that does it once more."""

    is_waiting: bool
    why: Reason | None
    replayed_as: UUID | None


class Hold(NamedTuple):
    """A maintenance that is on."""

    reason: str
    until: datetime | None


def takers_online(now: datetime) -> list[Taker]:
    """One query."""
    online = rows_with_counts(now).filter(last_poll_at__gte=now - timedelta(seconds=ONLINE_SECONDS))
    columns = ("runner_id", "client__tenant", "capabilities", "drained_at", "max_inflight", "inflight")
    return [
        Taker(tenant, having(runner_id, has), drained_at is not None, inflight >= most)
        for runner_id, tenant, has, drained_at, most, inflight in online.order_by("pk").values_list(*columns)
    ]


def working_for(tenant: str, takers: Iterable[Taker]) -> list[frozenset[str]]:
    """What each runner has that may serve the tenant and takes work."""
    return [taker.has for taker in takers if taker.tenant in (None, tenant) and not taker.is_drained]


def lack_of_takers(
    tenant: str, require: Sequence[str], prefer: Collection[str], takers: Sequence[Taker], *, is_due: bool
) -> Iterator[Reason]:
    """Why none of ``takers`` may have a run of a lane; of one that ``is_due`` also that none of them has room."""
    runners = working_for(tenant, takers)
    lacking = [name for name in require if not any(name in has for has in runners)]
    if runners and not lacking:
        if why := lack(require, prefer, runners):
            yield Reason(*why)
        elif is_due:
            yield from _lack_of_room(tenant, require, prefer, takers)
        return
    drained = frozenset().union(*(t.has for t in takers if t.tenant in (None, tenant) and t.is_drained))
    if not runners and drained:
        yield Reason("drained", f"Every runner that serves the tenant {tenant} is drained and takes no more.")
    elif not runners:
        yield Reason("no_runner", f"No runner that serves the tenant {tenant} is online.")
    else:
        nobody = tuple(name for name in lacking if name not in drained)
        drained_alone = tuple(name for name in lacking if name in drained)
        if nobody:
            yield Reason("lacking_capability", f"No runner that is online has {', '.join(nobody)}.", names=nobody)
        if drained_alone:
            yield Reason("drained", f"Only drained runners have {', '.join(drained_alone)}.", names=drained_alone)


def _lack_of_room(
    tenant: str, require: Collection[str], prefer: Collection[str], takers: Iterable[Taker]
) -> Iterator[Reason]:
    required, preferred = frozenset(require), frozenset(prefer)
    able = [
        taker
        for taker in takers
        if taker.tenant in (None, tenant) and not taker.is_drained and may_take(taker.has, required, preferred)
    ]
    if not all(taker.is_full for taker in able):
        return
    if len(able) == 1:
        yield Reason("runners_full", "The one runner that may take it has no place free.")
    else:
        yield Reason("runners_full", f"None of the {len(able)} runners that may take it has a place free.")


def reasons_of(
    entry: QueueEntry,
    now: datetime,
    hold: Hold | None,
    takers: Sequence[Taker],
    holders_of: Callable[[Budget], tuple[int, tuple[UUID, ...]]],
) -> Iterator[Reason]:
    """What keeps an unclaimed entry from starting, most decisive first; its job, group and lane were read with it.
    ``holders_of`` a limit: how many slots of it are in use, and some of the runs that have them."""
    if hold is not None:
        why = f": {hold.reason}" if hold.reason else ""
        yield Reason("maintenance", f"All dispatch is held{why}.", hold.until)
    if entry.state == State.HELD:
        why = f": {entry.job.paused_reason}" if entry.job.paused_reason else ""
        yield Reason("paused", f"The job is paused{why}.", entry.job.paused_until)
    if entry.available_at > now:
        if entry.attempt:
            yield Reason("backing_off", f"Attempt {entry.attempt} failed; the next waits.", entry.available_at)
        else:
            yield Reason("not_due", "It is not due yet.", entry.available_at)
    elif entry.state == State.GATED:
        for budget in limits_of(entry.job).budgets:
            number, run_ids = holders_of(budget)
            if number >= budget.limit:
                yield _reached(entry, budget, number, run_ids)
    lane, is_claimable = entry.lane, entry.state == State.READY and entry.available_at <= now
    yield from lack_of_takers(lane.tenant, lane.require, lane.prefer, takers, is_due=is_claimable)


def _reached(entry: QueueEntry, budget: Budget, number: int, run_ids: tuple[UUID, ...]) -> Reason:
    job, most = entry.job, budget.limit
    kind = budget.name.partition(":")[0]
    if kind == "job":
        message = f"The job {job.job_key} runs at most {most} at once, and {number} have their slot."
    elif kind == "group":
        name = job.concurrency_group.name
        message = f"The group {name} runs at most {most} at once, and {number} have their slot."
    else:
        message = f"The tenant {job.tenant} runs at most {most} at once, and {number} have their slot."
    return Reason(f"{kind}_limit", message, run_ids=run_ids)


def notes_of(runs: Iterable[RunRow], now: datetime, takers: Sequence[Taker] | None = None) -> dict[UUID, Note]:
    """What there is to say of these runs of a list, by id. One query, and one more if any of them waits and ``takers``
    (`takers_online`) were not read."""
    ids = [run.id for run in runs if run.state == "queued" or run.state in REPEATABLE]
    found = list(_with_entries(ids)) if ids else []
    waiting = {run.pk: run.entry for run in found if _is_waiting(run)}
    if waiting and takers is None:
        takers = takers_online(now)
    notes = {}
    for run in found:
        why = None
        if run.pk in waiting:
            hold = None if run.hold_reason is None else Hold(run.hold_reason, run.hold_until)
            used = {"job": run.job_slots, "group": run.group_slots, "tenant": run.tenant_slots}
            reasons = list(reasons_of(waiting[run.pk], now, hold, takers or (), _counted(used)))
            why = next((reason for reason in reasons if reason.code != "not_due"), next(iter(reasons), None))
        notes[run.pk] = Note(run.pk in waiting, why, run.replayed_as)
    return notes


def _is_waiting(run: Run) -> bool:
    entry = getattr(run, "entry", None)
    return run.verdict is None and entry is not None and entry.state in (State.READY, State.GATED, State.HELD)


def _counted(used: dict[str, int | None]) -> Callable[[Budget], tuple[int, tuple[UUID, ...]]]:
    return lambda budget: (used[budget.name.partition(":")[0]] or 0, ())


def _with_entries(run_ids: Sequence[UUID]) -> Iterable[Run]:
    hold = Maintenance.objects.filter(is_on=True)
    again = Run.objects.filter(replay_of_id=OuterRef("pk"))
    runs = Run.objects.filter(pk__in=run_ids).select_related("entry__lane", "entry__job__concurrency_group")
    return runs.defer("error", "metadata").annotate(
        replayed_as=Subquery(again.values("pk")[:1]),
        hold_reason=Subquery(hold.values("reason")[:1]),
        hold_until=Subquery(hold.values("until")[:1]),
        job_slots=_slots("job:", "entry__job_id"),
        group_slots=_slots("group:", "entry__job__concurrency_group_id"),
        tenant_slots=_slots("tenant:", "entry__job__tenant"),
    )


def _slots(kind: str, key: str) -> Subquery:
    budget = Concat(Value(kind), Cast(OuterRef(key), CharField()))
    return Subquery(Slot.objects.filter(budget=budget).order_by().values("budget").annotate(n=Count("pk")).values("n"))
