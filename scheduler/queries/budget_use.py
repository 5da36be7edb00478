"""Who has the slots of which limit, who waits for them, and whose runs are in whose way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import Count, F, Min, Q, Window
from django.db.models.functions import RowNumber

from scheduler.domain.budgets import PARALLEL, Budget
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Slot
from scheduler.services.admit import limits_of

MOST_JOBS = 1000
MOST_SLOTS = 2000
MOST_GROUPS = 500
WAITING_NAMED = 5
"""Of what waits of a job so many runs are named; the others are counted."""

State = QueueEntry.State


@dataclass(frozen=True)
class Holder:
    """A run with its slot since ``admitted_at``. ``runner_id``: who runs it, "" while nobody has claimed it."""

    run_id: UUID
    job_key: str
    runner_id: str
    admitted_at: datetime
    is_winding_down: bool


@dataclass(frozen=True)
class Waiter:
    """What of a job is due and has no slots: ``count`` runs since ``since``, the first of them in ``run_ids``.
    ``blocked_by``: the names of the budgets that are full; none where it is only the turn of others."""

    job_key: str
    count: int
    since: datetime
    run_ids: tuple[UUID, ...]
    blocked_by: tuple[str, ...]


@dataclass
class BudgetUse:
    """A limit. ``name`` as in `Budget`, ``title`` what people call it; ``kind`` is job, group or tenant. ``jobs`` share
    it; ``used`` counts the slots in use, also beyond a limit that was lowered."""

    name: str
    kind: str
    title: str
    tenant: str
    limit: int
    jobs: int
    why: str = ""
    used: int = 0
    holders: list[Holder] = field(default_factory=list)
    waiters: list[Waiter] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.used >= self.limit

    @property
    def waiting(self) -> int:
        return sum(waiter.count for waiter in self.waiters)


@dataclass(frozen=True)
class BudgetTable:
    """The limits with anything in them or before them (``busy``, the longest queues first) and the others (``idle``).
    ``left_out``: jobs with a limit beyond the most."""

    busy: tuple[BudgetUse, ...]
    idle: tuple[BudgetUse, ...]
    left_out: int


def budget_table(now: datetime) -> BudgetTable:
    """Read all limits as they are used. Six queries."""
    jobs = list(_limited()[: MOST_JOBS + 1])
    left_out = _limited().count() - MOST_JOBS if len(jobs) > MOST_JOBS else 0
    limits = {job.pk: limits_of(job).budgets for job in jobs[:MOST_JOBS]}
    uses = _uses(jobs[:MOST_JOBS], limits)
    used = dict(Slot.objects.order_by().values_list("budget").annotate(Count("pk")))
    for name, number in used.items():
        if name in uses:
            uses[name].used = number
    for slot in _slots():
        use = uses.get(slot["budget"])
        if use is not None:
            use.holders.append(_holder(slot))
    for job_id, waiter in _waiters(limits, uses, now):
        for budget in limits[job_id]:
            uses[budget.name].waiters.append(waiter)
    ordered = sorted(uses.values(), key=lambda use: (-use.waiting, -use.used, use.kind, use.title))
    busy = tuple(use for use in ordered if use.used or use.waiters)
    return BudgetTable(busy, tuple(use for use in ordered if not use.used and not use.waiters), left_out)


def _limited():
    jobs = Job.objects.filter(deleted_at__isnull=True).select_related("concurrency_group").order_by("job_key")
    if settings.CRONIQ_TENANT_MAX_CONCURRENT is not None:
        return jobs
    return jobs.filter(
        Q(max_concurrent__isnull=False) | Q(concurrency_group__isnull=False) | ~Q(overlap=Job.Overlap.PARALLEL)
    )


def _uses(jobs: Iterable[Job], limits: dict[int, tuple[Budget, ...]]) -> dict[str, BudgetUse]:
    uses = {
        f"group:{group.pk}": BudgetUse(f"group:{group.pk}", "group", group.name, group.tenant, group.max_concurrent, 0)
        for group in ConcurrencyGroup.objects.order_by("name", "tenant")[:MOST_GROUPS]
    }
    for job in jobs:
        for budget in limits[job.pk]:
            use = uses.get(budget.name)
            if use is None:
                uses[budget.name] = use = _use(job, budget)
            use.jobs += 1
    return uses


def _use(job: Job, budget: Budget) -> BudgetUse:
    kind = budget.name.partition(":")[0]
    title = {"job": job.job_key, "tenant": job.tenant}.get(kind) or job.concurrency_group.name
    why = f"overlap: {job.overlap}" if kind == "job" and job.overlap != PARALLEL else ""
    return BudgetUse(budget.name, kind, title, job.tenant, budget.limit, 0, why)


def _slots():
    rows = Slot.objects.order_by("admitted_at", "pk").values(
        "budget",
        "admitted_at",
        "run_id",
        "run__job__job_key",
        "run__entry__state",
        "run__entry__holder__runner__runner_id",
    )
    return rows[:MOST_SLOTS]


def _holder(slot: dict) -> Holder:
    return Holder(
        slot["run_id"],
        slot["run__job__job_key"],
        slot["run__entry__holder__runner__runner_id"] or "",
        slot["admitted_at"],
        slot["run__entry__state"] == State.STOPPING,
    )


def _waiters(limits: dict[int, tuple[Budget, ...]], uses: dict[str, BudgetUse], now: datetime):
    """(job id, what of it waits), who waits longest first."""
    gated = QueueEntry.objects.filter(state=State.GATED, available_at__lte=now)
    counted = list(
        gated.order_by()
        .values("job_id", "job__job_key")
        .annotate(count=Count("pk"), since=Min("available_at"))
        .order_by("since", "job__job_key")
    )
    place = Window(RowNumber(), partition_by=F("job_id"), order_by=[F("available_at").asc(), F("run_id").asc()])
    named: dict[int, list[UUID]] = defaultdict(list)
    first = gated.annotate(place=place).filter(place__lte=WAITING_NAMED).order_by("job_id", "place")
    for job_id, run_id in first.values_list("job_id", "run_id") if counted else ():
        named[job_id].append(run_id)
    for row in counted:
        job_id = row["job_id"]
        if job_id in limits:
            full = tuple(budget.name for budget in limits[job_id] if uses[budget.name].is_full)
            run_ids = tuple(named[job_id])
            yield job_id, Waiter(row["job__job_key"], row["count"], row["since"], run_ids, full)
