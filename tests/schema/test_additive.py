"""Migrations add before they remove: the version before goes on with the new tables, on both databases."""

from __future__ import annotations

import functools

import pytest
from django.db import OperationalError, connection, models
from django.db.migrations import Migration, operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.test.utils import CaptureQueriesContext

from croniq_site.kernel.indexes import AddIndexBesideWriters
from scheduler.models import Run
from tests import factories
from tests.schema.additive import APPS, BESIDE, BIG, FIRST_RELEASE, is_after, ordered, refusals
from tests.schema.test_factories import ALL
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

LOOKED_AT: dict[str, str] = {
    "scheduler.0012_channels_that_do_not_answer: "
    "Create constraint alert_channel_closed_while_it_fails on model alertchannel": "it writes neither of these columns",
}
"""What a migration after the first release does all the same, as `refusals` calls it: why nothing that runs minds, for
instance the version since which nothing reads that column."""
NOTHING = dict.fromkeys(APPS, "")


def all_refusals(mark: dict[str, str]) -> dict[str, str]:
    loader, state, found = MigrationLoader(None), ProjectState(), {}
    for migration in ordered(loader):
        said = refusals(migration, state)
        found |= said if is_after(migration, mark) else {}
    return found


def test_what_comes_after_the_first_release_only_adds():
    known = {(migration.app_label, migration.name) for migration in ordered(MigrationLoader(None))}
    assert known >= set(FIRST_RELEASE.items())
    found = all_refusals(FIRST_RELEASE)
    assert {operation: reason for operation, reason in found.items() if operation not in LOOKED_AT} == {}
    assert LOOKED_AT.keys() <= found.keys()


def test_before_the_first_release_it_was_not_so_and_is_found():
    found = all_refusals(NOTHING)
    here = "scheduler.0011_alert_conditions_and_exemptions: "
    assert found[here + "Remove field channel from alertrule"] == "the version before still reads and writes it"
    assert here + "Create constraint alert_one_per_cause on model alert" in found
    assert "runners.0004_append_only_audit: Raw Python operation" in found
    # What a migration makes itself nobody has used.
    assert not [said for said in found if "alert_route" in said or "alertroute" in said]


OLD = {
    "id": models.BigAutoField(primary_key=True),
    "name": models.CharField(max_length=10),
    "note": models.CharField(max_length=10, null=True),
    "held": models.CharField(max_length=10, db_default=""),
}


def alter(name: str, field: models.Field) -> operations.AlterField:
    return operations.AlterField("thing", name, field)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (operations.AddField("thing", "size", models.IntegerField(null=True)), None),
        (operations.AddField("thing", "size", models.IntegerField(default=0, db_default=0)), None),
        (operations.AddField("thing", "others", models.ManyToManyField("app.thing")), None),
        (operations.AddField("thing", "size", models.IntegerField(default=0)), "without it"),
        (operations.AddField("thing", "size", models.CharField(max_length=9, blank=True)), "without it"),
        (operations.RemoveField("thing", "note"), "still reads"),
        (operations.RenameField("thing", "note", "remark"), "still reads"),
        (operations.RenameModel("thing", "object"), "still reads"),
        (operations.DeleteModel("thing"), "still reads"),
        (operations.AlterModelTable("thing", "things"), "still reads"),
        (
            operations.SeparateDatabaseAndState(database_operations=[operations.RemoveField("thing", "note")]),
            "still reads",
        ),
        (operations.SeparateDatabaseAndState(state_operations=[operations.RemoveField("thing", "note")]), None),
        (
            operations.AddConstraint("thing", models.UniqueConstraint(fields=["name"], name="thing_one_per_name")),
            "refuses",
        ),
        (operations.AddIndex("thing", models.Index(fields=["name"], name="thing_by_name")), None),
        (operations.RunSQL("UPDATE thing SET name = ''"), "look at it"),
        (alter("name", models.CharField(max_length=11, help_text="longer")), None),
        (alter("name", models.CharField(max_length=10, null=True)), None),
        (alter("name", models.CharField(max_length=9)), "longer ones"),
        (alter("name", models.CharField(max_length=10, unique=True)), "twice"),
        (alter("name", models.IntegerField()), "another column"),
        (alter("name", models.CharField(max_length=10, db_column="called")), "another column"),
        (alter("note", models.CharField(max_length=10)), "NULL"),
        (alter("held", models.CharField(max_length=10)), "keep its db_default"),
    ],
    ids=lambda value: value.describe() if isinstance(value, operations.base.Operation) else "",
)
def test_what_the_version_before_could_not_live_with_is_refused(operation, reason):
    state = ProjectState()
    operations.CreateModel("Thing", list(OLD.items())).state_forwards("app", state)
    migration = Migration("0002_later", "app")
    migration.operations = [operation]
    said = list(refusals(migration, state).values())
    assert len(said) == (reason is not None)
    assert not said or reason in said[0]


