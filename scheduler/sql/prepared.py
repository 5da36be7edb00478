"""The hot statements of PostgreSQL are parsed and planned once a connection; Django's own cursors do it at every call.

One plan serves any number of rows: left to itself the server would plan anew for each call that brings few. A kept plan
is as good as the sizes of the tables were when it was made. They are looked at again every second, so a queue that was
empty a moment ago is not read whole when a million runs have come.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, LiteralString
from weakref import WeakKeyDictionary

import psycopg
from django.db import connection

PLANS_KEPT_SECONDS = 1.0

_planned_at: WeakKeyDictionary[psycopg.Connection, float] = WeakKeyDictionary()


class _Prepared(psycopg.Cursor):
    """Parameters travel beside the statement, rows come back as the database keeps them."""

    def execute(self, query: LiteralString, params: Sequence[Any] | None = None, **_: Any) -> _Prepared:
        # The driver knows no text of a prepared statement: where queries are logged it is not prepared.
        return super().execute(query, params, prepare=not connection.queries_logged, binary=True)


def rows_of(text: LiteralString, parameters: Sequence[Any]) -> list[tuple]:
    """Execute a statement of ours and return its rows. Without a transaction in hand it is one by itself."""
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    raw, tick = connection.connection, time.monotonic()
    with connection.wrap_database_errors, _Prepared(raw) as cursor:
        if _planned_at.get(raw, 0.0) < tick - PLANS_KEPT_SECONDS:
            raw.prepare_threshold = 0  # Django's None forbids what `prepare` asks for; its own cursors cannot do it
            # Set again and again: a transaction that is rolled back takes it away. Only prepared statements heed it.
            raw.execute("SET plan_cache_mode = force_generic_plan; DISCARD PLANS")
            _planned_at[raw] = tick
        # By way of Django's wrapper: what is asked is logged where queries are.
        wrap = connection.make_debug_cursor if connection.queries_logged else connection.make_cursor
        wrapped = wrap(cursor)
        wrapped.execute(text, parameters)
        return cursor.fetchall()


def array(values: Iterable[Any]) -> str:
    """Numbers or uuids as an array's text: the driver would look at each of them several times."""
    return "{" + ",".join(map(str, values)) + "}"
