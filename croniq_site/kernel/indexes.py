"""Indexes for tables that are large by the time they get one."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.migrations.operations import AddIndex


class AddIndexBesideWriters(AddIndexConcurrently):
    """Add an index while the processes of the version before write its table, in a migration with ``atomic = False``.

    PostgreSQL builds it beside them; SQLite knows no such thing, and there one machine is quiet while it migrates. One
    that was interrupted leaves an index behind that PostgreSQL calls invalid: drop it, and migrate again.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        else:
            AddIndex.database_forwards(self, app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
        else:
            AddIndex.database_backwards(self, app_label, schema_editor, from_state, to_state)
