"""The PostgreSQL database that a move fills: empty and migrated before, unusable during, as any other afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb

from croniq_site.kernel.errors import Conflict, InvalidInput, Unavailable
from croniq_site.kernel.migrated import UNFINISHED_MOVE
from scheduler.services.move.tables import (
    FILLED_BY_MIGRATE,
    Column,
    Table,
    as_postgresql_reads,
    digest,
    plain_of_postgresql,
)

MOVE = 0x4D4F5645
"""Number of the lock that one move at a time holds on its target."""
LOCK_TIMEOUT = "30s"
"""A move that was killed a moment ago still holds it until the server notices."""
ROWS_AT_A_TIME = 5_000
_NO_URL = "--to is a URL such as postgres://USER:PASSWORD@HOST:PORT/NAME (in a password @ is %40, / is %2F, % is %25)."
_MARKER = sql.Identifier(UNFINISHED_MOVE)
_FOREIGN_KEYS = """
SELECT c.conrelid::regclass::text, quote_ident(c.conname), pg_get_constraintdef(c.oid) FROM pg_constraint c
JOIN pg_class t ON t.oid = c.conrelid WHERE c.contype = 'f' AND t.relname = ANY(%s) AND pg_table_is_visible(t.oid)
ORDER BY 1, 2
"""


@contextmanager
def connected(url: str) -> Iterator[Target]:
    """Open the database that ``url`` names and keep other moves away from it. InvalidInput ``to``: it is no URL."""
    try:
        # The driver takes what follows the first @ for the host, and says so: the end of a password that has one.
        if not url.startswith(("postgres://", "postgresql://")) or url.partition("?")[0].count("@") > 1:
            raise psycopg.ProgrammingError
        conninfo_to_dict(url)
    except psycopg.Error:
        # The URL may hold a password: it is not repeated.
        raise InvalidInput.of("to", _NO_URL) from None
    try:
        connection = psycopg.connect(url, autocommit=True, options=f"-c lock_timeout={LOCK_TIMEOUT} -c timezone=UTC")
    except psycopg.OperationalError as error:
        raise Unavailable(f"The PostgreSQL database cannot be opened: {' '.join(str(error).split())}") from None
    with connection:
        try:
            connection.execute("SELECT pg_advisory_lock(%s)", [MOVE])
        except psycopg.errors.LockNotAvailable:
            raise Conflict("Another move fills this database at the moment.", code="moving") from None
        yield Target(connection)


class Target:
    """The statements of a move on its target. Each method that writes is one transaction."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def begin(self, source: str, tables: list[Table], migrations: set[tuple[str, str]]) -> bool:
        """Make the target ready for the rows of ``source``; True: it was, and has some of them already.

        Foreign keys are put aside, to be made again, and checked, at the end. Raises Conflict ``not_migrated``,
        ``not_empty``, ``other_source``.
        """
        self._check_migrations(migrations)
        if self._one("SELECT to_regclass(%s) IS NOT NULL", [UNFINISHED_MOVE]):
            begun = self._one(sql.SQL("SELECT source FROM {}").format(_MARKER))
            if begun != source:
                raise Conflict(f"This database is being filled from {begun}. Finish that first.", code="other_source")
            return True
        with self._connection.transaction():
            keys = self._connection.execute(_FOREIGN_KEYS, [[table.name for table in tables]]).fetchall()
            self._connection.execute(
                sql.SQL("CREATE TABLE {} (source text, began_at timestamptz, foreign_keys jsonb)").format(_MARKER)
            )
            self._connection.execute(
                sql.SQL("INSERT INTO {} VALUES (%s, clock_timestamp(), %s)").format(_MARKER), [source, Jsonb(keys)]
            )
            for table, name, _ in keys:  # as the database quotes them
                self._connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
            for table in tables:
                name = sql.Identifier(table.name)
                if table.name in FILLED_BY_MIGRATE:
                    self._connection.execute(sql.SQL("DELETE FROM {}").format(name))
                elif self._one(sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(name)):
                    raise Conflict(
                        f"The PostgreSQL database is not empty: {table.name} has rows. Make a new one and migrate it.",
                        code="not_empty",
                    )
        return False

    def last_key(self, table: Table) -> Any:
        """The largest key that is there, as SQLite keeps it; None: the table is empty."""
        last = self._connection.execute(
            f'SELECT "{table.key.name}" FROM "{table.name}" ORDER BY {table.key_order} DESC LIMIT 1'  # noqa: S608
        ).fetchone()
        return None if last is None else plain_of_postgresql(table.key.kind, last[0])

    def add(self, table: Table, rows: Iterable[tuple]) -> None:
        """Add rows as SQLite keeps them, all or none."""
        kinds = [column.kind for column in table.columns]
        with (
            self._connection.transaction(),
            self._connection.cursor() as cursor,
            cursor.copy(f'COPY "{table.name}" ({table.names}) FROM STDIN') as copy,
        ):
            for row in rows:
                copy.write_row([as_postgresql_reads(kind, value) for kind, value in zip(kinds, row, strict=True)])

    def digest(self, table: Table) -> tuple[int, str]:
        names = ", ".join(map(_as_read, table.columns))
        with self._connection.transaction(), self._connection.cursor(name="croniq_move") as cursor:
            cursor.itersize = ROWS_AT_A_TIME
            cursor.execute(f'SELECT {names} FROM "{table.name}" ORDER BY {table.key_order}')  # noqa: S608
            return digest(table.columns, cursor, plain_of_postgresql)

    def finish(self, tables: list[Table], highest: dict[str, int], last_look: Callable[[], None]) -> None:
        """Make the foreign keys again, which checks all rows, go on with the numbers after ``highest`` of each table,
        and let processes start here, unless ``last_look`` raises. Raises Conflict ``not_sound`` where a row refers to
        nothing."""
        # Statistics of empty tables would make slow plans until autovacuum comes by. Before the end and not after it:
        # the source is silenced next, and whoever interrupts a move here can ask for it again.
        self._connection.execute("ANALYZE")
        (keys,) = self._connection.execute(sql.SQL("SELECT foreign_keys FROM {}").format(_MARKER)).fetchone()
        try:
            with self._connection.transaction():
                for table, name, definition in keys:
                    self._connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
                for table in tables:
                    if table.is_numbered:
                        number = highest.get(table.name, 0)
                        self._connection.execute(
                            "SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)",
                            [f'"{table.name}"', table.key.name, max(1, number), number > 0],
                        )
                last_look()
                self._connection.execute(sql.SQL("DROP TABLE {}").format(_MARKER))
        except psycopg.errors.ForeignKeyViolation as error:
            raise Conflict(f"A row refers to nothing: {error.diag.message_detail}", code="not_sound") from None

    def _check_migrations(self, wanted: set[tuple[str, str]]) -> None:
        if not self._one("SELECT to_regclass('django_migrations') IS NOT NULL"):
            applied = set()
        else:
            applied = set(self._connection.execute("SELECT app, name FROM django_migrations").fetchall())
        if applied != wanted:
            raise Conflict(
                "The PostgreSQL database has other migrations than this one. With this version of Croniq run "
                "manage.py migrate on both (DATABASE_URL says on which).",
                code="not_migrated",
            )

    def _one(self, query: str | sql.Composed, parameters: list | None = None) -> Any:
        return self._connection.execute(query, parameters).fetchone()[0]


def _as_read(column: Column) -> str:
    return f'"{column.name}"::text' if column.kind == "JSONField" else f'"{column.name}"'
