"""Give due runs of limited jobs their slots: all that a run needs, or none.

A run of a job with a limit waits ``gated``; with its slots it is ``ready`` for the next claim. The budgets of a job are
nested (its own in its group's in its tenant's), and all slots of a *domain*, the outermost, are given under one lock.
Within it the order is priority, due time, id, and the first for whose budgets there is room goes next.

Nobody starves for needing most. A run that needs job, group and tenant may be passed by those that need the tenant
alone only while its job or group has no slot. Whoever holds that slot also holds one of the tenant's, and gives both
back in one transaction, at whose end the one that waits longest is looked at first: then it gets all that it needs.

The lock is taken last in a transaction (`do_last`), in one order, and nothing else is waited for while it is held: no
two transactions wait for each other in a circle. What somebody else has locked is left to him: whoever changes what
waits settles its domain himself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import OuterRef, Q, QuerySet, Subquery

from croniq_site.kernel.database import do_last, write_transaction
from runners.services.audit import Event, record_events
from scheduler.domain.budgets import Limits, fate_of_fire, has_room, lowest_free
from scheduler.models import Job, QueueEntry, Run, Slot
from scheduler.services.tally import Kind, tally
from scheduler.services.wake import wake
from scheduler.sql.domains import lock_domains
from scheduler.sql.planned import close_runs, delete_waiting

ADMITTED_PER_TRANSACTION = 100
"""Each takes up to four rows (three slots, the entry): together no more than 500."""
SKIPPED_PER_TRANSACTION = 150
_PAGE = 20

State = QueueEntry.State


class SlotTaken(RuntimeError):
    """Somebody gave slots without the domain's lock: a fault of ours, the transaction rolls back."""


def limits_of(job: Job) -> Limits:
    """Return what limits the job as its row says; reads the group where it has one."""
    return Limits(
        job_id=job.pk,
        tenant=job.tenant,
        max_concurrent=job.max_concurrent,
        overlap=job.overlap,
        group_id=job.concurrency_group_id,
        group_limit=job.concurrency_group.max_concurrent if job.concurrency_group_id is not None else None,
        tenant_limit=settings.CRONIQ_TENANT_MAX_CONCURRENT,
    )


def is_limited(job: Job) -> bool:
    return (
        job.max_concurrent is not None
        or job.concurrency_group_id is not None
        or job.overlap != Job.Overlap.PARALLEL
        or settings.CRONIQ_TENANT_MAX_CONCURRENT is not None
    )


def domain_of(job: Job) -> str:
    return Limits(
        job.pk,
        job.tenant,
        group_id=job.concurrency_group_id,
        tenant_limit=settings.CRONIQ_TENANT_MAX_CONCURRENT,
    ).domain


def settle_later(domains: Iterable[str], now: datetime, *, changed_job: int | None = None) -> None:
    """Hand on what is free in these domains at the end of the transaction in hand. ``changed_job``: its limits were
    edited; what its runs hold is brought in line first (all its entries are locked by the caller)."""
    for name in domains:
        do_last(_settle, (name, now, changed_job))


def settle_jobs_later(job_ids: Collection[int], now: datetime) -> None:
    """`settle_later` for the domains of these jobs. Costs nothing where there are none."""
    if job_ids:
        settle_later((domain_of(job) for job in Job.objects.filter(pk__in=list(job_ids))), now)


def _settle(items: list[tuple[str, datetime, int | None]]) -> None:
    lock_domains(name for name, _, _ in items)
    for job_id in {job_id for _, _, job_id in items if job_id is not None}:
        _fit_slots(job_id, max(now for _, now, _ in items))
    for name in dict.fromkeys(name for name, _, _ in items):
        _admit(name, max(now for other, now, _ in items if other == name))


def admit(now: datetime, limit: int = 500, lane_ids: Collection[int] | None = None) -> int:
    """Give the due gated runs (of these lanes; None: of all) their slots where there are any; return how many got them.

    At most about ``limit``, each domain in transactions of its own. Costs one query where nothing is due.
    """
    due = QueueEntry.objects.filter(state=State.GATED, available_at__lte=now)
    if lane_ids is not None:
        due = due.filter(lane_id__in=list(lane_ids))
    job_ids = list(due.order_by().values_list("job_id", flat=True).distinct())
    domains = dict.fromkeys(domain_of(job) for job in Job.objects.filter(pk__in=job_ids).order_by("pk"))
    admitted = 0
    for name in domains:
        while admitted < limit:
            with write_transaction():
                lock_domains([name])
                step, is_all = _admit(name, now)
            admitted += step
            if is_all:
                break
    return admitted


