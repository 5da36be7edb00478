"""What waits too long: unused slots, fires beyond a full queue, runs past their time in it. The reaper's chores."""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Count, Exists, F, OuterRef, Q

from croniq_site.kernel.database import WRITE_BATCH_ROWS, adapted, row_list, uuid_of, write_transaction
from runners.services.audit import MOST_IDS, Event, record_events
from scheduler.domain.budgets import QUEUE_FULL
from scheduler.domain.transitions import State as RunState
from scheduler.models import Job, QueueEntry, Run, Slot
from scheduler.services import queue
from scheduler.services.admit import domain_of, is_limited, others_wait, settle_jobs_later, settle_later, skip_fires
from scheduler.sql.domains import lock_domains

UNCLAIMED_AFTER = timedelta(seconds=30)
"""An admitted run that nobody has claimed for so long gives its slots back while others wait for them."""

RUNS_PER_TRANSACTION = 150
"""Each writes up to three rows (entry, run, event): together no more than 500."""

QUEUE_TTL = "queue_ttl"
State = QueueEntry.State


def pass_over_unclaimed(now: datetime, limit: int = RUNS_PER_TRANSACTION) -> int:
    """Take the slots of runs that had them for 30 s without being claimed, where others wait; return how many runs.

    They stand behind all that wait by now, whatever their priority: a run that no runner can take does not keep its
    group from working, and has its turn again.
    """
    stale = QueueEntry.objects.filter(state=State.READY, run__slots__admitted_at__lte=now - UNCLAIMED_AFTER)
    found = list(stale.distinct().order_by("run_id").select_related("job")[: min(limit, RUNS_PER_TRANSACTION)])
    domains: dict[str, list[QueueEntry]] = {}
    for entry in found:
        domains.setdefault(domain_of(entry.job), []).append(entry)
    passed = 0
    for name, entries in domains.items():
        with write_transaction():
            if others_wait(name, now):
                passed += _pass_over(entries, name, now)
    return passed


def _pass_over(entries: Sequence[QueueEntry], domain: str, now: datetime) -> int:
    free = QueueEntry.objects.select_for_update(skip_locked=True).filter(
        run_id__in=[entry.run_id for entry in entries], state=State.READY
    )
    run_ids = list(free.order_by("run_id").values_list("run_id", flat=True))
    QueueEntry.objects.filter(run_id__in=run_ids, state=State.READY).update(state=State.GATED, passed_over_at=now)
    Slot.objects.filter(run_id__in=run_ids).delete()
    settle_later([domain], now)
    return len(run_ids)


def drop_stray_slots(now: datetime, limit: int = RUNS_PER_TRANSACTION) -> int:
    """Delete slots that no unfinished or stopping run uses, and hand them on.

    An edit may give a running run its slot in the very moment in which its end, which began before, is written.
    """
    stray = Q(run__entry__isnull=True) | Q(run__entry__state__in=[State.GATED, State.HELD])
    with write_transaction():
        rows = list(Slot.objects.filter(stray).order_by("pk").values_list("pk", "run__job_id")[:limit])
        if not rows:
            return 0
        jobs = Job.objects.filter(pk__in={job_id for _, job_id in rows})
        # Under the locks: what is admitted in this moment has its slot and its state at once.
        lock_domains(domain_of(job) for job in jobs)
        ids = list(Slot.objects.filter(stray, pk__in=[pk for pk, _ in rows]).values_list("pk", flat=True))
        runs = list(Slot.objects.filter(pk__in=ids).order_by("pk").values_list("run_id", flat=True))
        Slot.objects.filter(pk__in=ids).delete()
        settle_jobs_later({job.pk for job in jobs}, now)
        record_events(_repaired("slots.dropped", runs), now)
    return len(ids)


def gate_strays(now: datetime, limit: int = RUNS_PER_TRANSACTION) -> int:
    """Send claimable runs of limited jobs that have no slots to wait for them.

    There are such only after the limit of tenants was set for the first time: no edit of a job knows of it.
    """
    if settings.CRONIQ_TENANT_MAX_CONCURRENT is None:
        return 0
    with write_transaction():
        strays = list(
            QueueEntry.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(~Exists(Slot.objects.filter(run=OuterRef("run_id"))), state=State.READY)
            .order_by("run_id")[:limit]
        )
        due = [entry.run_id for entry in strays if entry.available_at <= now]
        record_events(_repaired("runs.gated", [entry.run_id for entry in strays]), now)
        gated = QueueEntry.objects.filter(run_id__in=[entry.run_id for entry in strays], state=State.READY)
        gated.filter(run_id__in=due).update(waits_since=now, state=State.GATED)
        gated.update(state=State.GATED)
    return len(strays)


