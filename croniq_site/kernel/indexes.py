"""Indexes for tables that are large by the time they get one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.migrations.operations import AddIndex


class AddIndexBesideWriters(AddIndexConcurrently):
    """Add an index while the processes of the version before write its table, in a migration with ``atomic = False``.

    PostgreSQL builds it beside them; SQLite knows no such thing, and there one machine is quiet while it migrates. What
    was interrupted can be asked for again: an index that it left half built, which PostgreSQL calls invalid, is built
    anew, and one that it had built stays.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            AddIndex.database_forwards(self, app_label, schema_editor, from_state, to_state)
            return
        is_valid = None if schema_editor.collect_sql else _is_valid(schema_editor.connection, self.index.name)
        if is_valid:
            return
        with _patient(schema_editor.connection):
            if is_valid is not None:
                schema_editor.remove_index(to_state.apps.get_model(app_label, self.model_name), self.index, True)
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
        else:
            AddIndex.database_backwards(self, app_label, schema_editor, from_state, to_state)


def _is_valid(connection: Any, name: str) -> bool | None:
    """Whether the index of this name is whole; None: there is none."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [f'"{name}"'])
        row = cursor.fetchone()
    return None if row is None else row[0]


@contextmanager
def _patient(connection: Any) -> Iterator[None]:
    """Wait for locks as long as it takes: nobody waits behind an index that is built beside its writers, and it waits
    for the end of every transaction that is older, a pg_dump's too."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), set_config('lock_timeout', '0', false)")
        before = cursor.fetchone()[0]
    yield
    # After a failure the connection may be of no use; who migrates sets it anew.
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])
