"""Do a run that has ended once more: the same work as a new run, with fresh attempts."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, NotFound
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.inputs import public_metadata
from scheduler.models import Job, Run
from scheduler.services.replan import lock_job
from scheduler.services.trigger_runs import insert_run


def replay_run(run_id: UUID, now: datetime, actor: Actor) -> UUID | None:
    """Make a new run of one that has ended, due now: same ``scheduled_for``, with the metadata, route and timeout that
    it had of its own, else with the job's as they are now. Calendars and pauses have no say in it.

    A run is replayed once: None where it was replayed before. Audited. Raises NotFound, Conflict ``not_finished`` (also
    a skipped one: that was never a run), Conflict ``job_deleted``. Who may replay what is the caller's question.
    """
    with write_transaction():
        job_id = Run.objects.filter(pk=run_id).values_list("job_id", flat=True).first()
        # Replays of one job take turns by its lock: the second of two finds the first one's run.
        job = None if job_id is None else lock_job(job_id)
        original = lock_original(run_id)
        if original is None:
            raise NotFound(f"There is no execution {run_id}.")
        if original.verdict in (None, Run.Verdict.SKIPPED):
            raise Conflict(f"The execution {run_id} has not run to an end.", code="not_finished")
        if job is None:
            raise job_is_deleted()
        if Run.objects.filter(replay_of_id=run_id).exists():
            return None
        replay_id = insert_replay(job, original, now)
        diff = {"job_key": job.job_key, "execution_id": str(replay_id)}
        record_events([Event("run.replayed", "run", str(run_id), actor, job.tenant, diff)], now)
        return replay_id


def lock_original(run_id: UUID) -> Run | None:
    """Keep a run that has ended from being thrown away until the transaction ends, and return it; None if it is gone.

    Retention may have it in hand: whoever only read it would insert a run that refers to nothing, and fail when that is
    committed. Retention skips what is locked. Needs the transaction, with the job locked before.
    """
    return Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()


def insert_replay(job: Job, original: Run, now: datetime, metadata: dict[str, Any] | None = None) -> UUID:
    """Make the run that does ``original`` once more, with other ``metadata`` where they are given. Needs the
    transaction, the lock of the job and `lock_original`."""
    return insert_run(
        job,
        now,
        kind=Run.Kind.REPLAY,
        metadata=public_metadata(original.metadata) or None if metadata is None else metadata,
        require=original.require,
        prefer=original.prefer,
        timeout_seconds=original.timeout_seconds,
        scheduled_for=original.scheduled_for,
        occurrence_at=original.occurrence_at,
        replay_of_id=original.pk,
    )


def job_is_deleted() -> Conflict:
    return Conflict("The job was deleted; nothing of it runs any more.", code="job_deleted")