def index_of(made: type[operations.AddIndex], model: str) -> operations.AddIndex:
    return made(model, models.Index(fields=["name"], name="thing_by_name"))


@pytest.mark.parametrize(
    ("operation", "is_atomic", "is_refused"),
    [
        (index_of(operations.AddIndex, "run"), True, True),
        (index_of(operations.AddIndex, "run"), False, True),
        (index_of(AddIndexBesideWriters, "run"), True, True),
        (index_of(AddIndexBesideWriters, "run"), False, False),
        (index_of(operations.AddIndex, "trigger"), True, False),
        (operations.AddField("run", "size", models.IntegerField(null=True, db_index=True)), True, True),
        (operations.AddField("run", "size", models.CharField(max_length=9, null=True, unique=True)), True, True),
        (operations.AddField("run", "size", models.IntegerField(null=True)), True, False),
        (operations.AlterField("run", "name", models.CharField(max_length=10, db_index=True)), True, True),
        (operations.AlterField("run", "held", models.CharField(max_length=20, db_default="")), True, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, operations.base.Operation) else str(value),
)
def test_an_index_of_a_big_table_is_built_beside_those_who_write_it(operation, is_atomic, is_refused):
    state = ProjectState()
    for name in ("Run", "Trigger"):
        operations.CreateModel(name, list(OLD.items())).state_forwards("scheduler", state)
    migration = Migration("9999_later", "scheduler")
    migration.operations, migration.atomic = [operation], is_atomic
    assert list(refusals(migration, state).values()) == [BESIDE] * is_refused


@pytest.mark.django_db(transaction=True)
def test_an_index_comes_and_goes_beside_those_who_write(database):
    state = MigrationLoader(connection).project_state()
    before, index = state.clone(), models.Index(fields=["runner_id"], name="run_of_a_test")
    operation = AddIndexBesideWriters("run", index)
    operation.state_forwards("scheduler", state)

    def names() -> set[str]:
        with connection.cursor() as cursor:
            return set(connection.introspection.get_constraints(cursor, "scheduler_run"))

    with CaptureQueriesContext(connection) as asked:
        with connection.schema_editor(atomic=False) as editor:
            operation.database_forwards("scheduler", editor, before, state)
        there = "run_of_a_test" in names()
        with connection.schema_editor(atomic=False) as editor:
            operation.database_backwards("scheduler", editor, state, before)
    assert there
    assert "run_of_a_test" not in names()
    said = [query["sql"] for query in asked.captured_queries if "INDEX" in query["sql"]]
    assert all(("CONCURRENTLY" in sql) == (database == "postgresql") for sql in said)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("left", ["half built", "whole"])
def test_an_index_whose_migration_was_interrupted_is_there_when_it_is_asked_for_again(database, left):
    if database != "postgresql":
        pytest.skip("on SQLite a migration is one transaction")
    state = MigrationLoader(connection).project_state()
    before, index = state.clone(), models.Index(fields=["verdict"], name="run_of_a_test")
    operation = AddIndexBesideWriters("run", index)
    operation.state_forwards("scheduler", state)
    # As a statement of somebody who was killed leaves it: it waits for the end of who writes the table.
    with Session() as writer, Session() as builder, connection.cursor() as cursor:
        if left == "half built":
            writer.begin()
            writer.run(lambda: Run.objects.update(duration_ms=0))
            pid = builder.backend_pid
            building = builder.start(_build, operation, before, state)
            poll_until(lambda: is_waiting_for_lock(pid), what="the index waits for the writer")
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
            assert isinstance(building.exception(DEADLINE_SECONDS), OperationalError)
            writer.rollback()
        else:
            builder.run(_build, operation, before, state)
        of_it = "SELECT indisvalid, indexrelid FROM pg_index WHERE indexrelid = 'run_of_a_test'::regclass"
        cursor.execute(of_it)
        was_whole, was = cursor.fetchone()
        assert was_whole == (left == "whole")
        _build(operation, before, state)
        cursor.execute(of_it)
        is_whole, now = cursor.fetchone()
        assert is_whole
        assert (now == was) == was_whole  # whoever asks by it has it all the time
        cursor.execute("DROP INDEX run_of_a_test")


@pytest.mark.django_db(transaction=True)
def test_an_index_waits_for_those_who_write_however_little_others_may_wait(database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    state = MigrationLoader(connection).project_state()
    before, index = state.clone(), models.Index(fields=["verdict"], name="run_of_a_test")
    operation = AddIndexBesideWriters("run", index)
    operation.state_forwards("scheduler", state)

    def build_soon():
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
            _build(operation, before, state)
            cursor.execute("SHOW lock_timeout")
            return cursor.fetchone()[0]

    with Session() as writer, Session() as builder:
        writer.begin()
        writer.run(lambda: Run.objects.update(duration_ms=0))
        pid = builder.backend_pid
        building = builder.start(build_soon)
        poll_until(lambda: building.done() or is_waiting_for_lock(pid), what="the index waits for the writer")
        assert not building.done()
        writer.rollback()
        assert building.result(DEADLINE_SECONDS) == "1ms"
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX run_of_a_test")


def _build(operation, before, state):
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("scheduler", editor, before, state)


def test_the_big_tables_are_there():
    assert {(made._meta.model._meta.app_label, made._meta.model._meta.model_name) for made in ALL} >= BIG


def test_what_the_same_migration_makes_is_its_own():
    migration = Migration("0002_later", "app")
    migration.operations = [
        operations.CreateModel("Thing", list(OLD.items())),
        operations.AddField("thing", "size", models.IntegerField()),
        operations.AddConstraint("thing", models.UniqueConstraint(fields=["name"], name="thing_one_per_name")),
    ]
    assert refusals(migration, ProjectState()) == {}


@functools.cache
def first_columns() -> dict[tuple[str, str], set[str]]:
    """The columns that the migration which made a table gave it, by app and model."""
    state, found = ProjectState(), {}
    for migration in ordered(MigrationLoader(None)):
        state = migration.mutate_state(state)
        for key in state.models.keys() - found.keys():
            found[key] = {
                field.db_column or (f"{name}_id" if field.many_to_one or field.one_to_one else name)
                for name, field in state.models[key].fields.items()
                if not field.many_to_many
            }
    return found


UNRELEASED = {("alertrule", "channel_id")}
"""Columns that were gone before anything was released."""


@pytest.mark.django_db
@pytest.mark.parametrize("made", ALL, ids=lambda made: made.__name__)
def test_what_the_first_version_of_a_table_writes_is_still_taken(made, now):
    model = made._meta.model
    columns = {field.column: field for field in model._meta.concrete_fields}
    written = first_columns()[model._meta.app_label, model._meta.model_name]
    gone = {(model._meta.model_name, column) for column in written - columns.keys()}
    assert gone <= UNRELEASED
    table, key = model._meta.db_table, model._meta.pk.column
    named = ", ".join(f'"{column}"' for column in sorted(written & columns.keys()))
    row = made()
    if made is factories.AuditEventFactory:
        factories.AuditCutFactory(until=now.replace(year=9999))  # else its table lets no row go
    with connection.cursor() as cursor:
        value = model._meta.pk.get_db_prep_value(row.pk, connection)
        cursor.execute(f'CREATE TEMPORARY TABLE kept AS SELECT {named} FROM {table} WHERE "{key}" = %s', [value])
        cursor.execute(f'DELETE FROM {table} WHERE "{key}" = %s', [value])
        cursor.execute(f"INSERT INTO {table} ({named}) SELECT {named} FROM kept")
        cursor.execute("DROP TABLE kept")
    again = model.objects.get(pk=row.pk)
    for column in columns.keys() - written:
        field = columns[column]
        assert getattr(again, field.attname) == (None if field.null else field.get_default()), column
