"""Find and lock what has run out: the reaper's looks at the queue. Oldest first; what others have locked is theirs."""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import adapted, uuid_of
from scheduler.sql import backend


def lock_expired_leases(now: datetime, limit: int, outage_ended_at: datetime | None = None) -> list[UUID]:
    """Return the runs whose lease ended at or before ``now``. Needs a transaction.

    Who had a run through an outage that ended at ``outage_ended_at`` has one lease from then on to come back.
    """
    return _locked("state IN (3, 4)", "lease_expires_at", now, limit, outage_ended_at)


def lock_passed_deadlines(now: datetime, limit: int, outage_ended_at: datetime | None = None) -> list[UUID]:
    """Return the claimed runs whose deadline was at or before ``now``; an outage counts as for the leases, for who was
    done in time could not say so. Needs a transaction."""
    return _locked("state = 3", "deadline_at", now, limit, outage_ended_at)


def _locked(states: str, column: str, now: datetime, limit: int, outage_ended_at: datetime | None) -> list[UUID]:
    spared, parameters = "", [adapted(now)]
    if outage_ended_at is not None:
        spared = "AND (claimed_at > %s OR lease_seconds <= %s)"
        parameters += [adapted(outage_ended_at), (now - outage_ended_at).total_seconds()]
    # The states are literals: SQLite uses a partial index only where it can read its condition.
    sql = (
        f"SELECT run_id FROM scheduler_queueentry WHERE {states} AND {column} <= %s {spared} "
        f"ORDER BY {column} LIMIT %s {backend().SKIP_LOCKED}"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [*parameters, limit])
        return [uuid_of(run_id) for (run_id,) in cursor.fetchall()]


def share_calendar(calendar_id: int) -> None:
    """Keep a calendar as it is until the transaction ends, with others who do the same. After the lock of a job: edits
    of a calendar lock the jobs that use it first. (SQLite: the write transaction is the lock.)"""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM calendars_calendar WHERE id = %s FOR SHARE", [calendar_id])


def share_group(group_id: int) -> bool:
    """Keep a concurrency group from being deleted or edited until the transaction ends, with others who do the same;
    False if it is gone. (SQLite: the write transaction is the lock.)"""
    lock = "FOR KEY SHARE" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM scheduler_concurrencygroup WHERE id = %s {lock}", [group_id])
        return cursor.fetchone() is not None
