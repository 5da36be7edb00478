"""Leave out the next fire of a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict
from croniq_site.kernel.ids import uuid7
from runners.domain.scopes import Principal
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.schedules import Fire
from scheduler.models import Job, Run
from scheduler.queries.job_fires import fires_after
from scheduler.services.jobs import lock_job_of_key
from scheduler.services.tally import Kind, tally
from scheduler.sql.planned import close_runs, delete_waiting

SKIP_NEXT = "skip_next"
MOST_LOOKED_AT = 1000
"""So many fires that are skipped already may lie before the next one."""


@dataclass(frozen=True)
class SkippedNext:
    run_id: UUID
    scheduled_for: datetime


def skip_next(job_key: str, now: datetime, actor: Actor, principal: Principal | None = None) -> SkippedNext:
    """Make the job's next scheduled fire a ``skipped`` run (skip_next): the planned run of it unless a claim was first,
    else one that is made for it, so that no materializer makes another. Said again, it skips the fire after that.

    Raises NotFound; Conflict ``nothing_to_skip`` where no fire comes any more (or the job is switched off).
    """
    with write_transaction():
        # Under the lock of the job no materializer plans it; only claims are beside us.
        job = lock_job_of_key(job_key, principal)
        for looked_at, fire in enumerate(fires_after(job, now)):
            if looked_at >= MOST_LOOKED_AT:
                break
            run_id = _skip(job, fire, now)
            if run_id is not None:
                tally(Kind.SKIPPED, SKIP_NEXT)
                diff = {"scheduled_for": fire.at.isoformat(), "execution_id": str(run_id)}
                record_events([Event("job.next_skipped", "job", job_key, actor, job.tenant, diff)], now)
                return SkippedNext(run_id, fire.at)
    raise Conflict(f"No fire of {job_key!r} comes that could be skipped.", code="nothing_to_skip")


def _skip(job: Job, fire: Fire, now: datetime) -> UUID | None:
    """Skip this fire; None if its run is skipped already, or somebody else's by now."""
    run_id = (
        Run.objects.filter(job=job, kind=Run.Kind.SCHEDULED, scheduled_for=fire.at).values_list("pk", flat=True).first()
    )
    if run_id is None:
        return Run.objects.create(
            id=uuid7(now),
            job=job,
            kind=Run.Kind.SCHEDULED,
            scheduled_for=fire.at,
            occurrence_at=fire.occurrence_at,
            created_at=now,
            verdict=Run.Verdict.SKIPPED,
            problem=Run.Verdict.SKIPPED,
            reason=SKIP_NEXT,
            finished_at=now,
        ).pk
    gone = delete_waiting([run_id])
    close_runs(gone, Run.Verdict.SKIPPED, SKIP_NEXT, now)
    return run_id if gone else None
