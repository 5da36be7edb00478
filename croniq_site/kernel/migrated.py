"""Whether the database has the tables of this version; commands that need them say so in a sentence."""

from __future__ import annotations

from functools import lru_cache

from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from croniq_site.kernel.database import is_outage

UNFINISHED_MOVE = "croniq_unfinished_move"
"""A table that is there while a database is filled from another one, which is when nothing may work on it."""


def pending_migrations() -> list[str]:
    """The names of the migrations that the database lacks."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def lacking_migrations() -> list[str]:
    """As `pending_migrations`, in two short queries: for whoever asks again and again. The code's own are read once."""
    applied = MigrationRecorder(connection).applied_migrations()
    return [f"{app}.{name}" for app, name in sorted(_migrations_of_the_code() - applied.keys())]


@lru_cache(maxsize=1)
def _migrations_of_the_code() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).graph.nodes)


def require_migrated(*, waits: bool = False) -> None:
    """Raise a `CommandError` where migrations are missing or the database cannot be opened.

    With ``waits`` one that is away is no error: its worker waits until it is back.
    """
    try:
        pending = pending_migrations()
        is_filled = connection.vendor == "postgresql" and _is_filled()
    except DatabaseError as error:
        if waits and is_outage(error):
            return
        raise CommandError(f"The database cannot be opened: {' '.join(str(error).split())}") from None
    if is_filled:
        raise CommandError(
            "This database is the target of a move that is not finished. Run manage.py move_to_postgres again on the "
            "installation that moves."
        )
    if pending:
        number = f"{len(pending)} migration{'' if len(pending) == 1 else 's'}"
        raise CommandError(f"The database lacks {number}. Run manage.py migrate.")


def _is_filled() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [UNFINISHED_MOVE])
        return cursor.fetchone()[0]
