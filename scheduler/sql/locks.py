"""Find and lock what has run out: the reaper's looks at the queue. Oldest first; what others have locked is theirs."""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import adapted, uuid_of
from scheduler.sql import backend


def lock_expired_leases(now: datetime, limit: int) -> list[UUID]:
    """Return the runs whose lease ended at or before ``now``. Needs a transaction."""
    return _locked("state IN (3, 4) AND lease_expires_at <= %s ORDER BY lease_expires_at", now, limit)


def lock_passed_deadlines(now: datetime, limit: int) -> list[UUID]:
    """Return the claimed runs whose deadline was at or before ``now``. Needs a transaction."""
    return _locked("state = 3 AND deadline_at <= %s ORDER BY deadline_at", now, limit)


def _locked(condition: str, now: datetime, limit: int) -> list[UUID]:
    # The states are literals: SQLite uses a partial index only where it can read its condition.
    sql = f"SELECT run_id FROM scheduler_queueentry WHERE {condition} LIMIT %s {backend().SKIP_LOCKED}"
    with connection.cursor() as cursor:
        cursor.execute(sql, [adapted(now), limit])
        return [uuid_of(run_id) for (run_id,) in cursor.fetchall()]
