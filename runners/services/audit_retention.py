"""Throw away what the audit has kept long enough: the one way in which events go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.conf import settings

from croniq_site.kernel.database import WRITE_BATCH_ROWS, write_transaction
from runners.models import AuditCut, AuditEvent
from runners.services.audit import Event, record_events

_THE_CUT = 1
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def drop_old_events(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete the events of days that are longer ago than ``CRONIQ_AUDIT_RETENTION``, oldest first, at most ``limit``;
    return how many.

    The cut is moved first, for good, and that is audited: the database lets go only of what is older. Whole days (UTC)
    go, so that it is moved once a day.
    """
    kept = settings.CRONIQ_AUDIT_RETENTION_SECONDS
    if kept <= 0:
        return 0
    until = (now - timedelta(seconds=kept)).replace(hour=0, minute=0, second=0, microsecond=0)
    old = AuditEvent.objects.filter(created_at__lt=until).order_by("created_at", "pk")
    if not old.exists():
        return 0
    with write_transaction():
        _move_cut(until, now)
        # What another reaper deletes in this moment is left to it.
        ids = list(old.select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit])
        return AuditEvent.objects.filter(pk__in=ids, created_at__lt=until).delete()[0]


def _move_cut(until: datetime, now: datetime) -> None:
    # Of two that make it at once the database lets one through; then they take turns by its lock.
    AuditCut.objects.bulk_create([AuditCut(pk=_THE_CUT, until=_BEGINNING)], ignore_conflicts=True)
    before = AuditCut.objects.select_for_update().get(pk=_THE_CUT).until
    if before >= until:
        return
    AuditCut.objects.filter(pk=_THE_CUT).update(until=until)
    diff = {"until": [None if before == _BEGINNING else before.isoformat(), until.isoformat()]}
    record_events([Event("audit.pruned", "site", "audit", diff=diff)], now)
