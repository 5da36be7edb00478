"""Runs of fires in and out of the queue, many a statement.

Instants are microseconds since 1970 (`scheduler.domain.occurrences.to_micro`).
"""

# ruff: noqa: S608 - what is put into the texts are table names, states and the lists of row_list, all of them ours
from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import WRITE_BATCH_ROWS, adapted, row_list, uuid_of
from scheduler.domain.occurrences import of_micro
from scheduler.models import QueueEntry, Run, Trigger

_RUN, _ENTRY, _TRIGGER = Run._meta.db_table, QueueEntry._meta.db_table, Trigger._meta.db_table
_WAITING = f"({QueueEntry.State.READY:d}, {QueueEntry.State.GATED:d}, {QueueEntry.State.HELD:d})"

_COLUMNS = {
    "run_id": "uuid",
    "job_id": "bigint",
    "lane_id": "bigint",
    "scheduled_for": "bigint",
    "occurrence_at": "bigint",
    "state": "smallint",
    "max_attempts": "integer",
    "max_losses": "integer",
    "lease_seconds": "double precision",
    "timeout_seconds": "double precision",
}


class PlannedRun(NamedTuple):
    """A fire that is to become a run; the fields in the order of the statement's columns. ``run_id``: 32 hex digits."""

    run_id: str
    job_id: int
    lane_id: int
    scheduled_for: int
    occurrence_at: int
    state: int
    max_attempts: int
    max_losses: int
    lease_seconds: float
    timeout_seconds: float


class BatchSize(NamedTuple):
    triggers: int
    runs: int


def batch_size() -> BatchSize:
    """How much one transaction plans at most: on PostgreSQL what takes about a fifth of a second, for as long as which
    an edit of one of its jobs waits."""
    return BatchSize(1000, 5000) if connection.vendor == "postgresql" else BatchSize(100, WRITE_BATCH_ROWS)


