"""Every list in pages: by position, each row once, also where instants are equal; no OFFSET, and nothing is counted."""

from __future__ import annotations

import base64
import json
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runners.services.audit import Actor, Event, record_events
from runners.services.clients import issue_key
from scheduler.models import Run
from tests.factories import (
    AlertExemptionFactory,
    AlertFactory,
    ApiClientFactory,
    CalendarFactory,
    ConcurrencyGroupFactory,
    DeadLetterFactory,
    JobFactory,
    RunFactory,
    RunnerFactory,
    TriggerFactory,
)
from tests.scheduler.api.test_access import METHODS

LISTS = {
    "/v1/jobs": "job_key",
    "/v1/jobs/states": "job_key",
    "/v1/schedules": "trigger_id",
    "/v1/calendars": "id",
    "/v1/concurrency-groups": "name",
    "/v1/executions": "id",
    "/v1/dead-letters": "id",
    "/v1/runners": "runner_id",
    "/v1/tags": "tag",
    "/v1/audit": "event_id",
    "/v1/api-clients": "id",
    "/v1/api-keys": "id",
    "/v1/users": "id",
    "/v1/alert-channels": "id",
    "/v1/alert-rules": "id",
    "/v1/alert-exemptions": "id",
    "/v1/alerts": "id",
}
ROWS = 7


@pytest.fixture
def rows(db, now):
    """Seven of everything, of one instant."""
    for number in range(ROWS):
        client = ApiClientFactory()
        issue_key(client, now)
        User.objects.create(username=f"user-{number}")
        job = JobFactory(tags=[f"tag-{number}"])
        TriggerFactory(job=job, calendar=CalendarFactory())
        ConcurrencyGroupFactory()
        RunnerFactory(client=client)
        DeadLetterFactory(job=job, run__scheduled_for=now, created_at=now)
        AlertFactory(created_at=now)
        AlertExemptionFactory()
        record_events([Event("test.done", "job", job.job_key, Actor("user", "x"))], now)


def test_no_list_is_forgotten():
    paged = {
        "/" + route
        for route, view, method in METHODS
        if method == "GET" and "<" not in route and "page_size" in getattr(view.get, "query_names", ())
    }
    assert paged == set(LISTS)


@pytest.mark.parametrize("path", LISTS)
def test_a_walk_sees_each_row_once_and_counts_nothing(api, rows, path):
    client, identity = api(), LISTS[path]
    whole = client.get(path).json()
    assert len(whole) >= ROWS
    seen, url = [], f"{path}?page_size=2"
    with CaptureQueriesContext(connection) as queries:
        while url:
            page = client.get(url).json()
            assert len(page["results"]) == 2 or page["next"] is None
            seen += page["results"]
            url = page["next"]
    assert [row[identity] for row in seen] == [row[identity] for row in whole]
    # A count per row of a page (how much a runner holds) is no count of the list.
    said = " ".join(query["sql"] for query in queries)
    assert "OFFSET" not in said
    assert not re.search(r"SELECT COUNT\(\*\)", said)


@pytest.mark.parametrize("path", LISTS)
def test_a_hostile_cursor_is_400_and_named(api, rows, path):
    client = api()
    parts = len(json.loads(base64.urlsafe_b64decode(cursor_in(client.get(f"{path}?page_size=1").json()["next"]))))

    def written(*texts) -> str:
        return base64.urlsafe_b64encode(json.dumps(texts).encode()).decode()

    hostile = [
        "x",
        "%00",
        "=",
        "💩",
        written(),
        written(*["a"] * (parts + 1)),
        written(*[1] * parts),
        written(*[None] * parts),
        written(*["\x00"] * parts),
        written(*["\ud800"] * parts),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        base64.urlsafe_b64encode(b'{"a": "b"}').decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ]
    for cursor in hostile:
        answer = client.get(path, {"cursor": cursor})
        assert answer.status_code == 400, cursor[:40]
        assert set(answer.json()["fields"]) == {"cursor"}


def cursor_in(url: str) -> str:
    return url.partition("cursor=")[2].partition("&")[0].replace("%3D", "=")


@pytest.mark.parametrize("path", ["/v1/calendars", "/v1/api-keys", "/v1/audit"])
@pytest.mark.parametrize("number", ["99999999999999999999", "-1", "9" * 5000, str(2**63), "1.5", ""])
def test_a_number_that_no_row_can_have_is_no_position(api, rows, path, number):
    texts = {"/v1/calendars": ["a", number], "/v1/api-keys": [number]}.get(path, ["2026-03-02T12:00:00+00:00", number])
    answer = api().get(path, {"cursor": base64.urlsafe_b64encode(json.dumps(texts).encode()).decode()})
    assert answer.status_code == 400
    assert "cursor" in answer.json()["fields"]


def test_the_walk_through_runs_of_one_instant_goes_on_while_new_ones_come(api, now):
    job = JobFactory()
    first = now - timedelta(hours=1)
    made = [RunFactory.build(job=job, completed=True, kind="triggered", scheduled_for=first) for _ in range(50)]
    Run.objects.bulk_create(made)
    client, url, seen = api(), "/v1/executions?page_size=20", []
    while url:
        page = client.get(url).json()
        seen += [row["id"] for row in page["results"]]
        url = page["next"]
        RunFactory(job=job, completed=True, kind="triggered", scheduled_for=now)
    assert seen == [str(pk) for pk in sorted((run.pk for run in made), reverse=True)]
    newest = client.get("/v1/executions?page_size=3").json()["results"]
    assert not {row["id"] for row in newest} & set(seen)


FILTERS = ["", "&job_key=test:deep", "&state=failed"]


@pytest.mark.parametrize("query", FILTERS)
def test_a_page_deep_in_history_reads_its_rows_alone(api, now, query):
    """As many as are answered, however many were before: an OFFSET would read 3,000, a COUNT all 4,000."""
    job = JobFactory(job_key="test:deep")
    runs = [
        RunFactory.build(
            job=job, kind="triggered", verdict="failed", problem="failed", finished_at=now,
            scheduled_for=now - timedelta(minutes=number // 500),
        )
        for number in range(4000)
    ]  # fmt: skip
    Run.objects.bulk_create(runs, batch_size=500)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    runs.sort(key=lambda run: (run.scheduled_for, run.pk), reverse=True)
    last = runs[2999]
    cursor_text = base64.urlsafe_b64encode(json.dumps([last.scheduled_for.isoformat(), str(last.pk)]).encode()).decode()
    client, plans = api(), []
    client.get("/v1/executions")

    def explain(execute, sql, params, many, context):
        if "scheduler_run" in sql and not sql.startswith("EXPLAIN"):
            is_postgresql = connection.vendor == "postgresql"
            with connection.cursor() as cursor:
                cursor.execute(("EXPLAIN (ANALYZE) " if is_postgresql else "EXPLAIN QUERY PLAN ") + sql, params)
                plans.append("\n".join(str(row[-1]) for row in cursor.fetchall()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        answer = client.get(f"/v1/executions?page_size=100{query}&cursor={cursor_text}")
    assert [row["id"] for row in answer.json()["results"]] == [str(run.pk) for run in runs[3000:3100]]
    (plan,) = plans
    assert re.search(r"run_by_(time|job|problem)", plan), plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan
    if connection.vendor == "postgresql":
        # 500 of one instant lie between the position in the index and the first row that is past it.
        read = [int(text) for text in re.findall(r"(?:rows=|Filter: )(\d+)(?:\.\d+)? ?(?:loops|\n|$)", plan)]
        assert read
        assert max(read) <= 700, plan
