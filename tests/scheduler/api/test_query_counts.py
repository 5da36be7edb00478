"""A list costs the same number of queries whatever it lists: three rows or thirty."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import (
    CalendarFactory,
    CalendarRuleFactory,
    ConcurrencyGroupFactory,
    DeadLetterFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    RunnerInstanceFactory,
    TriggerFactory,
)

# Beside the query of the key. (The clock of these tests asks no database.)
LISTS = {
    "/v1/jobs": 1,
    "/v1/jobs?tag=x": 1,
    "/v1/jobs?page_size=50": 1,
    # jobs; the same with their last fire; counts; errors; what is planned; of the others their triggers, calendars'
    # rules and what was taken out
    "/v1/jobs/states": 8,
    "/v1/schedules": 1,
    "/v1/calendars": 2,
    "/v1/concurrency-groups": 1,
    "/v1/executions": 1,
    "/v1/executions?planned=1": 1,
    "/v1/executions?state=queued": 1,
    # how far back one look goes; the jobs that are named
    "/v1/executions?state=completed": 2,
    "/v1/executions?kind=triggered&attempt=1&last=24h": 2,
    "/v1/executions?error=exit": 3,
    "/v1/executions?tag=x&tenant=default": 3,
    "/v1/executions?page_size=50": 1,
    "/v1/executions?job_key=test:first": 2,
    "/v1/executions/{run}/logs": 2,
    "/v1/executions/{run}": 2,
    "/v1/runners": 1,
    "/v1/dead-letters": 1,
}


def grow(now, number: int, first) -> None:
    for _ in range(number):
        calendar = CalendarFactory()
        CalendarRuleFactory(calendar=calendar)
        job = JobFactory(tags=["x"], concurrency_group=ConcurrencyGroupFactory())
        TriggerFactory(job=job, calendar=calendar)
        holder = RunnerInstanceFactory()
        QueueEntryFactory(claimed=True, job=job, holder=holder)
        QueueEntryFactory(job=first.job)
        QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(minutes=1))
        RunFactory(job=job, completed=True)
        DeadLetterFactory(job=job)
        RunLogFactory(run=first)
        RunLogFactory(run=first)


@pytest.mark.parametrize("path", LISTS)
def test_the_number_of_queries_is_constant(api, now, path, django_assert_num_queries):
    first = RunFactory(job__job_key="test:first", completed=True)
    TriggerFactory(job=first.job, calendar=CalendarFactory())
    client, url = api(), path.format(run=first.pk)
    client.get(url)  # that the key is used is written down once a minute
    grow(now, 3, first)
    client.get(url)  # the first use of a key is noted
    with CaptureQueriesContext(
        connection,
    ) as few:
        assert client.get(url).status_code == 200
    grow(now, 27, first)
    with django_assert_num_queries(LISTS[path] + 1):
        assert client.get(url).status_code == 200
    assert len(few) == LISTS[path] + 1
