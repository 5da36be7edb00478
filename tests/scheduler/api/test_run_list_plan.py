"""What waits is found by its queue entries, however long the history is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from scheduler.models import QueueEntry, Run
from scheduler.queries.runs import RunFilter, run_list
from tests.factories import JobFactory, QueueEntryFactory, RunFactory


@pytest.mark.django_db
def test_the_list_of_what_waits_reads_no_history(now):
    job = JobFactory()
    history = [
        RunFactory.build(job=job, kind="triggered", completed=True, scheduled_for=now - timedelta(minutes=number))
        for number in range(1, 2001)
    ]
    Run.objects.bulk_create(history, batch_size=500)
    planned = [
        RunFactory.build(job=job, kind="triggered", scheduled_for=now + timedelta(minutes=number))
        for number in range(1, 301)
    ]
    Run.objects.bulk_create(planned, batch_size=500)
    QueueEntry.objects.bulk_create(
        [QueueEntryFactory.build(run=run, job=job, available_at=run.scheduled_for) for run in planned], batch_size=500
    )
    due = QueueEntryFactory(job=job, run__scheduled_for=now)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        if connection.vendor == "postgresql":
            # As a long history has it: there the walk along the index looks cheaper to it than a sort.
            cursor.execute("SET LOCAL enable_sort = off")
    found = []

    def explain(execute, sql, params, many, context):
        if "scheduler_run" in sql and not sql.startswith("EXPLAIN"):
            with connection.cursor() as cursor:
                prefix = "EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN "
                cursor.execute(prefix + sql, params)
                found.append("\n".join(str(row[-1]) for row in cursor.fetchall()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        rows = run_list(now, RunFilter(state="queued"), 100)
    assert [row.id for row in rows] == [due.run_id]
    (plan,) = found
    assert "run_by_time" not in plan
    assert "run_by_job" not in plan
    assert "SCAN scheduler_run" not in plan