def _repaired(action: str, run_ids: Sequence[UUID]) -> list[Event]:
    """One event for a batch, of whichever tenants."""
    if not run_ids:
        return []
    diff = {"count": len(run_ids), "ids": [str(run_id) for run_id in run_ids[:MOST_IDS]]}
    return [Event(action, "site", "queue", diff=diff)]


def skip_beyond_depth(now: datetime, limit: int = RUNS_PER_TRANSACTION) -> int:
    """Skip the fires that fell due while ``max_queue_depth`` due runs of their job waited already; return how many.

    Of jobs without a limit; those of the others are decided where they are admitted. A fire that was due already when
    it was planned has been decided by the catch-up.
    """
    due = QueueEntry.objects.filter(state=State.READY, available_at__lte=now)
    crowded = (
        due.order_by()
        .values("job_id")
        .annotate(waiting=Count("pk"))
        .filter(waiting__gt=F("job__max_queue_depth"))
        .values_list("job_id", flat=True)
    )
    skipped = 0
    for job in Job.objects.filter(pk__in=list(crowded)).order_by("pk"):
        if is_limited(job) or skipped >= limit:
            continue
        with write_transaction():
            beyond = list(
                due.filter(job=job)
                .order_by("available_at", "run_id")
                .values_list("run_id", flat=True)[
                    job.max_queue_depth : job.max_queue_depth + min(limit - skipped, RUNS_PER_TRANSACTION)
                ]
            )
            fires = list(
                QueueEntry.objects.select_for_update(skip_locked=True, of=("self",))
                .filter(
                    run_id__in=beyond,
                    state=State.READY,
                    attempt=0,
                    run__kind=Run.Kind.SCHEDULED,
                    run__created_at__lt=F("run__scheduled_for"),
                )
                .order_by("run_id")
            )
            if fires:
                skip_fires(fires, {job.pk: job}, QUEUE_FULL, now)
        skipped += len(fires)
    return skipped


def expire_waiting(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Cancel the due runs that nobody claimed within their job's ``queue_ttl``; return how many. Audited.

    A run of a paused job waits because somebody wants it to, and is left alone.
    """
    times = Job.objects.filter(queue_ttl_seconds__isnull=False, deleted_at__isnull=True)
    bounds = [(pk, adapted(now - timedelta(seconds=ttl))) for pk, ttl in times.values_list("pk", "queue_ttl_seconds")]
    if not bounds:
        return 0
    done = 0
    while (size := min(limit - done, RUNS_PER_TRANSACTION)) > 0:
        step = _expire(bounds, now, size)
        done += step
        if step < size:
            break
    return done


def _expire(bounds: Sequence[tuple[int, datetime]], now: datetime, size: int) -> int:
    listed, params = row_list("bound", {"job_id": "bigint", "last": "timestamptz"}, bounds)
    with write_transaction():
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH {listed} SELECT q.run_id FROM bound b JOIN scheduler_queueentry q ON q.job_id = b.job_id "
                "WHERE q.state IN (0, 1) AND q.available_at <= b.last ORDER BY q.available_at, q.run_id LIMIT %s",
                [*params, size],
            )
            run_ids = [uuid_of(run_id) for (run_id,) in cursor.fetchall()]
        # A claim that was first keeps its run.
        over = [
            entry
            for entry in queue.lock_entries(run_ids)
            if entry.state in (State.READY, State.GATED)
            and entry.job.queue_ttl_seconds is not None
            and entry.available_at <= now - timedelta(seconds=entry.job.queue_ttl_seconds)
        ]
        queue.remove_entries(over, now)
        queue.end_runs(
            [queue.Ending(entry, RunState.CANCELLED, entry.attempt, reason=QUEUE_TTL) for entry in over], now
        )
        record_events((queue.run_event("run.cancelled", entry, reason=QUEUE_TTL) for entry in over), now)
    return len(over)