def prefer_indexes() -> None:
    """Let what this transaction does, its look at foreign keys above all, go by indexes. PostgreSQL keeps the plan of
    that look for as long as the session: made on an empty table it reads all of it for each row of the first batches.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")


def insert_planned(runs: Sequence[PlannedRun], now: datetime) -> list[PlannedRun]:
    """Insert scheduled runs and their entries; return those that were new. At most `batch_size` (on SQLite 500), within
    a transaction.

    An occurrence that has its run already, from another trigger or another materializer, makes none; one that is given
    twice makes one.
    """
    runs = each_once(runs)
    if connection.vendor == "postgresql":
        prefer_indexes()
        return _insert_at_once(runs, now)
    return _insert_in_two(runs, now)


def each_once(runs: Sequence[PlannedRun]) -> Sequence[PlannedRun]:
    """One of each id, in the order given: where triggers of a job meet, the fire with the earliest occurrence."""
    found: dict[str, PlannedRun] = {}
    for run in runs:
        other = found.setdefault(run.run_id, run)
        if run.occurrence_at < other.occurrence_at:
            found[run.run_id] = run
    return runs if len(found) == len(runs) else list(found.values())


_RUN_COLUMNS = "id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, reason, error, runner_id"
_RUN_VALUES = "run_id, job_id, 'scheduled', scheduled_for, occurrence_at, %s, 0, '', '', ''"
_ENTRY_COLUMNS = (
    "run_id, job_id, lane_id, own_lane, state, available_at, attempt, max_attempts, losses, max_losses, lease_seconds, "
    "timeout_seconds, log_bytes, waits_since"
)
_ENTRY_VALUES = (
    "run_id, job_id, lane_id, %s, state, scheduled_for, 0, max_attempts, 0, max_losses, lease_seconds, "
    "timeout_seconds, 0, CASE WHEN scheduled_for <= %s THEN scheduled_for END"
)
# No conflict is named: of two that plan one fire at the same moment the second meets its id before its occurrence.
_ONCE = "ON CONFLICT DO NOTHING"


def _insert_at_once(runs: Sequence[PlannedRun], now: datetime) -> list[PlannedRun]:
    listed, params = row_list("given", _COLUMNS, runs)
    instants = ", ".join(f"{_instant('given.' + name)} AS {name}" for name in ("scheduled_for", "occurrence_at"))
    others = ", ".join(name for name in _COLUMNS if name not in ("scheduled_for", "occurrence_at"))
    with connection.cursor() as cursor:
        cursor.execute(
            f"""WITH {listed}, planned AS MATERIALIZED (SELECT {others}, {instants} FROM given),
            new AS (INSERT INTO {_RUN} ({_RUN_COLUMNS})
                    SELECT {_RUN_VALUES} FROM planned ORDER BY job_id, scheduled_for {_ONCE} RETURNING id)
            INSERT INTO {_ENTRY} ({_ENTRY_COLUMNS})
            SELECT {_ENTRY_VALUES} FROM planned JOIN new ON id = run_id
            RETURNING run_id""",
            [*params, now, False, now],
        )
        if cursor.rowcount == len(runs):
            return list(runs)
        return _those(runs, cursor.fetchall())


def _insert_in_two(runs: Sequence[PlannedRun], now: datetime) -> list[PlannedRun]:
    listed, params = _listed(runs)
    with connection.cursor() as cursor:
        # WHERE true: SQLite would read ON as the beginning of a join.
        cursor.execute(
            f"""WITH {listed} INSERT INTO {_RUN} ({_RUN_COLUMNS})
            SELECT {_RUN_VALUES} FROM planned WHERE true ORDER BY job_id, scheduled_for {_ONCE} RETURNING id""",
            [*params, adapted(now)],
        )
        inserted = _those(runs, cursor.fetchall())
        if not inserted:
            return []
        listed, params = _listed(inserted)
        cursor.execute(
            f"WITH {listed} INSERT INTO {_ENTRY} ({_ENTRY_COLUMNS}) SELECT {_ENTRY_VALUES} FROM planned",
            [*params, False, adapted(now)],
        )
    return inserted


def _those(runs: Sequence[PlannedRun], rows: Sequence[tuple]) -> list[PlannedRun]:
    new = {uuid_of(row[0]).hex for row in rows}
    return [run for run in runs if run.run_id in new]


def _listed(runs: Sequence[PlannedRun]) -> tuple[str, list[Any]]:
    rows = [
        run._replace(scheduled_for=of_micro(run.scheduled_for), occurrence_at=of_micro(run.occurrence_at))
        for run in runs
    ]
    return row_list("planned", _COLUMNS, rows)


def _instant(micro: str) -> str:
    """The instant of a number of microseconds, exact also where a double is not."""
    seconds, rest = f"({micro} / 1000000) * interval '1 second'", f"mod({micro}, 1000000) * interval '1 microsecond'"
    return f"timestamptz 'epoch' + {seconds} + {rest}"


class CursorMove(NamedTuple):
    """Where a trigger's cursor was and is to be; the fields in the order of the statement's columns."""

    trigger_id: UUID
    was: int
    cursor_at: int
    next_materialize_at: int | None
    config_error: str


_MOVE = {"trigger_id": "uuid", "was": "bigint", "cursor_at": "bigint", "next_at": "bigint", "config_error": "text"}


def move_cursors(moves: Sequence[CursorMove]) -> int:
    """Move cursors that are where they were thought to be; return how many that is."""
    if not moves:
        return 0
    was, at, next_at = "was", "moved.cursor_at", "moved.next_at"
    if connection.vendor == "postgresql":
        listed, params = row_list("moved", _MOVE, moves)
        was, at, next_at = _instant(was), _instant(at), _instant(next_at)
    else:
        listed, params = row_list("moved", _MOVE, [_of_instants(move) for move in moves])
    with connection.cursor() as cursor:
        cursor.execute(
            f"""WITH {listed}
            UPDATE {_TRIGGER} AS t
               SET cursor_at = {at}, next_materialize_at = {next_at}, config_error = moved.config_error
              FROM moved WHERE id = trigger_id AND t.cursor_at = {was}
            RETURNING 1""",
            params,
        )
        return len(cursor.fetchall())


def _of_instants(move: CursorMove) -> tuple:
    next_at = None if move.next_materialize_at is None else of_micro(move.next_materialize_at)
    return move.trigger_id, of_micro(move.was), of_micro(move.cursor_at), next_at, move.config_error


def delete_waiting(run_ids: Collection[UUID], *, never_claimed: bool = True) -> list[UUID]:
    """Take entries out of the queue unless a claim was first; return the runs whose entry is gone. In a transaction.

    With ``never_claimed`` only those that no attempt was ever made of.
    """
    if not run_ids:
        return []
    listed, params = row_list("gone", {"run_id": "uuid"}, [(run_id,) for run_id in sorted(run_ids)])
    fresh = "AND attempt = 0" if never_claimed else ""
    found = f"FROM {_ENTRY} WHERE run_id IN (SELECT run_id FROM gone) AND state IN {_WAITING} {fresh}"
    if connection.vendor == "postgresql":
        # A DELETE takes rows as it meets them; who locks several entries, an array of acks or a cancel, does so by id.
        _run_ids(f"WITH {listed} SELECT run_id {found} ORDER BY run_id FOR UPDATE", params)
    return _run_ids(f"WITH {listed} DELETE {found} RETURNING run_id", params)


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
