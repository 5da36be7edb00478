"""How this database would run a query."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection


def forget_size(table: str) -> None:
    """Make PostgreSQL plan for ``table`` as if it had never been counted, until the end of the test's transaction.

    What is known of its size is left by whichever tests came before: autoanalyze, and any ANALYZE, which a roll back
    does not undo. For a table that is known to be tiny the planner takes any index.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            name = connection.ops.quote_name(table)
            cursor.execute(f"ALTER TABLE {name} DISABLE TRIGGER USER")
            cursor.execute(f"TRUNCATE {name} CASCADE")
            cursor.execute(f"ALTER TABLE {name} ENABLE TRIGGER USER")
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])


def plans_of(ask: Callable[[], object]) -> list[str]:
    """Return the plans of what ``ask`` reads, with its values bound as they are: what SQLite makes of a text that has
    them in it may be better than what it does."""
    asked = []

    def listen(execute, sql, parameters, many, context):
        asked.append((sql, parameters))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(listen):
        ask()
    return [plan_of(sql, parameters) for sql, parameters in asked if sql.startswith(("SELECT", "WITH"))]


def plan_of(sql: str, parameters: object = None) -> str:
    """Return the plan as text, as it is when the tables are big (PostgreSQL reads a small one whole)."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
            return "\n".join(row[3] for row in cursor.fetchall())
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN (COSTS OFF) {sql}", parameters)
        return "\n".join(line for (line,) in cursor.fetchall())
