"""What a person decides about fires that were missed: make up for them, or let them be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.trigger_fields import instant_of
from scheduler.models import Job
from scheduler.services.backfill import Backfill, backfill
from scheduler.services.jobs import lock_job_of_key


def run_missed(
    job_key: str, since: Any, until: Any, seen_at: Any, now: datetime, actor: Actor, *, expected: int | None = None
) -> Backfill:
    """Make the runs of the fires in [since, until] that have none (`backfill`), and take what was recorded as missed up
    to ``seen_at`` for dealt with, unless there was nothing to make. ``expected``: so many runs were promised; where it
    would be another number, nothing is done (Conflict ``missed_changed``). Raises as `backfill` and `dismiss_missed`.
    """
    if expected is not None:
        would = backfill(job_key, since, until, now, actor, dry_run=True)
        if len(would.instants) != expected:
            raise Conflict(
                f"It would be {len(would.instants)} runs by now, not {expected}. Nothing was done; look again.",
                code="missed_changed",
            )
    done = backfill(job_key, since, until, now, actor)
    if done.instants or done.already_there:
        dismiss_missed(job_key, seen_at, now, actor)
    return done


def dismiss_missed(job_key: str, seen_at: Any, now: datetime, actor: Actor) -> bool:
    """Take what of the job was recorded as missed up to ``seen_at``, an instant that has passed, for dealt with; return
    whether that is news. What is recorded later is shown again. Raises NotFound, InvalidInput."""
    seen_at = instant_of("seen_at", seen_at)
    if seen_at > now:
        raise InvalidInput.of("seen_at", "Nobody has seen yet what will be missed.")
    with write_transaction():
        job = lock_job_of_key(job_key, None)
        later = Q(missed_seen_at__isnull=True) | Q(missed_seen_at__lt=seen_at)
        # Of two who have looked at different moments the later look counts, whoever says it last.
        if not Job.objects.filter(later, pk=job.pk).update(missed_seen_at=seen_at):
            return False
        before = job.missed_seen_at and job.missed_seen_at.isoformat()
        diff = {"missed_seen_at": [before, seen_at.isoformat()]}
        record_events([Event("job.missed_dismissed", "job", job_key, actor, job.tenant, diff)], now)
        return True
