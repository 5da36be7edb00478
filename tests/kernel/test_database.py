"""Statements that take lists, on both databases with one text."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection, transaction

from croniq_site.kernel.database import (
    chunks,
    do_last,
    instant_of,
    is_outage,
    row_list,
    uuid_of,
    when_committed,
    write_transaction,
)

pytestmark = pytest.mark.django_db
COLUMNS = {"id": "uuid", "at": "timestamptz", "n": "int", "text": "text"}


def test_rows_of_every_type_come_back_as_they_went_in():
    rows = [
        (uuid4(), datetime(2026, 1, 1, tzinfo=UTC), 1, "100 % 'quoted' %s"),
        (uuid4(), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), -2, None),
    ]
    sql, params = row_list("given", COLUMNS, rows)
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {sql} SELECT id, at, n, text FROM given ORDER BY n DESC", params)
        got = [(uuid_of(a), instant_of(b), c, d) for a, b, c, d in cursor.fetchall()]
    assert got == rows


def test_five_hundred_rows_fit_in_one_statement():
    rows = [(uuid4(), datetime(2026, 1, 1, tzinfo=UTC), n, "x") for n in range(500)]
    sql, params = row_list("given", COLUMNS, rows)
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {sql} SELECT count(*), sum(n) FROM given", params)
        assert cursor.fetchone() == (500, sum(range(500)))


def test_the_statement_of_postgresql_does_not_depend_on_the_number_of_rows(database):
    if database != "postgresql":
        pytest.skip("arrays are PostgreSQL's")
    row = (uuid4(), datetime(2026, 1, 1, tzinfo=UTC), 1, "x")
    assert row_list("given", COLUMNS, [row])[0] == row_list("given", COLUMNS, [row] * 7)[0]


def test_an_empty_list_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="at least one"):
        row_list("given", COLUMNS, [])


def test_chunks_lose_nothing():
    assert [list(c) for c in chunks(list(range(5)), 2)] == [[0, 1], [2, 3], [4]]


@pytest.mark.django_db(transaction=True)
def test_what_fails_when_it_is_committed_is_logged_and_the_rest_is_done(caplog):
    done = []
    with write_transaction():
        when_committed(lambda number: 1 / number, 0)
        when_committed(done.append, 1)
        assert done == []
    assert done == [1]
    when_committed(lambda number: 1 / number, 0)  # in no transaction
    assert caplog.text.count("ZeroDivisionError") == 2


@pytest.mark.django_db(transaction=True)
def test_a_write_transaction_of_sqlite_takes_the_file_before_it_reads(database):
    """Else what a service read is not true any more when it writes."""
    if database != "sqlite":
        pytest.skip("BEGIN IMMEDIATE is SQLite's; PostgreSQL has row locks")
    import sqlite3

    with write_transaction():
        other = sqlite3.connect(connection.settings_dict["NAME"], timeout=0, isolation_level=None)
        try:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
        finally:
            other.close()


def test_sqlite_runs_in_wal_mode_with_foreign_keys(database):
    if database != "sqlite":
        pytest.skip("pragmas are SQLite's")
    with connection.cursor() as cursor:
        values = {}
        for pragma in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout"):
            cursor.execute(f"PRAGMA {pragma}")
            values[pragma] = cursor.fetchone()[0]
    assert values == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 20000}


def test_a_statement_that_is_wrong_is_no_outage():
    """SQLite's driver has one class for what it cannot do and for what is away."""
    with pytest.raises(DatabaseError) as caught, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT nothing FROM nowhere")
    assert not is_outage(caught.value)


def test_what_counts_as_an_outage():
    assert is_outage(OperationalError())
    assert is_outage(InterfaceError())
    assert not is_outage(IntegrityError())
    assert not is_outage(ValueError())


def test_the_last_work_of_a_transaction_is_done_once_at_its_end_before_it_commits():
    told: list = []

    def work(items):
        told.append((items, connection.in_atomic_block))

    with write_transaction():
        do_last(work, "a")
        with write_transaction():
            do_last(work, "b")
            do_last(work, "a")
        assert told == [], "the inner one is not the end"
    assert told == [(["a", "b"], True)]
    with write_transaction():
        pass
    assert len(told) == 1


def test_the_last_work_of_a_transaction_that_failed_is_never_done():
    told: list = []

    def fail():
        with write_transaction():
            do_last(told.append, "a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with write_transaction():
        pass
    assert told == []


def test_last_work_may_ask_for_more_and_without_a_transaction_it_is_done_at_once():
    told: list = []

    def more(items):
        do_last(told.append, "second")

    with write_transaction():
        do_last(more, "first")
    assert told == [["second"]]
    do_last(told.append, "now")
    assert told[-1] == ["now"]
