"""`manage.py migrate`: one at a time, and never at the cost of those who are at work."""

from __future__ import annotations

import threading
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from croniq_site.kernel import migrating
from croniq_site.kernel.migrating import alone, patiently
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, in_thread

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(migrating, "PAUSE_SECONDS", 0.01)


def said_nothing(line: str) -> None:
    raise AssertionError(line)


def test_a_second_migrate_waits_for_the_first_and_then_goes_on():
    out, over = StringIO(), threading.Event()

    def first() -> None:
        with alone(connection, said_nothing):
            in_it.set()
            assert over.wait(DEADLINE_SECONDS)

    in_it = threading.Event()
    migrates = in_thread(first)
    assert in_it.wait(DEADLINE_SECONDS)
    second = in_thread(call_command, "migrate", stdout=out, verbosity=1)
    poll_until(lambda: second.done() or "waiting for it" in out.getvalue(), what="the second waits")
    assert not second.done()
    assert "Running migrations" not in out.getvalue()
    over.set()
    assert second.result(DEADLINE_SECONDS) is None
    migrates.result(DEADLINE_SECONDS)
    assert "No migrations to apply" in out.getvalue()


def test_one_that_never_ends_is_not_waited_for_for_ever():
    said = []
    with Session() as other, alone(connection, said_nothing):

        def second() -> None:
            with alone(connection, said.append, patience_seconds=0.05):
                raise AssertionError("both migrate")

        with pytest.raises(CommandError, match="for too long"):
            other.run(second)
    assert len(said) == 1
    with alone(connection, said_nothing):  # it was given back
        pass


def alter() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE of_a_test ADD COLUMN more integer")


@pytest.fixture
def table(database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer, who is waited for by the driver's own timeout")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE of_a_test (id integer)")
        yield "of_a_test"
        cursor.execute("DROP TABLE of_a_test")


def read(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")


def write(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} (id) VALUES (1)")


def test_a_table_that_a_dump_reads_is_tried_again_and_writers_go_on_in_between(table):
    said = []
    with Session() as dump, Session() as claims:

        def say(line: str) -> None:
            said.append(line)
            claims.run(write, table)
            if len(said) == 2:
                dump.rollback()

        dump.begin()
        dump.run(read, table)
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '20s'")  # one that waits as long as it takes fails
        patiently(connection, alter, say, lock_seconds=0.05)
    assert len(said) == 2
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, more FROM of_a_test")
        assert cursor.fetchall() == [(1, None), (1, None)]
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)
        cursor.execute("RESET statement_timeout")


def test_a_table_that_is_in_use_for_ever_ends_the_migration_and_so_does_any_other_failure_at_once(table):
    with Session() as dump:
        dump.begin()
        dump.run(read, table)
        with pytest.raises(CommandError, match="in use for too long"):
            patiently(connection, alter, lambda line: None, lock_seconds=0.02, patience_seconds=0)

    def fails() -> None:
        raise OperationalError("away")

    with pytest.raises(OperationalError, match="away"):
        patiently(connection, fails, said_nothing)
