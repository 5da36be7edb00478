"""Database helpers that are the same for every app: vendors, typed row lists, outages, write transactions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

T = TypeVar("T")

IDS_PER_QUERY = 5_000
"""Most ids that one ``IN (…)`` names: SQLite takes 32,766 parameters (250,000 as Debian builds it)."""

WRITE_BATCH_ROWS = 500
"""Most rows one write transaction touches (SQLite has one writer; a long one starves the claims)."""


def connection_of(alias: str = DEFAULT_DB_ALIAS) -> BaseDatabaseWrapper:
    return connections[alias]


def is_postgresql(alias: str = DEFAULT_DB_ALIAS) -> bool:
    return connections[alias].vendor == "postgresql"


def chunks(items: Sequence[T], size: int = WRITE_BATCH_ROWS) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


@contextmanager
def write_transaction(alias: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """One transaction. On SQLite BEGIN IMMEDIATE (settings): what it reads is still true when it writes.

    What was asked of `do_last` happens at the end of the outermost one, before it commits.
    """
    is_outermost = not _last.is_open
    _last.is_open = True
    try:
        with transaction.atomic(using=alias):
            yield
            if is_outermost:
                _do_last()
    finally:
        if is_outermost:
            _last.is_open, _last.work = False, {}


class _Last(threading.local):
    """What a thread's write transaction does at its end."""

    def __init__(self) -> None:
        self.is_open = False
        self.work: dict[Callable[[list[Any]], None], dict[Hashable, None]] = {}


_last = _Last()


def do_last(work: Callable[[list[Any]], None], item: Hashable) -> None:
    """Let the write transaction in hand call ``work`` with all items that were given for it, each once, at its end.

    For locks that are to be taken after all others: whoever holds one then waits for nobody. Where no
    `write_transaction` is open it is done at once.
    """
    if not _last.is_open:
        work([item])
        return
    _last.work.setdefault(work, {})[item] = None


def _do_last() -> None:
    while _last.work:  # what is done last may ask for more
        work = next(iter(_last.work))
        work(list(_last.work.pop(work)))


def when_committed(work: Callable[..., object], *args: Any) -> None:
    """Call ``work`` when the transaction in hand is committed; where none is, at once. What it raises is logged: what
    is committed stays so, and whoever asked for it is told that."""

    # Not a `partial`: when one fails Django looks for its name to log it, and fails at that.
    @wraps(work)
    def done() -> None:
        work(*args)

    connections[DEFAULT_DB_ALIAS].on_commit(done, robust=True)


@contextmanager
def patient_for(seconds: float, alias: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """A transaction for reading, in which each statement waits so long for a lock and no longer: OperationalError then.
    SQLite's readers wait for nobody."""
    if not is_postgresql(alias):
        yield
        return
    with transaction.atomic(using=alias):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{seconds * 1000:.0f}ms"])
        yield


@contextmanager
def one_at_a_time(number: int, alias: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Of all transactions that hold ``number``, on any host, let one be here until it ends.

    Needs a write transaction; on SQLite that alone is enough.
    """
    if is_postgresql(alias):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
    yield


def row_list(name: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]], alias: str = DEFAULT_DB_ALIAS):
    """Return ``(sql, params)`` of a common table expression ``name(columns…) AS (…)`` that holds ``rows``.

    The one way in which a statement takes a list on both databases: ``WITH {sql} UPDATE t SET … FROM name WHERE …``.
    ``columns`` maps names to PostgreSQL types. PostgreSQL gets one array a column (the text of the statement does not
    depend on the number of rows); SQLite gets VALUES. ``rows`` must not be empty.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("row_list needs at least one row")
    connection = connections[alias]
    head = f"{name}({', '.join(columns)})"
    if connection.vendor == "postgresql":
        arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
        # Names and types are the caller's literals, never input.
        sql = f"{head} AS (SELECT * FROM unnest({arrays}))"  # noqa: S608
        kinds = columns.values()
        return sql, [_array(kind, column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]
    one = f"({', '.join(['%s'] * len(columns))})"
    params = [adapted(value, alias) for row in rows for value in row]
    return f"{head} AS (VALUES {', '.join([one] * len(rows))})", params


# The kinds whose values need no quotes within an array, and how a value is written there.
_UNQUOTED: dict[str, Callable[[Any], str]] = {
    "uuid": str,
    "smallint": int.__repr__,
    "integer": int.__repr__,
    "bigint": int.__repr__,
    "double precision": lambda value: repr(float(value)),
    "timestamptz": datetime.isoformat,
}


def _array(kind: str, column: Sequence[Any]) -> Any:
    """A column as one parameter. Written here where that needs no quotes: the driver looks at each value several times,
    which costs more than the statement."""
    write = _UNQUOTED.get(kind)
    if write is None:
        return list(column)
    return "{" + ",".join(["NULL" if value is None else write(value) for value in column]) + "}"


def adapted(value: Any, alias: str = DEFAULT_DB_ALIAS) -> Any:
    """Return ``value`` as a raw statement must pass it to this database (SQLite keeps instants and uuids as text)."""
    connection = connections[alias]
    if connection.vendor == "postgresql":
        return value
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, UUID):
        return value.hex
    return value


def instant_of(value: Any) -> datetime | None:
    """Return an instant that a raw statement gave (SQLite answers text) as an aware UTC datetime."""
    if value is None or isinstance(value, datetime):
        return value if value is None else value.astimezone(UTC)
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


def uuid_of(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def is_outage(error: BaseException) -> bool:
    """True when ``error`` says that the database is away or busy, not that a statement was wrong."""
    # SQLite's driver calls what it cannot do (no such column, too many variables) an OperationalError too.
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_ERROR:
        return False
    return isinstance(error, OperationalError | InterfaceError)
