"""The tags and the tenants of jobs."""

from __future__ import annotations

from collections import Counter

from scheduler.queries.jobs import live_jobs


def tag_counts(tenant: str | None = None) -> list[tuple[str, int]]:
    """Return each tag with how many jobs carry it, in the order of the tags."""
    tags = live_jobs(tenant).exclude(tags=[]).values_list("tags", flat=True)
    return sorted(Counter(tag for row in tags for tag in set(map(str, row))).items())


def tenants() -> list[str]:
    """Return the tenants that have jobs, in their order."""
    return sorted(set(live_jobs().order_by().values_list("tenant", flat=True).distinct()))
