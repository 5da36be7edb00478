"""The fires of a job: those of its triggers together, equal instants once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.db import DatabaseError

from scheduler.domain.schedules import Fire
from scheduler.models import Job, Run, Trigger
from scheduler.queries.fires import trigger_fires

_PAGE = 10


def live_triggers(job: Job) -> list[Trigger]:
    """The triggers of the job that fire; none while it is switched off."""
    if not job.is_active:
        return []
    triggers = list(job.triggers.filter(enabled=True).select_related("calendar").order_by("pk"))
    for trigger in triggers:
        trigger.job = job
    return triggers


def fires_after(job: Job, after: datetime) -> Iterator[Fire]:
    """The job's fires after ``after``, ascending, without end where its schedules have none. A trigger that is broken
    gives none (it says so itself)."""
    triggers = live_triggers(job)
    while True:
        pages = [page for trigger in triggers if (page := _fires(trigger, after=after, count=_PAGE))]
        if not pages:
            return
        # What lies behind the end of a full page may be preceded by what that page does not show.
        end = min((page[-1].at for page in pages if len(page) == _PAGE), default=None)
        fires = {fire.at: fire for page in pages for fire in page if end is None or fire.at <= end}
        yield from (fires[at] for at in sorted(fires))
        if end is None:
            return
        after = end


def fires_within(job: Job, after: datetime, until: datetime, most: int) -> list[Fire]:
    """The job's fires in (after, until], ascending; ``most`` + 1 at most, so that the caller sees if there are more."""
    fires: dict[datetime, Fire] = {}
    for trigger in live_triggers(job):
        for fire in _fires(trigger, after=after, until=until, count=most + 1):
            earlier = fires.get(fire.at)
            if earlier is None or fire.occurrence_at < earlier.occurrence_at:
                fires[fire.at] = fire
    return [fires[at] for at in sorted(fires)][: most + 1]


def skipped_ahead(job_ids: Iterable[int], after: datetime, until: datetime | None = None) -> dict[int, set[datetime]]:
    """The fires in (after, until] that somebody took out beforehand, by job. One query."""
    runs = Run.objects.filter(
        job_id__in=list(job_ids),
        kind=Run.Kind.SCHEDULED,
        problem=Run.Verdict.SKIPPED,  # by its index: of what is to come there is little
        scheduled_for__gt=after,
    )
    if until is not None:
        runs = runs.filter(scheduled_for__lte=until)
    found: dict[int, set[datetime]] = defaultdict(set)
    for job_id, at in runs.values_list("job_id", "scheduled_for"):
        found[job_id].add(at)
    return dict(found)


def _fires(trigger: Trigger, **bounds: Any) -> list[Fire]:
    try:
        return trigger_fires(trigger, **bounds)
    except DatabaseError:
        raise
    except Exception:
        return []  # broken; the materializer says how