@dataclass
class _Waiting:
    """A job with due gated runs, while its domain is settled."""

    job: Job
    limits: Limits
    runs: Iterator[QueueEntry]
    head: QueueEntry | None = None

    def step(self) -> None:
        self.head = next(self.runs, None)


def _admit(name: str, now: datetime) -> tuple[int, bool]:
    """One transaction's worth of a locked domain; return how many were admitted, and whether that was all."""
    jobs = list(_jobs_waiting(name, now))
    if not jobs:
        return 0, True
    limits = {job.pk: limits_of(job) for job in jobs}
    used = _slots_in_use(limits.values())
    are_decided = _decide_fires(jobs, limits, used, now)
    chosen = _choose(jobs, limits, used, now)
    _hand_out(chosen, now)
    return len(chosen), are_decided and len(chosen) < ADMITTED_PER_TRANSACTION


def _jobs_waiting(name: str, now: datetime) -> QuerySet[Job]:
    """The jobs of the domain with a due gated run. What moved to another domain meanwhile is settled there."""
    kind, _, key = name.partition(":")
    cap = settings.CRONIQ_TENANT_MAX_CONCURRENT
    of_domain = {
        "job": Q(pk=key, concurrency_group=None) if kind == "job" else Q(),
        "group": Q(concurrency_group_id=key) if kind == "group" else Q(),
        "tenant": Q(tenant=key),
    }[kind]
    if (kind == "tenant") != (cap is not None):
        return Job.objects.none()
    head = _due_gated(now).filter(job=OuterRef("pk"))
    return (
        Job.objects.filter(of_domain)
        .annotate(head_at=Subquery(head.order_by("available_at").values("available_at")[:1]))
        .filter(head_at__isnull=False)
        .select_related("concurrency_group")
        .order_by("pk")
    )


def _due_gated(now: datetime) -> QuerySet[QueueEntry]:
    return QueueEntry.objects.filter(state__in=QueueEntry.WAITING, state=State.GATED, available_at__lte=now)


def others_wait(name: str, now: datetime) -> bool:
    """True where some due run of the domain waits for slots."""
    return _jobs_waiting(name, now).exists()


def _slots_in_use(limits: Iterable[Limits]) -> dict[str, set[int]]:
    used: dict[str, set[int]] = {budget.name: set() for one in limits for budget in one.budgets}
    for name, n in Slot.objects.filter(budget__in=list(used)).values_list("budget", "n"):
        used[name].add(n)
    return used


def _decide_fires(jobs: list[Job], limits: dict[int, Limits], used: dict[str, set[int]], now: datetime) -> bool:
    """Skip, or let wait for good, the fires that fell due since the last look, oldest first; return whether these were
    all. What was let wait once is never skipped: the rules speak about the moment at which a fire falls due."""
    due = QueueEntry.objects.filter(job__in=jobs, state__in=QueueEntry.WAITING, available_at__lte=now)
    fresh = list(
        due.filter(state=State.GATED, waits_since=None)
        .select_for_update(skip_locked=True)
        .order_by("available_at", "run_id")[:SKIPPED_PER_TRANSACTION]
    )
    if not fresh:
        return True
    by_key = {job.pk: job for job in jobs}
    touched = {entry.job_id for entry in fresh}
    waiting = dict.fromkeys(touched, 0)
    unclaimed = dict.fromkeys(touched, 0)
    others = due.filter(job_id__in=touched).exclude(state=State.HELD)
    for job_id, state, since in others.values_list("job_id", "state", "waits_since"):
        if state == State.READY or since is not None:
            unclaimed[job_id] += 1
            waiting[job_id] += state == State.GATED
    skipped: dict[str, list[QueueEntry]] = {}
    kept = []
    for entry in fresh:
        key = entry.job_id
        reason = fate_of_fire(
            limits[key],
            active=len(used.get(f"job:{key}", ())),
            waiting=waiting[key],
            unclaimed=unclaimed[key],
            most_unclaimed=by_key[key].max_queue_depth,
        )
        if reason:
            skipped.setdefault(reason, []).append(entry)
        else:
            kept.append(entry.run_id)
            waiting[key] += 1
            unclaimed[key] += 1
    for reason, entries in skipped.items():
        skip_fires(entries, by_key, reason, now)
    QueueEntry.objects.filter(run_id__in=kept, state=State.GATED).update(waits_since=now)
    return len(fresh) < SKIPPED_PER_TRANSACTION


def skip_fires(entries: Collection[QueueEntry], jobs: dict[int, Job], reason: str, now: datetime) -> None:
    """Record these waiting scheduled runs, which the caller has locked, as skipped for ``reason``. Audited."""
    gone = delete_waiting([entry.run_id for entry in entries])
    close_runs(gone, Run.Verdict.SKIPPED, reason, now)
    tally(Kind.SKIPPED, reason, len(gone))
    job_of = {entry.run_id: jobs[entry.job_id] for entry in entries}
    record_events(
        (
            Event(
                "run.skipped",
                "run",
                str(run_id),
                tenant=job_of[run_id].tenant,
                diff={"job_key": job_of[run_id].job_key, "reason": reason},
            )
            for run_id in gone
        ),
        now,
    )


