"""The way from SQLite to PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import psycopg
from django.db import connection

from croniq_site.kernel.errors import Conflict
from runners.models import Heartbeat
from runners.services.audit import SYSTEM
from scheduler.queries.maintenance import current_maintenance
from scheduler.queries.trouble import SILENT
from scheduler.services.maintenance import begin_maintenance
from scheduler.services.move.tables import Table, all_tables, digest, plain_of_sqlite
from scheduler.services.move.target import Target, connected
from scheduler.services.serving import take_the_only_server

BATCH_ROWS = 2_000
MOVED = "moved to PostgreSQL"
"""The reason of the maintenance that the source is left in."""


@dataclass(frozen=True)
class Moved:
    """``rows`` of all tables; ``copied`` of them now, and not by a move that was interrupted before."""

    tables: int
    rows: int
    copied: int


def move(url: str, now: datetime, say: Callable[[str], None], *, batch: int = BATCH_ROWS) -> Moved:
    """Copy this SQLite database into the empty, migrated PostgreSQL database at ``url``, prove it, and open that.

    Can be asked for again after any interruption and goes on where that came to; the target is the source as it is
    now, or Conflict ``not_equal``. In the end the source is under maintenance: what still runs there hands out
    nothing. ``say`` gets a line a table. Raises Conflict where somebody still writes (`served`, ``already_served``),
    and as `Target.begin` and `Target.finish`.
    """
    if connection.vendor != "sqlite":
        raise Conflict("This installation is on PostgreSQL already.", code="not_sqlite")
    lock = take_the_only_server()
    try:
        _refuse_writers(now)
        _refuse_moved()
        version = _version()
        with connected(url) as target, _snapshot() as source:
            moved = _move(source, target, say, batch, version)
    finally:
        lock.close()
    begin_maintenance(now, SYSTEM, MOVED)
    return moved


def _move(source: sqlite3.Connection, target: Target, say: Callable[[str], None], batch: int, version: int) -> Moved:
    tables = all_tables()
    path = str(Path(connection.settings_dict["NAME"]).resolve())
    migrations = set(source.execute("SELECT app, name FROM django_migrations"))
    if target.begin(path, tables, migrations):
        say("Going on where the last move was interrupted.")
    copied = total = 0
    for table in tables:
        count = sum(_copy(source, target, table, batch))
        copied += count
        say(f"{table.name}: {count} rows copied")
    for table in tables:
        here, there = _digest(source, table), target.digest(table)
        if here != there:
            raise Conflict(
                f"{table.name} is not the same on both sides ({here[0]} rows here, {there[0]} there): something has "
                "written since the move began. Make a new target and begin again.",
                code="not_equal",
            )
        total += here[0]
    say(f"{total} rows are the same on both sides.")
    highest = dict(source.execute("SELECT name, seq FROM sqlite_sequence"))
    target.finish(tables, highest, lambda: _refuse_written(version))
    return Moved(len(tables), total, copied)


def _copy(source: sqlite3.Connection, target: Target, table: Table, batch: int) -> Iterator[int]:
    """Copy what lies behind the last key that the target has, and yield the size of each batch when it is there."""
    last = target.last_key(table)
    while True:
        where, values = ("", []) if last is None else (f'WHERE "{table.key.name}" > ?', [last])
        rows = source.execute(
            f'SELECT {table.names} FROM "{table.name}" {where} ORDER BY "{table.key.name}" LIMIT ?',  # noqa: S608
            [*values, batch],
        ).fetchall()
        if not rows:
            return
        try:
            target.add(table, rows)
        except psycopg.DataError as error:
            raise Conflict(
                f"PostgreSQL takes a row of {table.name} between the keys {rows[0][0]} and {rows[-1][0]} for wrong: "
                f"{' '.join(str(error).split())}",
                code="not_taken",
            ) from None
        last = rows[-1][0]
        yield len(rows)


def _refuse_written(version: int) -> None:
    """A worker that was started meanwhile, say: the snapshot shows nothing of it, nor would the target."""
    if _version() != version:
        raise Conflict(
            "Something has written to this database since the move began. Stop it and ask for the move again.",
            code="written",
        )


def _version() -> int:
    """A number that is another after each commit of anybody else's."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return cursor.fetchone()[0]


def _digest(source: sqlite3.Connection, table: Table) -> tuple[int, str]:
    rows = source.execute(f'SELECT {table.names} FROM "{table.name}" ORDER BY "{table.key.name}"')  # noqa: S608
    return digest(table.columns, rows, plain_of_sqlite)


def _refuse_writers(now: datetime) -> None:
    alive = Heartbeat.objects.filter(ended_at__isnull=True, beat_at__gt=now - SILENT).order_by("kind", "pk")
    names = [f"{beat.kind} (process {beat.pid} on {beat.host})" for beat in alive]
    if names:
        raise Conflict(
            f"Processes are at work on this database: {', '.join(names)}. Stop all of them first; one that was killed "
            f"counts as alive for {SILENT.seconds} seconds.",
            code="served",
        )


def _refuse_moved() -> None:
    """A second target would get the maintenance that the first move ended in, and hand out nothing either."""
    maintenance = current_maintenance()
    if maintenance is not None and maintenance.reason == MOVED:
        raise Conflict(
            "This installation was moved already, and is silent since. manage.py maintenance off brings it back; then "
            "it can be moved again.",
            code="moved",
        )


@contextmanager
def _snapshot() -> Iterator[sqlite3.Connection]:
    """The source as it is at this instant, for as long as the block takes; it cannot be written through it."""
    path = Path(connection.settings_dict["NAME"])
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)) as source:
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM django_migrations LIMIT 1").fetchone()
        yield source
