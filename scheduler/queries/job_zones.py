"""The zones of jobs, in which the instants of their runs are said besides the viewer's own."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.models import Trigger
from scheduler.queries.fires import zone_of


def zones_of(job_keys: Iterable[str]) -> dict[str, str]:
    """Return the zone of the first trigger of each of these jobs, by key; a job without a trigger has none. One query,
    none for no job."""
    keys = set(job_keys)
    if not keys:
        return {}
    triggers = Trigger.objects.filter(job__job_key__in=keys, job__deleted_at__isnull=True).select_related("job")
    zones: dict[str, str] = {}
    for trigger in triggers.only("timezone", "job__job_key").order_by("created_at", "pk"):
        zones.setdefault(trigger.job.job_key, zone_of(trigger))
    return zones
