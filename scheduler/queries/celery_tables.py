"""The tables of django-celery-beat in another application's database. Read only, by plain SELECTs, without Celery."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import environ
from django.core.exceptions import ImproperlyConfigured
from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.celery_beat import MOST_TASKS, Tables

FIELD = "database_url"
PREFIX = "django_celery_beat_"
_SCHEDULES = ("crontabschedule", "intervalschedule", "clockedschedule")
_KINDS = {"sqlite": "sqlite3", "postgres": "postgresql", "postgresql": "postgresql", "pgsql": "postgresql"}
_READ_ONLY = {
    "postgresql": {"options": "-c default_transaction_read_only=on", "connect_timeout": 10},
    "sqlite3": {},
}


def read_celery_tables(url: str) -> Tables:
    """Read the periodic tasks and their schedules, of any version of django-celery-beat since 1.0.

    Refuses (`InvalidInput` ``database_url``) what is no database of SQLite or PostgreSQL, or has no such tables, or
    more than 5,000 tasks.
    """
    try:
        with _connected(url) as connection, connection.cursor() as cursor:
            there = set(connection.introspection.table_names(cursor))
            if f"{PREFIX}periodictask" not in there:
                raise InvalidInput.of(FIELD, f"The database has no table {PREFIX}periodictask.")
            tasks = _rows(cursor, "periodictask", limit=MOST_TASKS + 1)
            crontabs, intervals, clocked = (
                {row["id"]: row for row in _rows(cursor, name)} if PREFIX + name in there else {} for name in _SCHEDULES
            )
    except (Error, ImproperlyConfigured, OSError) as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise InvalidInput.of(FIELD, f"The database cannot be read: {why[0][:300]}") from error
    if len(tasks) > MOST_TASKS:
        raise InvalidInput.of(FIELD, f"The database has more than {MOST_TASKS} periodic tasks.")
    return Tables(tasks, crontabs, intervals, clocked)


def _rows(cursor: Any, name: str, limit: int | None = None) -> list[dict[str, Any]]:
    # All columns: which there are depends on the version.
    cursor.execute(f"SELECT * FROM {PREFIX}{name} ORDER BY id" + (f" LIMIT {limit:d}" if limit else ""))  # noqa: S608
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


@contextmanager
def _connected(url: str) -> Iterator[BaseDatabaseWrapper]:
    kind = _KINDS.get(url.partition(":")[0])
    if kind is None:
        raise InvalidInput.of(
            FIELD, "Only SQLite and PostgreSQL are read: sqlite:////path/db, postgres://user@host/name."
        )
    try:
        config = environ.Env.db_url_config(url)
    except (ValueError, ImproperlyConfigured) as error:
        raise InvalidInput.of(FIELD, "It is no URL such as postgres://user@host/name or sqlite:////path/db.") from error
    if kind == "sqlite3":
        path = Path(config["NAME"])
        if not path.is_file():  # else it would be made
            raise InvalidInput.of(FIELD, f"There is no file {path}.")
        config["NAME"] = f"file:{quote(str(path.resolve()))}?mode=ro"
    config["OPTIONS"] = {**config.get("OPTIONS", {}), **_READ_ONLY[kind]}
    handler = ConnectionHandler({"default": config})
    connection = handler["default"]
    try:
        yield connection
    finally:
        connection.close()
