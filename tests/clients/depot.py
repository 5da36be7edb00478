"""Tasks of a project of its own, for the tests that enqueue and execute in their own process."""

from __future__ import annotations

from django.db import connection, transaction
from django.test import override_settings
from django_tasks import task


@task
def pack(*things: object, **more: object) -> list:
    return [list(things), more]


# It is declared where the backend of the tests is not there yet.
with override_settings(TASKS={"default": {"BACKEND": "django_tasks.backends.dummy.DummyBackend", "QUEUES": []}}):

    @task(queue_name="mail", priority=5)
    def send() -> str:
        return "sent"


class Silent(Exception):
    def __str__(self) -> str:
        raise self.args[0]("no")


@task
def broken(kind: str) -> object:
    """Return what no task may return, or raise what is hard to tell."""

    def boom() -> object:
        raise Local(lambda: None)  # which nothing pickles

    class Local(Exception):
        pass

    match kind:
        case "object":
            return object()
        case "long":
            return "x" * 60_000
        case "silent":
            raise Silent(RuntimeError)
        case "leaves":
            raise Silent(SystemExit)
        case "wordy":
            raise ValueError("x" * 1_000_000)
        case "surrogate":
            raise ValueError("half \ud800")
        case "exit":
            raise SystemExit(3)
        case _:
            return boom()


@task
def leave(what: str) -> None:
    """Leave the database's connection as no task should."""
    connection.ensure_connection()
    connection.close_at = None  # as with CONN_MAX_AGE = None
    match what:
        case "transaction":
            connection.cursor().execute("BEGIN")
        case "atomic":
            transaction.atomic().__enter__()
        case "autocommit":
            transaction.set_autocommit(False)
        case "closed":
            connection.connection.close()


@task
def look() -> bool:
    """Whether the task is in no transaction."""
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        return not (connection.in_atomic_block or connection.connection.in_transaction)
    return not (connection.in_atomic_block or connection.connection.info.transaction_status)


@task
def report() -> None:
    """Declared with a schedule by the tests that tell Croniq of it."""
