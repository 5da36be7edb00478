"""One clock, and it is the database's."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from croniq_site.kernel.clock import DatabaseClock, ManualClock, SystemClock


@pytest.mark.django_db
def test_the_database_decides_what_time_it_is(database):
    before = SystemClock().now()
    now = DatabaseClock().now()
    assert now.tzinfo is UTC
    # The test's server is on this host; one that is not may differ by whatever its clock is off.
    assert before - timedelta(seconds=1) <= now <= SystemClock().now() + timedelta(seconds=1)


@pytest.mark.django_db
def test_time_passes_inside_a_transaction(database):
    if database != "postgresql":
        pytest.skip("now() that stands still within a transaction is PostgreSQL's")
    with transaction.atomic():
        first = DatabaseClock().now()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.01)")
        assert DatabaseClock().now() > first


def test_a_manual_clock_moves_only_when_told_also_backwards():
    start = datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC)
    clock = ManualClock(start)
    assert clock.now() == clock.now() == start
    assert clock.tick() == start + timedelta(seconds=1)
    assert clock.tick(timedelta(hours=-2)) == start + timedelta(seconds=1, hours=-2)


def test_a_naive_instant_is_refused():
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2026, 1, 1))  # noqa: DTZ001
