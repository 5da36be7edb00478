"""What a migration takes from the processes of the version before, which go on until the new ones have started."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.migrations import Migration, operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Field

APPS = ("calendars", "runners", "scheduler")
FIRST_RELEASE = {
    "calendars": "0002_calendars_of_the_jobs_file",
    "runners": "0008_preferences",
    "scheduler": "0011_alert_conditions_and_exemptions",
}
"""The newest migration of each app in the first release. Whatever comes after it meets processes that are at work."""

TAKES_AWAY = (
    operations.AlterModelTable,
    operations.DeleteModel,
    operations.RemoveField,
    operations.RenameField,
    operations.RenameModel,
)
BIG = {
    ("runners", "auditevent"),
    ("scheduler", "attempt"),
    ("scheduler", "deadletter"),
    ("scheduler", "queueentry"),
    ("scheduler", "run"),
    ("scheduler", "runlog"),
    ("scheduler", "skippedspan"),
}
"""Tables that grow with what runs: to build an index takes minutes there, and whoever writes waits for its end."""
BESIDE = "writers wait while its index is built: AddIndexBesideWriters, in a migration with atomic = False"
OPAQUE = (operations.RunPython, operations.RunSQL)


def ordered(loader: MigrationLoader) -> Iterator[Migration]:
    """Every migration, Django's own too, each after those that it depends on."""
    for key in loader.graph._generate_plan(loader.graph.leaf_nodes(), at_end=True):
        yield loader.graph.nodes[key]


def is_after(migration: Migration, mark: dict[str, str]) -> bool:
    return migration.app_label in mark and migration.name > mark[migration.app_label]


def refusals(migration: Migration, state: ProjectState) -> dict[str, str]:
    """Each operation that is not additive, by `app.name: what it does`, with the reason. ``state`` is that before the
    migration, and that after it when this returns."""
    found, new = {}, set()
    for operation in migration.operations:
        parts = getattr(operation, "database_operations", [operation])
        for part in parts:
            reason = None if _model(part) in new else _refusal(part, migration, state)
            if reason:
                found[f"{migration.app_label}.{migration.name}: {part.describe()}"] = reason
            if isinstance(part, operations.CreateModel):
                new.add(_model(part))
        operation.state_forwards(migration.app_label, state)
    return found


def _model(operation: Operation) -> str:
    name = getattr(operation, "model_name", None) or getattr(operation, "name", None) or ""
    return name.lower()


def _refusal(operation: Operation, migration: Migration, state: ProjectState) -> str | None:
    app = migration.app_label
    if (app, _model(operation)) in BIG and _locks_writers(operation, migration, state):
        return BESIDE
    if isinstance(operation, TAKES_AWAY):
        return "the version before still reads and writes it"
    if isinstance(operation, operations.AddConstraint):
        return "the version before may write what it refuses"
    if isinstance(operation, OPAQUE):
        return "nobody can tell what it does: look at it"
    if isinstance(operation, operations.AddField) and not _has_a_value(operation.field):
        return "the version before writes rows without it: give it a db_default"
    if isinstance(operation, operations.AlterField):
        return _narrower(state.models[app, operation.model_name_lower].fields[operation.name], operation.field)
    return None


def _locks_writers(operation: Operation, migration: Migration, state: ProjectState) -> bool:
    if isinstance(operation, operations.AddIndex):
        return not isinstance(operation, AddIndexConcurrently) or migration.atomic
    if isinstance(operation, operations.AddField):
        return _is_indexed(operation.field)
    if isinstance(operation, operations.AlterField):
        old = state.models[migration.app_label, operation.model_name_lower].fields[operation.name]
        return _is_indexed(operation.field) and not _is_indexed(old)
    return False


def _is_indexed(field: Field) -> bool:
    return field.db_index or field.unique


def _has_a_value(field: Field) -> bool:
    return field.many_to_many or field.null or field.has_db_default()


def _narrower(old: Field, new: Field) -> str | None:
    """What the column no longer takes."""
    if old.null and not new.null:
        return "the version before writes NULL there"
    if old.has_db_default() and not _has_a_value(new):
        return "the version before writes rows without it: keep its db_default"
    if new.unique and not old.unique:
        return "the version before may write one value twice"
    if (old.get_internal_type(), old.db_column) != (new.get_internal_type(), new.db_column):
        return "the version before reads and writes another column"
    if old.max_length is not None and (new.max_length or old.max_length) < old.max_length:
        return "the version before writes longer ones"
    return None
