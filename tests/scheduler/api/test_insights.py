"""Statistics of runs, tags and the audit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.queries import statistics
from tests.factories import AuditEventFactory, JobFactory, QueueEntryFactory, RunFactory


def ended(job, at, verdict="completed", **columns):
    problem = None if verdict == "completed" else verdict
    return RunFactory(job=job, scheduled_for=at, verdict=verdict, problem=problem, finished_at=at, **columns)


def test_what_became_of_a_jobs_runs(api, now):
    job = JobFactory(job_key="test:stats")
    for age, milliseconds in enumerate([10, 20, 30, 40]):
        ended(job, now - timedelta(hours=age), duration_ms=milliseconds)
    ended(job, now - timedelta(hours=5), "failed", duration_ms=9999)
    ended(job, now - timedelta(hours=6), "dead")
    ended(job, now - timedelta(hours=7), "skipped")
    ended(job, now - timedelta(hours=8), "cancelled")
    ended(job, now - timedelta(days=7), "failed")  # its last instant is outside
    ended(JobFactory(), now, "failed")
    RunFactory(job=job, scheduled_for=now - timedelta(minutes=1))
    body = api("executions:read").get("/v1/jobs/test:stats/stats").json()
    assert body == {
        "job_key": "test:stats",
        "days": 7,
        "total": 8,
        "completed": 4,
        "failed": 1,
        "dead": 1,
        "cancelled": 1,
        "skipped": 1,
        "success_rate": pytest.approx(4 / 6),
        "p50_ms": 20,
        "p95_ms": 40,
        "p99_ms": 40,
    }
    assert api().get("/v1/jobs/test:stats/stats?days=8").json()["failed"] == 2


def test_a_job_that_never_ran_has_no_rate(api):
    JobFactory(job_key="test:idle")
    body = api().get("/v1/jobs/test:idle/stats").json()
    assert (body["total"], body["success_rate"], body["p50_ms"]) == (0, None, None)


def test_the_percentiles_are_of_the_newest(api, now, monkeypatch):
    monkeypatch.setattr(statistics, "MOST_DURATIONS", 2)
    job = JobFactory(job_key="test:many")
    for age, milliseconds in enumerate([1, 3, 500]):
        ended(job, now - timedelta(hours=age), duration_ms=milliseconds)
    assert api().get("/v1/jobs/test:many/stats").json()["p99_ms"] == 3


@pytest.mark.parametrize(
    ("window", "bucket_minutes", "buckets", "first", "last"),
    [
        ("24h", 60, 25, "2026-03-01T12:00:00.000000Z", "2026-03-02T12:00:00.000000Z"),
        ("7d", 360, 29, "2026-02-23T12:00:00.000000Z", "2026-03-02T12:00:00.000000Z"),
        ("30d", 1440, 31, "2026-01-31T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z"),
    ],
)
def test_throughput_has_every_bucket_of_its_window(api, clock, now, window, bucket_minutes, buckets, first, last):
    clock.set(now + timedelta(minutes=30))
    job = JobFactory()
    ended(job, now + timedelta(minutes=29))
    ended(job, now + timedelta(minutes=30), "dead")
    ended(job, now + timedelta(minutes=31), "failed")  # a skipped future: not of the window
    ended(job, now - timedelta(hours=24))
    ended(job, now, "skipped")  # at the first instant of a bucket
    # What has not ended: it waits, runs, waits for its next attempt; and what has, although its handler winds down.
    QueueEntryFactory(run__scheduled_for=now)
    QueueEntryFactory(claimed=True, run__scheduled_for=now)
    QueueEntryFactory(attempt=1, available_at=now + timedelta(hours=1), run__scheduled_for=now)
    QueueEntryFactory(stopping=True, run__scheduled_for=now)
    body = api("executions:read").get(f"/v1/executions/throughput?window={window}").json()
    assert (body["window"], body["bucket_minutes"], len(body["buckets"])) == (window, bucket_minutes, buckets)
    assert (body["buckets"][0]["start_at"], body["buckets"][-1]["start_at"]) == (first, last)
    assert body["buckets"][-1] == {
        "start_at": last, "completed": 1, "failed": 0, "dead": 1, "cancelled": 1, "skipped": 1
    }  # fmt: skip
    assert sum(bucket["completed"] for bucket in body["buckets"]) == 2


def test_failures_by_the_weekday_and_hour_of_a_zone(api, now):
    job = JobFactory()
    minute = timedelta(minutes=1)
    sunday_night = now.replace(day=1, hour=23, minute=59)
    ended(job, sunday_night, "failed")
    ended(job, sunday_night - minute, "dead")
    ended(job, sunday_night - 2 * minute, "cancelled")
    ended(job, sunday_night - timedelta(days=28), "failed")
    rows = api("executions:read").get("/v1/insights/failures").json()["rows"]
    assert (rows[6][23], sum(map(sum, rows))) == (2, 2)
    body = api().get("/v1/insights/failures?timezone=Europe/Berlin&days=40").json()
    assert (body["rows"][0][0], body["timezone"], body["days"]) == (3, "Europe/Berlin", 40)


def test_tags_with_how_many_jobs_carry_them(api):
    JobFactory(tags=["b", "a"])
    JobFactory(tags=["b"], tenant="other")
    JobFactory(tags=["gone"], deleted_at="2026-03-01T00:00:00Z")
    assert api("jobs:read").get("/v1/tags").json() == [{"tag": "a", "jobs": 1}, {"tag": "b", "jobs": 2}]
    assert api("jobs:read", tenant="other").get("/v1/tags").json() == [{"tag": "b", "jobs": 1}]


def test_a_tenant_sees_nothing_of_others(api, now):
    job = JobFactory(job_key="test:foreign", tenant="other")
    ended(job, now, "failed")
    client = api(tenant="default")
    assert client.get("/v1/jobs/test:foreign/stats").status_code == 404
    assert sum(map(sum, client.get("/v1/insights/failures").json()["rows"])) == 0
    assert client.get("/v1/executions/throughput").json()["buckets"][-1]["failed"] == 0


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/jobs/test:stats/stats?days=0", "days"),
        ("/v1/jobs/test:stats/stats?days=367", "days"),
        ("/v1/insights/failures?days=x", "days"),
        ("/v1/insights/failures?timezone=Europe/Berln", "timezone"),
        ("/v1/executions/throughput?window=1y", "window"),
        ("/v1/audit?since=yesterday", "since"),
        ("/v1/audit?cursor=W10=", "cursor"),
        ("/v1/audit?action=%00", "action"),
    ],
)
def test_a_wrong_parameter_is_named(api, path, field):
    JobFactory(job_key="test:stats")
    answer = api().get(path)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])


def test_the_audit_is_filtered_and_confined(api, now):
    wanted = AuditEventFactory(action="job.updated", target_type="job", target_id="a:b", tenant="other", diff={"x": 1})
    for columns in (
        {"action": "job.created", "target_type": "job", "target_id": "a:b", "tenant": "other"},
        {"action": "job.updated", "target_type": "job", "target_id": "a:c", "tenant": "other"},
        {"action": "job.updated", "target_type": "job", "target_id": "a:b", "created_at": now - timedelta(days=1)},
    ):
        AuditEventFactory(**columns)
    query = "action=job.updated&target_type=job&target_id=a:b&since=2026-03-02T00:00:00Z&actor_type=system"
    (event,) = api("audit:read").get(f"/v1/audit?{query}").json()
    assert event == {
        "event_id": str(wanted.event_id),
        "actor_type": "system",
        "actor_id": "",
        "action": "job.updated",
        "target_type": "job",
        "target_id": "a:b",
        "tenant": "other",
        "request_id": None,
        "diff": {"x": 1},
        "created_at": "2026-03-02T12:00:00.000000Z",
    }
    assert api("audit:read").get("/v1/audit?until=2026-03-02T00:00:00Z&target_id=a:b").json()[0]["tenant"] == ""
    seen = api("audit:read", tenant="other").get("/v1/audit").json()
    assert [event["action"] for event in seen] == ["api_key.issued", "job.updated", "job.created", "job.updated"]


def test_pages_of_the_audit_lose_and_repeat_none_of_one_instant(api):
    events = {str(AuditEventFactory().event_id) for _ in range(5)}
    client = api("audit:read", tenant="")
    seen, path = [], "/v1/audit?page_size=2&action=test.happened"
    while path:
        body = client.get(path).json()
        seen += [event["event_id"] for event in body["results"]]
        path = body["next"]
    assert len(seen) == 5
    assert set(seen) == events
