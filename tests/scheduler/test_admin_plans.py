"""With two million runs the admin's lists, filters and searches read what they show, and not the history."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from croniq_site.kernel.clock import DatabaseClock
from scheduler.admin import filters
from tests.factories import (
    DeadLetterFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
)
from tests.schema.plans import plan_of

pytestmark = pytest.mark.django_db
RUNS, LETTERS, LOG = (reverse(f"admin:scheduler_{model}_changelist") for model in ("run", "deadletter", "runlog"))
ASKED = {
    "all runs": (RUNS, {}),
    "runs of a later page": (RUNS, {"p": "2"}),
    "runs by how they ended": (RUNS, {"ended": "dead"}),
    "completed runs": (RUNS, {"ended": "completed"}),
    "unfinished runs": (RUNS, {"ended": "unfinished"}),
    "replays": (RUNS, {"kind": "replay"}),
    "triggered runs": (RUNS, {"kind": "triggered"}),
    "runs of a day": (RUNS, {"since": "24h"}),
    "a run by its id": (RUNS, {"q": "{run}"}),
    "the runs of a job": (RUNS, {"q": "{job}"}),
    "all letters": (LETTERS, {}),
    "the letters of a job": (LETTERS, {"q": "{job}"}),
    "the log of a run": (LOG, {"q": "{run}"}),
}
LED_BY = {
    "all runs": "run_by_time",
    "runs by how they ended": "run_by_problem",
    "replays": "run_by_time (scheduled_for>?)",
    "runs of a day": "run_by_time",
    "the runs of a job": "run_by_job",
    "all letters": "dead_letter_by_time",
    "the letters of a job": "dead_letter_by_job",
    "the log of a run": "run_log_by_run",
}
"""The index that the rows come out of. On SQLite, whose choice does not follow how many rows a test has."""
WHOLE = {
    # A scan that no index leads; one that an index leads ends with the rows that are shown.
    "sqlite": lambda line, table: line.startswith(f"SCAN {table}") and "USING" not in line,
    "postgresql": lambda line, table: f"Seq Scan on {table}" in line,
}
BIG = ("scheduler_run", "scheduler_deadletter", "scheduler_runlog")


@pytest.fixture
def rows() -> dict[str, str]:
    run = QueueEntryFactory().run
    RunFactory(job=run.job, completed=True, scheduled_for=DatabaseClock().now() - timedelta(hours=1))
    for _ in range(60):
        RunFactory(job=run.job, dead=True)
    RunFactory(job=run.job, kind="replay", replay_of=RunFactory(job=run.job, completed=True), completed=True)
    RunFactory(job=run.job, kind="triggered", completed=True)
    DeadLetterFactory(job=run.job)
    RunLogFactory(run=run)
    return {"run": str(run.pk), "job": run.job.job_key}


def test_no_list_filter_or_search_reads_a_big_table_whole(admin_client: Client, rows, monkeypatch):
    monkeypatch.setattr(filters, "REACH", 5)
    whole = WHOLE[connection.vendor]
    wrong, seen = {}, {}
    for name, (path, query) in ASKED.items():
        asked = {key: value.format(**rows) for key, value in query.items()}
        with CaptureQueriesContext(connection) as queries:
            answer = admin_client.get(path, asked)
        assert answer.status_code == 200, name
        seen[name], plans = answer.context["cl"].result_count, ""
        assert len(queries) <= 9, name
        for sql in (each["sql"] for each in queries):
            if any(f'FROM "{table}"' in sql for table in BIG):
                assert "COUNT(" not in sql or "LIMIT" in sql, (name, sql)  # nothing is counted to its end
                plans += plan_of(sql)
                lines = [line.strip() for line in plan_of(sql).splitlines()]
                if any(whole(line, table) for line in lines for table in BIG):
                    wrong[name] = sql
        if connection.vendor == "sqlite" and LED_BY.get(name, "") not in plans:
            wrong[name] = plans
    assert wrong == {}
    assert min(seen.values()) > 0, seen  # each found what it is for


def test_a_search_finds_one_id_or_one_jobs_rows_and_nothing_else(admin_client: Client):
    run = RunFactory(job__job_key="ops:backup", completed=True)
    RunFactory(job__job_key="ops:backup-2", completed=True)

    def found(words: str) -> list[object]:
        return [row.pk for row in admin_client.get(RUNS, {"q": words}).context["cl"].result_list]

    assert found(str(run.pk)) == found(f" {run.pk} ") == found("ops:backup") == [run.pk]
    assert found("ops:back") == found("completed") == []
    assert len(found("")) == 2
