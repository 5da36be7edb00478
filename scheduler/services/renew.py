"""Extend leases."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, NotFound
from runners.models import RunnerInstance
from scheduler.models import QueueEntry, Run
from scheduler.sql import backend


def renew(run_id: UUID, runner_id: str, attempt: int | None, now: datetime) -> datetime:
    """Extend the lease of the run that ``runner_id`` has claimed (with ``attempt``, if given) and return its end.

    It carries no instance. So after a takeover a renew without an attempt extends nothing (it may come from the deposed
    process, which has it wrong) but is answered with the lease as it is; the holder renews by polling. Never shortens a
    lease. Raises NotFound for an unknown run, Conflict ``stale_claim`` for one that is not claimed by that runner.
    """
    with write_transaction():
        entry = (
            QueueEntry.objects.select_related("holder")
            .filter(run_id=run_id, state=QueueEntry.State.CLAIMED, holder__runner__runner_id=runner_id)
            .first()
        )
        if entry is None or (attempt is not None and entry.attempt != attempt):
            raise _refusal(run_id)
        if attempt is None and _was_taken_over(entry):
            return entry.lease_expires_at
        expires_at = max(entry.lease_expires_at, now + timedelta(seconds=entry.lease_seconds))
        # The claim may have ended, and begun again, since it was read: attempt and holder name the one that was read.
        renewed = QueueEntry.objects.filter(
            run_id=run_id, state=QueueEntry.State.CLAIMED, attempt=entry.attempt, holder_id=entry.holder_id
        ).update(lease_expires_at=expires_at)
        if renewed != 1:
            raise _refusal(run_id)
    return expires_at


def renew_held(holder_id: int, run_ids: Collection[UUID], now: datetime) -> set[UUID]:
    """Extend the leases of those of ``run_ids`` that the instance has claimed; return them. One statement."""
    return {run_id for _, run_id in renew_claims([(holder_id, run_id) for run_id in run_ids], now)}


def renew_claims(claims: Collection[tuple[int, UUID]], now: datetime) -> set[tuple[int, UUID]]:
    """Extend the leases of those of ``claims`` (holder, run) that the holder has claimed; return them. One statement.

    Polls that are opened in one transaction renew by one call: claims are locked in the order of run ids, as by the
    acks; two calls would lock theirs one after the other, and meet a batch of acks in a deadlock.
    """
    if not claims:
        return set()
    with write_transaction():
        return backend().renew_held(sorted(claims), now)


def _was_taken_over(entry: QueueEntry) -> bool:
    # What was claimed before it went back then: there is no such claim.
    return RunnerInstance.objects.filter(runner_id=entry.holder.runner_id, deposed_at__isnull=False).exists()


def _refusal(run_id: UUID) -> NotFound | Conflict:
    if Run.objects.filter(pk=run_id).exists():
        return Conflict("This runner does not hold that claim (any more).", code="stale_claim")
    return NotFound(f"There is no execution {run_id}.")
