"""A scrape reads indexes: it costs the same however many runs have ended."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from croniq_site.kernel.database import adapted
from scheduler.queries.gauges import flapping_runners
from scheduler.queries.runners import runner_counts
from scheduler.queries.trouble import pulse
from scheduler.sql import gauges
from tests.factories import NOW, JobFactory, TriggerFactory
from tests.scheduler.metrics.scrapes import scraped
from tests.schema.plans import forget_size, plan_of

pytestmark = pytest.mark.django_db

INDEXES = {
    "DEPTH": {"queue_entry_waiting"},
    "OLDEST": {"queue_entry_claimable", "queue_entry_gated"},
    "JOBS": {"queue_entry_waiting"},
}


@pytest.fixture(autouse=True)
def _of_tables_that_nobody_has_counted():
    for table in ("scheduler_run", "scheduler_job", "runners_runner", "runners_heartbeat", "scheduler_alert"):
        forget_size(table)


def written(sql: str, *values: object) -> str:
    """The statement with its values in it."""
    for value in values:
        sql = sql.replace("%s", str(value) if isinstance(value, int) else f"'{adapted(value)}'", 1)
    return sql


def names(plan: str) -> set[str]:
    return set(re.findall(r"(?:INDEX|using) (\w+)", plan))


@pytest.mark.parametrize("name", INDEXES)
def test_the_queue_is_read_by_index(name):
    sql = getattr(gauges, name)
    plan = plan_of(written(sql, *[NOW] * sql.count("%s")))
    assert INDEXES[name] <= names(plan), plan


@pytest.mark.parametrize("name", ["SUCCESSES", "RECENT_SUCCESSES"])
def test_a_jobs_last_success_is_read_from_its_newest_run_backwards(name):
    kind = "" if connection.vendor == "sqlite" else "::timestamptz"
    asked = f"WITH asked(job_id, since) AS (VALUES (1, {written('%s', NOW)}{kind}))"
    plan = plan_of(f"{asked} {written(getattr(gauges, name), NOW, 1000)}")
    assert "run_by_job" in names(plan), plan
    assert not re.search(r"(SCAN|Seq Scan on) (scheduler_run|r)\b(?! USING)", plan), plan
    if name == "SUCCESSES":  # it stops at the first
        assert "TEMP B-TREE" not in plan
        assert "Sort" not in plan


@pytest.mark.parametrize(
    ("ask", "indexes"),
    [
        (lambda: flapping_runners(NOW), {"instance_deposed_by_time", "instance_by_deposed_at"}),
        (lambda: runner_counts(NOW), {"runner_by_last_poll"}),
        (lambda: pulse(NOW), {"heartbeat_by_kind"}),
    ],
    ids=["flapping", "runners", "ticks"],
)
def test_what_the_orm_asks_is_read_by_index(ask, indexes):
    with CaptureQueriesContext(
        connection,
    ) as captured:
        ask()
    plan = plan_of(captured[0]["sql"])
    assert indexes & names(plan), plan


@pytest.mark.parametrize("name", ["ALERTS", "SILENT_CHANNELS", "LETTERS_AND_CHANNELS"])
def test_what_waits_to_be_told_is_read_by_index(name):
    """However many alerts have their outcome."""
    plan = plan_of(written(getattr(gauges, name), 4))
    assert "alert_to_send" in names(plan), plan
    assert not re.search(r"(SCAN|Seq Scan on) (scheduler_alert|a)\b(?! USING)", plan), plan


def test_the_number_of_queries_does_not_depend_on_that_of_jobs(django_assert_max_num_queries, clock):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            scraped()
        return len(captured)

    TriggerFactory()
    few = queries()
    TriggerFactory.create_batch(20)
    JobFactory.create_batch(20)
    assert queries() <= few + 1  # jobs that are new to this process are asked for apart
    assert queries() == few
