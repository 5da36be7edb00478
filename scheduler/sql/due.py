"""Take the triggers that are due to be planned: many a statement, as rows of whole numbers and not as models.

Instants are microseconds since 1970: of a pass over 100,000 triggers, reading them as objects and writing them again
was the greater part.
"""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import adapted
from scheduler.domain.occurrences import to_micro


class DueJob(NamedTuple):
    """Of a locked job what its new runs take from it, by the names of `Job`."""

    pk: int
    job_key: str
    tenant: str
    lane_id: int
    paused_at: datetime | None  # without its zone on SQLite
    max_concurrent: int | None
    concurrency_group_id: int | None
    overlap: str
    max_retries: int
    max_losses: int
    lease_seconds: float
    timeout_seconds: float


class DueTrigger(NamedTuple):
    """A locked trigger; ``is_plain``: it fires again and again, and neither calendar nor window nor bounds
    decide about its fires."""

    pk: UUID
    kind: str
    cron_expression: str
    every: int | None
    anchor_at: int | None
    timezone: str
    created_at: int
    cursor_at: int
    config_error: str
    is_plain: bool
    job: DueJob


_JOB_COLUMNS = [f"j.{name}" if name != "pk" else "j.id" for name in DueJob._fields]
_TRIGGER_COLUMNS = "t.id", "t.kind", "t.cron_expression", "{every}", "{anchor_at}", "t.timezone", "{created_at}"
_IS_PLAIN = (
    "t.kind <> 'once' AND t.calendar_id IS NULL AND t.window_start IS NULL AND t.window_end IS NULL "
    "AND t.not_before IS NULL AND t.not_after IS NULL"
)
_LIVE = "t.enabled AND j.is_active AND j.deleted_at IS NULL"
_JOINED = "scheduler_trigger t JOIN scheduler_job j ON j.id = t.job_id"


def lock_due_triggers(now: datetime, limit: int, only: UUID | None = None) -> list[DueTrigger]:
    """Lock at most ``limit`` triggers that are due, longest due first, and their jobs. What another materializer or an
    edit has in hand is left out. Needs a transaction. (SQLite: that is the lock.)"""
    if connection.vendor == "postgresql":
        columns = {
            name: f"(extract(epoch FROM t.{name}) * 1000000)::bigint"
            for name in ("every", "anchor_at", "created_at", "cursor_at")
        }
        lock = "FOR NO KEY UPDATE OF t, j SKIP LOCKED"
    else:
        columns = {name: f"t.{name}" for name in ("every", "anchor_at", "created_at", "cursor_at")}
        lock = ""
    chosen = ", ".join([*_TRIGGER_COLUMNS, "{cursor_at}", "t.config_error", _IS_PLAIN]).format(**columns)
    alone, parameters = ("", []) if only is None else ("AND t.id = %s", [adapted(only)])
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(_JOB_COLUMNS)}, {chosen} FROM {_JOINED} "
            f"WHERE {_LIVE} AND t.next_materialize_at <= %s {alone} "
            f"ORDER BY t.next_materialize_at LIMIT %s {lock}",
            [adapted(now), *parameters, limit],
        )
        rows = cursor.fetchall()
    end = len(_JOB_COLUMNS)
    read = _as_it_is if connection.vendor == "postgresql" else _of_sqlite
    return [DueTrigger(*read(row[end:]), DueJob._make(row[:end])) for row in rows]


def _as_it_is(row: tuple) -> tuple:
    return row


def _of_sqlite(row: tuple) -> tuple:
    pk, kind, expression, every, anchor_at, timezone, created_at, cursor_at, config_error, is_plain = row
    anchor_at = None if anchor_at is None else _micro(anchor_at)
    created_at, cursor_at = _micro(created_at), _micro(cursor_at)
    return UUID(pk), kind, expression, every, anchor_at, timezone, created_at, cursor_at, config_error, bool(is_plain)


def _micro(naive: datetime) -> int:
    return to_micro(naive.replace(tzinfo=UTC))


def next_due_at() -> datetime | None:
    """When the next trigger is due to be planned; None if there is none."""
    with connection.cursor() as cursor:
        # The first of the index; an aggregate over the join would read all.
        cursor.execute(
            f"SELECT t.next_materialize_at FROM {_JOINED} WHERE {_LIVE} AND t.next_materialize_at IS NOT NULL "
            "ORDER BY t.next_materialize_at LIMIT 1"
        )
        row = cursor.fetchone()
    if row is None:
        return None
    return row[0] if row[0].tzinfo is not None else row[0].replace(tzinfo=UTC)
