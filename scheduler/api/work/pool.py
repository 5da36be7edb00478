"""The few threads in which the edge talks to the database."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from croniq_site.kernel.database import is_outage, is_postgresql
from croniq_site.kernel.errors import Unavailable
from scheduler.api.work.threads import Threads

_log = logging.getLogger(__name__)

T = TypeVar("T")

CONNECTIONS_PER_CORE = 4
"""More gain nothing and cost the slowest statements a multiple (bench/FIGURES.md §2)."""
SQLITE_READERS = 2


class Pool:
    """Runs services in threads that keep their connection, with the `request_id` of who asks. On SQLite one thread
    writes: there is one writer anyway, and two of ours would only wait for each other inside the database, where
    waiting is blind.

    A database that is away or busy is `Unavailable` (503) for whoever asked, and every connection is opened anew.
    """

    def __init__(self) -> None:
        self.writers = CONNECTIONS_PER_CORE * (os.cpu_count() or 1) if is_postgresql() else 1
        self.slots = min(2, self.writers)
        self._write = Threads(self.writers, "croniq-write")
        self._read = self._write if is_postgresql() else Threads(SQLITE_READERS, "croniq-read")
        self._outages = 0
        self._mine = threading.local()
        self._connections: list[BaseDatabaseWrapper] = []

    def write(self, service: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Run a service that writes."""
        return self._write.run(copy_context().run, (self._guarded, service, arguments))

    def read(self, query: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Run what only reads: on SQLite it need not wait for the writer."""
        return self._read.run(copy_context().run, (self._guarded, query, arguments))

    def _guarded(self, service: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        self._own_connection()
        try:
            return service(*arguments)
        except Exception as error:
            if not is_outage(error):
                raise
            # The others' connections are as broken as this one; each thread opens its own anew at its next call.
            self._outages += 1
            connections[DEFAULT_DB_ALIAS].close()
            _log.warning("the database is away: %s", " ".join(str(error).split())[:200])
            raise Unavailable("The database does not answer. Try again in a moment.", retry_after_seconds=1) from error

    def _own_connection(self) -> None:
        mine, connection = self._mine, connections[DEFAULT_DB_ALIAS]
        if not hasattr(mine, "outages"):
            connection.inc_thread_sharing()  # so that `close` may close it
            self._connections.append(connection)
        elif mine.outages != self._outages:
            connection.close()
        mine.outages = self._outages

    def close(self) -> None:
        """Finish what runs, drop what waits, close the connections. Blocks for as long as the slowest statement."""
        for threads in {self._write, self._read}:
            threads.close()
        for kept in self._connections:
            kept.close()
        self._connections.clear()
