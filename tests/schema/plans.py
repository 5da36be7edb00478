"""How this database would run a query."""

from __future__ import annotations

from django.db import connection


def plan_of(sql: str) -> str:
    """Return the plan as text, as it is when the tables are big (PostgreSQL reads a small one whole)."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            return "\n".join(row[3] for row in cursor.fetchall())
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN (COSTS OFF) {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())
