"""What a test has committed goes away after it. Django's flush truncates every table and makes all permissions and
roles anew, a quarter of a second on PostgreSQL; here what a whole flush leaves is remembered, and what is beside it is
deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase

AUDIT, CUT = "runners_auditevent", "runners_auditcut"
MOST_DELETED = 5_000
"""Rows deleted since the last whole flush: what they leave in the files is read by those who look for others."""

WHOLE = TransactionTestCase._fixture_teardown
"""Django's own, which tests/conftest.py replaces."""

Rows = list[tuple[Any, ...]]


class Flusher:
    """Empties the default database; a whole flush whenever this is not certain to come to the same."""

    def __init__(self) -> None:
        self.left: dict[str, Rows] | None = None
        """Table → rows, of those that a whole flush leaves with any; None before the first one."""
        self.tables: list[str] = []
        self.deleted = 0

    def teardown(self, whole: Callable[[TransactionTestCase], None], case: TransactionTestCase) -> None:
        """Do what ``whole``, Django's own, does after a test."""
        is_ours = case.databases == {DEFAULT_DB_ALIAS} and case.available_apps is None and not case.serialized_rollback
        connection = connections[DEFAULT_DB_ALIAS]
        if is_ours and self._deleted(connection):
            return
        whole(case)
        if is_ours:
            self._remember(connection)

    def _remember(self, connection: BaseDatabaseWrapper) -> None:
        self.tables = sorted(connection.introspection.django_table_names(only_existing=True, include_views=False))
        with connection.cursor() as cursor:
            self.left = {table: _rows(cursor, connection, table) for table in _filled(cursor, connection, self.tables)}
        self.deleted = 0

    def _deleted(self, connection: BaseDatabaseWrapper) -> bool:
        """Delete what is beside what a whole flush left; False, and nothing done, if that takes a whole one."""
        if self.left is None or self.deleted > MOST_DELETED:
            return False
        quoted = connection.ops.quote_name
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                if connection.vendor == "postgresql":
                    # As TRUNCATE does: whoever still writes is waited for.
                    cursor.execute(f"LOCK TABLE {', '.join(map(quoted, self.tables))} IN ACCESS EXCLUSIVE MODE")
                filled = _filled(cursor, connection, self.tables)
                if any(_rows(cursor, connection, table) != rows for table, rows in self.left.items()):
                    return False
                if AUDIT in filled:
                    # The guard lets go of what is older than the cut: of all there is, then.
                    cursor.execute(f"DELETE FROM {quoted(CUT)}")
                    cursor.execute(f"INSERT INTO {quoted(CUT)} (until) VALUES ('9999-12-31 23:59:59.999999+00:00')")
                for table in (AUDIT, CUT, *filled):
                    if table not in self.left:
                        cursor.execute(f"DELETE FROM {quoted(table)}")
                        self.deleted += cursor.rowcount
        except DatabaseError:
            return False
        return True


def _filled(cursor: Any, connection: BaseDatabaseWrapper, tables: list[str]) -> list[str]:
    """Those of ``tables`` that have rows."""
    quoted = connection.ops.quote_name
    asked = (f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {quoted(table)})" for table in tables)
    cursor.execute(" UNION ALL ".join(asked))
    return [table for (table,) in cursor.fetchall()]


def _rows(cursor: Any, connection: BaseDatabaseWrapper, table: str) -> Rows:
    cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)} ORDER BY 1")
    return cursor.fetchall()


def teardown_of_tests() -> Callable[[TransactionTestCase], None]:
    """Return what stands in the place of `TransactionTestCase._fixture_teardown`."""
    flusher = Flusher()
    return lambda case: flusher.teardown(WHOLE, case)
