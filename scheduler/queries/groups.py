"""Lists of concurrency groups."""

from __future__ import annotations

from django.db.models import Q

from scheduler.models import ConcurrencyGroup


def group_list(
    *, tenant: str | None = None, limit: int, after: tuple[str, str] | None = None
) -> list[ConcurrencyGroup]:
    """Return at most ``limit`` groups by name and tenant, those after ``after``."""
    groups = ConcurrencyGroup.objects.all() if tenant is None else ConcurrencyGroup.objects.filter(tenant=tenant)
    if after is not None:
        name, of_tenant = after
        groups = groups.filter(Q(name__gt=name) | Q(name=name, tenant__gt=of_tenant))
    return list(groups.order_by("name", "tenant")[:limit])
