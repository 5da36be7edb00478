"""Races told as stories: several real connections, and the interleaving forced by hand.

Tests that use these need `@pytest.mark.django_db(transaction=True)`: other connections see only what is committed.

    with Session() as a, Session() as b:          # two clients, each with a thread and a connection of its own
        a.begin()
        a.run(lambda: claim_due(now, ...))        # done, not committed
        answer = b.start(lambda: claim_due(...))  # a Future; b may wait for a's lock
        a.commit()
        assert answer.result(10) == ...

    results = together([claim, claim, claim])     # all three leave one barrier at the same moment
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connection, connections, transaction

T = TypeVar("T")

DEADLINE_SECONDS = 30.0


def in_thread(fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
    """Start `fn` in a thread with its own database connection, closed when `fn` ends; return its Future."""
    future: Future[T] = Future()

    def body() -> None:
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:  # the Future carries it to the test
            connections.close_all()
            future.set_exception(error)
        else:
            connections.close_all()
            future.set_result(result)

    threading.Thread(target=body, name=f"race-{getattr(fn, '__name__', 'fn')}", daemon=True).start()
    return future


def together(fns: Iterable[Callable[[], T]], *, deadline_s: float = DEADLINE_SECONDS) -> list[T]:
    """Run all at the same moment, each in a thread with an open connection; return their results in the given order.

    The first exception, in that order, is raised once all have ended.
    """
    fns = list(fns)
    barrier = threading.Barrier(len(fns))

    def body(fn: Callable[[], T]) -> T:
        connection.ensure_connection()  # connecting takes longer than most races; it belongs before the barrier
        barrier.wait(deadline_s)
        return fn()

    futures = [in_thread(body, fn) for fn in fns]
    outcomes = [future.exception(deadline_s) for future in futures]
    for error in outcomes:
        if error is not None:
            raise error
    return [future.result(0) for future in futures]


class Session:
    """A client of the database with a thread and a connection of its own, led step by step by the test.

    Leaving the block rolls back what is open and closes the connection.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="session")
        self._atomic: transaction.Atomic | None = None

    def __enter__(self) -> Session:
        self.run(lambda: connection.ensure_connection())  # a lambda: `connection.x` is looked up where it is written
        return self

    def __exit__(self, *_: object) -> None:
        if self._atomic is not None:
            self.rollback()
        self.run(connections.close_all)
        self._thread.shutdown(wait=True)

    def start(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Begin `fn` in the session and return at once; it may wait for another session's lock."""
        return self._thread.submit(fn, *args, **kwargs)

    def run(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Do `fn` in the session and return its result."""
        return self.start(fn, *args, **kwargs).result(DEADLINE_SECONDS)

    def begin(self) -> None:
        """Open a transaction that stays open between steps."""
        assert self._atomic is None, "the session is in a transaction already"
        self._atomic = transaction.atomic()
        self.run(self._atomic.__enter__)

    def commit(self) -> None:
        """Commit the open transaction."""
        self._leave(None)

    def rollback(self) -> None:
        """Roll the open transaction back."""
        self._leave(_RolledBack())

    def _leave(self, error: BaseException | None) -> None:
        atomic, self._atomic = self._atomic, None
        assert atomic is not None, "the session is in no transaction"
        self.run(atomic.__exit__, type(error) if error else None, error, None)

    @property
    def backend_pid(self) -> int:
        """PostgreSQL only: the server process of this connection. Ask while the session is idle."""
        return self.run(_backend_pid)


def _backend_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


class _RolledBack(Exception):
    """Makes the open transaction roll back; never leaves this file."""


def is_waiting_for_lock(backend_pid: int) -> bool:
    """PostgreSQL only: say whether that server process waits for a lock another session holds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [backend_pid])
        return bool(cursor.fetchone()[0])
