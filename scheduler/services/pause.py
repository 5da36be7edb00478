"""Hold a job's scheduled runs back, and let them go again. Manual triggers still run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, write_transaction
from croniq_site.kernel.errors import InvalidInput
from runners.domain.differences import difference
from runners.domain.scopes import Principal
from runners.services.audit import SYSTEM, Actor, Event, record_events
from scheduler.domain.inputs import text_of
from scheduler.models import Job, QueueEntry, Run, Slot
from scheduler.services.admit import domain_of, is_limited, settle_later
from scheduler.services.jobs import lock_job_of_key
from scheduler.services.planning import waiting_state
from scheduler.services.queue import lock_entries_of
from scheduler.services.tally import Kind, tally
from scheduler.services.wake import wake
from scheduler.sql.planned import close_runs, delete_waiting

PAUSED = "paused"

KEPT: Any = object()
"""Of a pause that is there: leave this as it is."""


def pause_job(
    job_key: str,
    now: datetime,
    *,
    actor: Actor = SYSTEM,
    principal: Principal | None = None,
    reason: str | None = KEPT,
    until: datetime | None = KEPT,
) -> Job:
    """Let no scheduled run of the job begin until it is resumed, or ``until``. What is claimed finishes.

    Of a job that is paused this changes ``reason`` and ``until``: None takes them away, and what is not said stays as
    it is, but an end that has come.
    """
    if reason is not KEPT:
        reason = text_of("reason", "" if reason is None else reason, most=255)
    if until is not KEPT and until is not None and until <= now:
        raise InvalidInput.of("until", "A pause ends after it begins.")
    with write_transaction():
        job = lock_job_of_key(job_key, principal)
        if reason is KEPT:
            reason = job.paused_reason
        if until is KEPT:
            until = job.paused_until if job.paused_until is not None and job.paused_until > now else None
        before = _pause_of(job)
        job.paused_at, job.paused_until, job.paused_reason = job.paused_at or now, until, reason
        Job.objects.filter(pk=job.pk).update(
            paused_at=job.paused_at, paused_until=until, paused_reason=reason, updated_at=now
        )
        lock_entries_of(job)
        _scheduled(job, QueueEntry.State.READY, QueueEntry.State.GATED).update(state=QueueEntry.State.HELD)
        if is_limited(job):
            # Read after the update, which waited for whoever was admitting one of them.
            Slot.objects.filter(run__entry__job=job, run__entry__state=QueueEntry.State.HELD).delete()
            settle_later([domain_of(job)], now)
        diff = difference(before, _pause_of(job))
        record_events([Event("job.paused", "job", job_key, actor, job.tenant, diff)], now)
        return job


def resume_job(job_key: str, now: datetime, *, actor: Actor = SYSTEM, principal: Principal | None = None) -> Job:
    """End a pause: future runs go on with the ids that they had, those that fell due meanwhile are ``skipped``. A run
    that was tried before the pause goes on with its next attempt."""
    with write_transaction():
        job = lock_job_of_key(job_key, principal)
        if job.paused_at is not None:
            _resume(job, now, actor)
        return job


def resume_expired(now: datetime, limit: int = 100) -> int:
    """Resume the jobs whose pause has an end that has come; return how many."""
    over = Job.objects.filter(paused_until__lte=now, paused_at__isnull=False, deleted_at__isnull=True)
    resumed = 0
    for job_id in list(over.order_by("paused_until").values_list("pk", flat=True)[:limit]):
        with write_transaction():
            # Looked at again under its lock: since then it may have been deleted, or its pause made longer.
            job = over.select_for_update(no_key=True).filter(pk=job_id).first()
            if job is not None:
                _resume(job, now, SYSTEM)
                resumed += 1
    return resumed


def _resume(job: Job, now: datetime, actor: Actor) -> None:
    before = _pause_of(job)
    job.paused_at = job.paused_until = None
    job.paused_reason = ""
    Job.objects.filter(pk=job.pk).update(paused_at=None, paused_until=None, paused_reason="", updated_at=now)
    lock_entries_of(job)
    held = _scheduled(job, QueueEntry.State.HELD)
    past = list(held.filter(attempt=0, run__scheduled_for__lte=now).values_list("run_id", flat=True))
    for chunk in chunks(past, WRITE_BATCH_ROWS):
        gone = delete_waiting(chunk)
        close_runs(gone, Run.Verdict.SKIPPED, PAUSED, now)
        tally(Kind.SKIPPED, PAUSED, len(gone))
    held.update(state=waiting_state(job))
    if is_limited(job):
        settle_later([domain_of(job)], now)
    wake([job.lane_id])
    diff = {**difference(before, _pause_of(job)), "skipped": len(past)}
    record_events([Event("job.resumed", "job", job.job_key, actor, job.tenant, diff)], now)


def _pause_of(job: Job) -> dict[str, Any]:
    until = job.paused_until
    return {
        "paused": job.paused_at is not None,
        "reason": job.paused_reason,
        "until": None if until is None else until.isoformat(),
    }


def _scheduled(job: Job, *states: QueueEntry.State):
    waiting = QueueEntry.objects.filter(job=job, state__in=QueueEntry.WAITING, run__kind=Run.Kind.SCHEDULED)
    return waiting.filter(state__in=states)
