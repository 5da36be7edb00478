"""What happened, by whom, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from runners.models import AuditEvent


@dataclass(frozen=True)
class AuditFilter:
    """Which events; None: any. ``since`` inclusive, ``until`` exclusive. A ``tenant`` sees its own events alone."""

    tenant: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    action: str | None = None
    target_type: str | None = None
    target_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def audit_list(filters: AuditFilter, limit: int, before: tuple[datetime, int] | None = None) -> list[AuditEvent]:
    """Return at most ``limit`` events, newest first, those after ``before`` (created_at, pk)."""
    events = AuditEvent.objects.all()
    for column in ("tenant", "actor_type", "actor_id", "action", "target_type", "target_id"):
        value = getattr(filters, column)
        if value is not None:
            events = events.filter(**{column: value})
    if filters.since is not None:
        events = events.filter(created_at__gte=filters.since)
    if filters.until is not None:
        events = events.filter(created_at__lt=filters.until)
    if before is not None:
        at, pk = before
        # The first condition says nothing new: it is what the index can begin at.
        events = events.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(pk__lt=pk))
    return list(events.order_by("-created_at", "-pk")[:limit])


def history(of: str, limit: int, before: int | None = None) -> list[AuditEvent]:
    """Return at most ``limit`` edits of a definition, newest first, those under the number ``before``. ``of``: as
    `history_of` names it."""
    events = AuditEvent.objects.filter(history=of)
    if before is not None:
        events = events.filter(pk__lt=before)
    return list(events.order_by("-pk")[:limit])
