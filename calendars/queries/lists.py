"""Lists of calendars."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from calendars.models import Calendar


def calendar_list(*, tenant: str | None = None, limit: int, after: tuple[str, int] | None = None) -> list[Calendar]:
    """Return at most ``limit`` calendars with their rules, by name and id, those after ``after``. Two queries."""
    calendars = _of_tenant(tenant)
    if after is not None:
        name, calendar_id = after
        calendars = calendars.filter(Q(name__gt=name) | Q(name=name, id__gt=calendar_id))
    return list(calendars.order_by("name", "id")[:limit])


def calendar_detail(calendar_id: int, tenant: str | None = None) -> Calendar | None:
    """Return one calendar with its rules; None if there is none or it is another tenant's."""
    return _of_tenant(tenant).filter(id=calendar_id).first()


def _of_tenant(tenant: str | None) -> QuerySet[Calendar]:
    calendars = Calendar.objects.prefetch_related("rules")
    return calendars if tenant is None else calendars.filter(tenant=tenant)
