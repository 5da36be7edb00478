"""Migrate one at a time, and never at the cost of those who are at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
from django.core.management.base import CommandError
from django.db import DatabaseError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from croniq_site.kernel.lockfile import LockTaken, hold_lock

MIGRATION = 0x4D494752
"""Number of the lock of whoever migrates."""
PATIENCE_SECONDS = 600.0
LOCK_SECONDS = 3.0
"""So long a statement waits for a table: everybody who comes after it waits behind it."""
PAUSE_SECONDS = 1.0

Report = Callable[[str], None]


@contextmanager
def alone(
    connection: BaseDatabaseWrapper, report: Report, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[None]:
    """Be the one process, on any host, that migrates this database: wait while another one does.

    The lock ends with the process that has it. Raises CommandError where it was waited for too long.
    """
    take = _take_postgresql if connection.vendor == "postgresql" else _take_sqlite
    until = time.monotonic() + patience_seconds
    with ExitStack() as held:
        # Asked for again and again, and not waited for in the database: an index that the other builds beside its
        # writers waits for the end of every statement, and so for that of one of ours that waits for it.
        if not take(connection, held):
            report("Another process migrates this database: waiting for it.")
            while not take(connection, held):
                if time.monotonic() > until:
                    raise CommandError("Another process has been migrating this database for too long: look at it.")
                _pause()
        yield


def patiently(
    connection: BaseDatabaseWrapper,
    work: Callable[[], None],
    report: Report,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    lock_seconds: float = LOCK_SECONDS,
) -> None:
    """Do ``work``, which can be begun again, and begin it again where a table was in use for ``lock_seconds``.

    A statement that changes a table waits for whoever reads it, for hours where that is a pg_dump, and each claim would
    wait behind it. On SQLite there is one writer, and all of this is its own timeout's. Raises CommandError where it
    was tried for too long.
    """
    if connection.vendor != "postgresql":
        work()
        return
    until = time.monotonic() + patience_seconds
    try:
        while True:
            _wait_for_locks(connection, lock_seconds)
            try:
                work()
                return
            except OperationalError as error:
                if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                    raise
                if time.monotonic() > until:
                    raise CommandError(f"A table was in use for too long, by a pg_dump perhaps: {error}") from None
            report("A table is in use by somebody who does not end, a pg_dump perhaps: trying again.")
            _pause()
    finally:
        with suppress(DatabaseError):
            _wait_for_locks(connection, 0)


def _wait_for_locks(connection: BaseDatabaseWrapper, seconds: float) -> None:
    """Let statements wait so long for a lock; 0: as long as it takes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{int(seconds * 1000)}ms"])


def _take_postgresql(connection: BaseDatabaseWrapper, held: ExitStack) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [MIGRATION])
        is_ours = cursor.fetchone()[0]
    if is_ours:
        held.callback(_give_back, connection)
    return is_ours


def _give_back(connection: BaseDatabaseWrapper) -> None:
    # A connection that broke has given it back.
    with suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION])


def _take_sqlite(connection: BaseDatabaseWrapper, held: ExitStack) -> bool:
    try:
        held.enter_context(hold_lock(Path(f"{connection.settings_dict['NAME']}.migrate")))
    except LockTaken:
        return False
    return True


def _pause() -> None:
    threading.Event().wait(PAUSE_SECONDS)
