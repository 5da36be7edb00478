"""Whether the database has the tables of this version; commands that need them say so in a sentence."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from croniq_site.kernel.database import is_outage


def pending_migrations() -> list[str]:
    """The names of the migrations that the database lacks."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def require_migrated(*, waits: bool = False) -> None:
    """Raise a `CommandError` where migrations are missing or the database cannot be opened.

    With ``waits`` one that is away is no error: its worker waits until it is back.
    """
    try:
        pending = pending_migrations()
    except DatabaseError as error:
        if waits and is_outage(error):
            return
        raise CommandError(f"The database cannot be opened: {' '.join(str(error).split())}") from None
    if pending:
        number = f"{len(pending)} migration{'' if len(pending) == 1 else 's'}"
        raise CommandError(f"The database lacks {number}. Run manage.py migrate.")
