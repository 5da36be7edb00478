"""The statements of planning: what they take and give is the same on both databases, to the microsecond."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta

import pytest
from django.db import connection

from scheduler.domain.occurrences import of_micro, to_micro
from scheduler.domain.schedules import Fire
from scheduler.models import QueueEntry, Run, Trigger
from scheduler.services.planning import planned_run
from scheduler.sql.due import lock_due_triggers
from scheduler.sql.planned import CursorMove, delete_waiting, insert_planned, move_cursors
from tests.factories import JobFactory, QueueEntryFactory, TriggerFactory
from tests.support.races import Session

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MICRO = timedelta(microseconds=1)
FAR = datetime(9979, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def test_instants_are_written_to_the_microsecond_however_far_they_are(now, lane):
    job = JobFactory(lane=lane)
    instants = [now + MICRO, datetime(2300, 1, 1, 0, 0, 0, 333_333, tzinfo=UTC), FAR]
    fires = [Fire(at, at - SECOND) for at in instants]
    made = insert_planned([planned_run(job, fire) for fire in fires], now)
    assert [of_micro(run.scheduled_for) for run in made] == instants
    runs = Run.objects.order_by("scheduled_for")
    assert [(run.scheduled_for, run.occurrence_at, run.created_at) for run in runs] == [
        (fire.at, fire.occurrence_at, now) for fire in fires
    ]
    assert [run.pk.hex for run in runs] == [run.run_id for run in made]
    entries = QueueEntry.objects.order_by("available_at").values_list("run_id", "available_at", "waits_since")
    assert list(entries) == [(run.pk, run.scheduled_for, None) for run in runs]


def test_of_many_runs_those_that_are_there_already_make_none(now, lane):
    job = JobFactory(lane=lane)
    runs = [planned_run(job, Fire(now + n * SECOND, now + n * SECOND)) for n in range(20)]
    assert insert_planned(runs[5:9], now) == runs[5:9]
    # A backfill gave one of them another id.
    assert insert_planned([runs[12]._replace(run_id="f" * 12 + "7" + "f" * 3 + "8" + "f" * 15)], now)
    assert insert_planned(runs, now) == [*runs[:5], *runs[9:12], *runs[13:]]
    assert insert_planned(runs, now) == []
    assert Run.objects.count() == QueueEntry.objects.count() == 20
    assert QueueEntry.objects.get(available_at=now).waits_since == now


def test_a_cursor_moves_only_from_where_it_was_thought_to_be(now):
    first, second = TriggerFactory(cursor_at=now), TriggerFactory(cursor_at=now + MICRO)
    was = to_micro(now)
    moves = [
        CursorMove(first.pk, was, to_micro(FAR), None, "closed, 'never' open"),
        CursorMove(second.pk, was, was + 7, was + 9, ""),
    ]
    assert move_cursors(moves) == 1
    assert move_cursors([]) == 0
    rows = Trigger.objects.order_by("cursor_at").values_list("cursor_at", "next_materialize_at", "config_error")
    assert list(rows) == [(now + MICRO, second.next_materialize_at, ""), (FAR, None, "closed, 'never' open")]
    assert move_cursors([moves[1]._replace(was=was + 1)]) == 1
    second.refresh_from_db()
    assert (second.cursor_at, second.next_materialize_at) == (now + 7 * MICRO, now + 9 * MICRO)


def test_a_due_trigger_is_read_as_its_row_says(now, lane):
    job = JobFactory(lane=lane, max_concurrent=3, overlap="skip", paused_at=now, lease_seconds=7.5, max_retries=9)
    every = timedelta(days=40, hours=3, microseconds=5)
    interval = TriggerFactory(job=job, every=every, anchor_at=FAR, cursor_at=now + MICRO, created_at=now - MICRO)
    cron = TriggerFactory(
        kind="cron",
        every=None,
        anchor_at=None,
        cron_expression="0 9 * * MON",
        timezone="Europe/Berlin",
        window_start=time(9),
        window_end=time(10),
        config_error="it was",
        next_materialize_at=now - SECOND,
    )
    TriggerFactory(next_materialize_at=now + SECOND)
    TriggerFactory(enabled=False)
    found = lock_due_triggers(now, 10)
    assert [trigger.pk for trigger in found] == [cron.pk, interval.pk]
    assert lock_due_triggers(now, 1) == found[:1]
    assert lock_due_triggers(now, 10, only=interval.pk) == found[1:]
    for trigger, row in zip(found, (cron, interval), strict=True):
        named = {name: getattr(row.job, name) for name in trigger.job._fields}
        assert trigger.job._replace(paused_at=row.job.paused_at)._asdict() == named
        assert (trigger.job.paused_at is None) is (row.job.paused_at is None)
        assert (trigger.kind, trigger.cron_expression, trigger.timezone, trigger.config_error) == (
            row.kind,
            row.cron_expression,
            row.timezone,
            row.config_error,
        )
        assert (of_micro(trigger.created_at), of_micro(trigger.cursor_at)) == (row.created_at, row.cursor_at)
    assert (found[0].every, found[0].anchor_at, found[0].is_plain) == (None, None, False)
    assert (found[1].every * MICRO, of_micro(found[1].anchor_at), found[1].is_plain) == (every, FAR, True)


@pytest.mark.parametrize("bound", [{"not_before": FAR}, {"not_after": FAR}, {"window_end": time(9)}])
def test_a_trigger_with_bounds_is_not_plain(now, bound):
    TriggerFactory(**bound)
    assert [trigger.is_plain for trigger in lock_due_triggers(now, 10)] == [False]


@pytest.mark.django_db(transaction=True)
def test_the_look_at_foreign_keys_goes_by_indexes_from_the_first_batch_on(now, database):
    """PostgreSQL keeps its plan: made while the tables were empty it read all of them for each row."""
    if database != "postgresql":
        pytest.skip("SQLite looks at foreign keys by their indexes alone")
    job = JobFactory()
    runs = [planned_run(job, Fire(now + n * SECOND, now + n * SECOND)) for n in range(100)]
    with known_to_be_empty("scheduler_run"), Session() as fresh:
        fresh.begin()
        assert len(fresh.run(insert_planned, runs, now)) == 100
        assert fresh.run(_read_whole) < 10
        fresh.rollback()


@contextmanager
def known_to_be_empty(table: str) -> Iterator[None]:
    """PostgreSQL's statistics say so; afterwards they say what they did, for other tests look at plans."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples, relpages FROM pg_class WHERE relname = %s", [table])
        before = cursor.fetchone()
        cursor.execute(f"TRUNCATE {table} CASCADE")  # what was rolled back still fills pages
        cursor.execute(f"ANALYZE {table}")
        try:
            yield
        finally:
            cursor.execute("UPDATE pg_class SET reltuples = %s, relpages = %s WHERE relname = %s", [*before, table])


def _read_whole() -> int:
    """How often this transaction read all of a table, its foreign keys looked at."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SELECT sum(seq_scan) FROM pg_stat_xact_user_tables")
        return cursor.fetchone()[0]


def test_what_a_runner_has_is_taken_out_of_the_queue_by_nobody_else(now):
    waiting, claimed, stopping = (
        QueueEntryFactory(attempt=1),
        QueueEntryFactory(claimed=True),
        QueueEntryFactory(stopping=True),
    )
    run_ids = [entry.run_id for entry in (waiting, claimed, stopping)]
    assert delete_waiting(run_ids) == []
    assert delete_waiting(run_ids, never_claimed=False) == [waiting.run_id]
    assert set(QueueEntry.objects.values_list("run_id", flat=True)) == {claimed.run_id, stopping.run_id}
