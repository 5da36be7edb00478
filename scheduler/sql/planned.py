"""Runs of fires in and out of the queue, many a statement. One text for both databases, over `row_list`."""

# ruff: noqa: S608 - what is put into the texts are table names, states and the lists of row_list, all of them ours
from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import adapted, row_list, uuid_of
from scheduler.models import QueueEntry, Run, Trigger

_RUN, _ENTRY, _TRIGGER = Run._meta.db_table, QueueEntry._meta.db_table, Trigger._meta.db_table
_WAITING = f"({QueueEntry.State.READY:d}, {QueueEntry.State.GATED:d}, {QueueEntry.State.HELD:d})"

_COLUMNS = {
    "run_id": "uuid",
    "job_id": "bigint",
    "lane_id": "bigint",
    "scheduled_for": "timestamptz",
    "occurrence_at": "timestamptz",
    "state": "smallint",
    "max_attempts": "integer",
    "max_losses": "integer",
    "lease_seconds": "double precision",
    "timeout_seconds": "double precision",
}


class PlannedRun(NamedTuple):
    """A fire that is to become a run; the fields in the order of the statement's columns."""

    run_id: UUID
    job_id: int
    lane_id: int
    scheduled_for: datetime
    occurrence_at: datetime
    state: int
    max_attempts: int
    max_losses: int
    lease_seconds: float
    timeout_seconds: float


def insert_planned(runs: Sequence[PlannedRun], now: datetime) -> list[PlannedRun]:
    """Insert scheduled runs and their entries; return those that were new. At most 500, within a transaction.

    An occurrence that has its run already, from another trigger or another materializer, makes none.
    """
    listed, params = row_list("planned", _COLUMNS, runs)
    with connection.cursor() as cursor:
        # WHERE true: SQLite would read ON as the beginning of a join. No conflict is named: of two that plan one fire
        # at the same moment the second meets its id before its occurrence.
        cursor.execute(
            f"""WITH {listed}
            INSERT INTO {_RUN} (id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, reason, error,
                                runner_id)
            SELECT run_id, job_id, 'scheduled', scheduled_for, occurrence_at, %s, 0, '', '', ''
              FROM planned WHERE true ORDER BY job_id, scheduled_for
            ON CONFLICT DO NOTHING
            RETURNING id""",
            [*params, adapted(now)],
        )
        new = {uuid_of(row[0]) for row in cursor.fetchall()}
        inserted = [run for run in runs if run.run_id in new]
        if not inserted:
            return []
        listed, params = row_list("planned", _COLUMNS, inserted)
        cursor.execute(
            f"""WITH {listed}
            INSERT INTO {_ENTRY} (run_id, job_id, lane_id, own_lane, state, available_at, attempt, max_attempts, losses,
                                  max_losses, lease_seconds, timeout_seconds, log_bytes, waits_since)
            SELECT run_id, job_id, lane_id, %s, state, scheduled_for, 0, max_attempts, 0, max_losses, lease_seconds,
                   timeout_seconds, 0, CASE WHEN scheduled_for <= %s THEN scheduled_for END
              FROM planned""",
            [*params, False, adapted(now)],
        )
    return inserted


class CursorMove(NamedTuple):
    """Where a trigger's cursor was and is to be; the fields in the order of the statement's columns."""

    trigger_id: UUID
    was: datetime
    cursor_at: datetime
    next_materialize_at: datetime | None
    config_error: str


_MOVE = {
    "trigger_id": "uuid",
    "was": "timestamptz",
    "cursor_at": "timestamptz",
    "next_at": "timestamptz",
    "config_error": "text",
}


def move_cursors(moves: Sequence[CursorMove]) -> int:
    """Move cursors that are where they were thought to be; return how many that is."""
    if not moves:
        return 0
    listed, params = row_list("moved", _MOVE, moves)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""WITH {listed}
            UPDATE {_TRIGGER} AS t
               SET cursor_at = moved.cursor_at, next_materialize_at = moved.next_at, config_error = moved.config_error
              FROM moved WHERE id = trigger_id AND t.cursor_at = was
            RETURNING id""",
            params,
        )
        return len(cursor.fetchall())


def delete_waiting(run_ids: Collection[UUID], *, never_claimed: bool = True) -> list[UUID]:
    """Take entries out of the queue unless a claim was first; return the runs whose entry is gone. In a transaction.

    With ``never_claimed`` only those that no attempt was ever made of.
    """
    if not run_ids:
        return []
    listed, params = row_list("gone", {"run_id": "uuid"}, [(run_id,) for run_id in sorted(run_ids)])
    fresh = "AND attempt = 0" if never_claimed else ""
    return _run_ids(
        f"""WITH {listed}
        DELETE FROM {_ENTRY} WHERE run_id IN (SELECT run_id FROM gone) AND state IN {_WAITING} {fresh}
        RETURNING run_id""",
        params,
    )


def delete_runs(run_ids: Collection[UUID]) -> None:
    """Delete runs that never began; their entries are gone already (`delete_waiting` said so)."""
    if run_ids:
        listed, params = row_list("gone", {"id": "uuid"}, [(run_id,) for run_id in run_ids])
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH {listed} DELETE FROM {_RUN} WHERE id IN (SELECT id FROM gone) AND verdict IS NULL", params
            )


def close_runs(run_ids: Collection[UUID], verdict: str, reason: str, now: datetime) -> None:
    """End runs that wait no more (`delete_waiting` said so) as ``cancelled`` or ``skipped``."""
    if run_ids:
        Run.objects.filter(pk__in=list(run_ids), verdict__isnull=True).update(
            verdict=verdict, problem=verdict, reason=reason, finished_at=now
        )


def _run_ids(sql: str, params: list[Any]) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return [uuid_of(row[0]) for row in cursor.fetchall()]