def _runs_of(job: Job, now: datetime) -> Iterator[QueueEntry]:
    """Yield the job's due gated runs, locked, the oldest first. Those that were passed over stand in another line."""
    after: tuple[datetime, UUID] | None = None
    while True:
        page = _due_gated(now).filter(job=job, passed_over_at=None, waits_since__isnull=False)
        if after is not None:
            page = page.filter(Q(available_at__gt=after[0]) | Q(available_at=after[0], run_id__gt=after[1]))
        found = list(page.select_for_update(skip_locked=True).order_by("available_at", "run_id")[:_PAGE])
        yield from found
        if len(found) < _PAGE:
            return
        after = found[-1].available_at, found[-1].run_id


def _choose(
    jobs: list[Job], limits: dict[int, Limits], used: dict[str, set[int]], now: datetime
) -> list[tuple[QueueEntry, list[Slot]]]:
    """Pick who goes next until there is no room for anybody.

    A run that was passed over comes after all that waited already when it was, whatever their priority, and before all
    that fell due later: one that no runner can take costs its group thirty seconds a round and no more.
    """
    lines = [_Waiting(job, limits[job.pk], _runs_of(job, now)) for job in jobs]
    for line in lines:
        if has_room(line.limits.budgets, used):
            line.step()
    passed = list(
        _due_gated(now)
        .filter(job__in=jobs, passed_over_at__isnull=False)
        .select_for_update(skip_locked=True)
        .order_by("passed_over_at", "run_id")[:ADMITTED_PER_TRANSACTION]
    )
    chosen: list[tuple[QueueEntry, list[Slot]]] = []
    while len(chosen) < ADMITTED_PER_TRANSACTION:
        open_lines = [line for line in lines if line.head is not None and has_room(line.limits.budgets, used)]
        late = next((entry for entry in passed if has_room(limits[entry.job_id].budgets, used)), None)
        if late is not None:
            open_lines = [line for line in open_lines if line.head.available_at <= late.passed_over_at]
        if open_lines:
            line = min(open_lines, key=lambda line: (-line.job.priority, line.head.available_at, line.head.run_id))
            entry = line.head
            line.step()
        elif late is not None:
            passed.remove(late)
            entry = late
        else:
            break
        chosen.append((entry, _take(entry.run_id, limits[entry.job_id], used, now)))
    return chosen


def _take(run_id: UUID, limits: Limits, used: dict[str, set[int]], now: datetime) -> list[Slot]:
    slots = []
    for budget in limits.budgets:
        numbers = used[budget.name]
        n = lowest_free(numbers)
        numbers.add(n)
        slots.append(Slot(budget=budget.name, n=n, run_id=run_id, admitted_at=now))
    return slots


def _hand_out(chosen: list[tuple[QueueEntry, list[Slot]]], now: datetime) -> None:
    if not chosen:
        return
    Slot.objects.bulk_create(slot for _, slots in chosen for slot in slots)
    admitted = QueueEntry.objects.filter(run_id__in=[entry.run_id for entry, _ in chosen], state=State.GATED).update(
        state=State.READY
    )
    if admitted != len(chosen):
        raise SlotTaken(f"{len(chosen)} locked runs were to be admitted, {admitted} were gated")
    wake({entry.lane_id for entry, _ in chosen})


def _fit_slots(job_id: int, now: datetime) -> None:
    """Give the job's running runs a slot of each of its budgets, beyond a limit if need be: what runs is counted. What
    waits has none, and nobody holds one of a budget that limits the job no longer."""
    job = Job.objects.select_related("concurrency_group").get(pk=job_id)
    limits = limits_of(job)
    names = [budget.name for budget in limits.budgets]
    running = [State.CLAIMED, State.STOPPING]
    held = Slot.objects.filter(run__entry__job=job)
    held.exclude(budget__in=names, run__entry__state__in=running).delete()
    if not names:
        return
    used = _slots_in_use([limits])
    have = set(held.values_list("run_id", "budget"))
    missing = []
    for run_id in QueueEntry.objects.filter(job=job, state__in=running).order_by("run_id").values_list("pk", flat=True):
        for name in names:
            if (run_id, name) not in have:
                n = lowest_free(used[name])
                used[name].add(n)
                missing.append(Slot(budget=name, n=n, run_id=run_id, admitted_at=now))
    Slot.objects.bulk_create(missing)
