"""Pause, resume, skip the next fire, backfill; maintenance."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Job, Run
from scheduler.services.materialize import materialize
from tests.factories import JobFactory, TriggerFactory

MINUTE = timedelta(minutes=1)


@pytest.fixture
def job(db, now):
    job = JobFactory(job_key="a:b")
    TriggerFactory(job=job, every=10 * MINUTE, anchor_at=now)
    materialize(now)
    return job


def test_a_job_is_paused_for_a_reason_until_an_end_and_resumed(api, clock, job):
    client = api("jobs:write")
    answer = client.post("/v1/jobs/a:b/pause", {"reason": "disk full", "until": "2026-03-02T14:00:00+01:00"})
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "job_key": "a:b",
            "paused_at": "2026-03-02T12:00:00.000000Z",
            "paused_until": "2026-03-02T13:00:00.000000Z",
            "paused_reason": "disk full",
        },
    )
    assert client.post("/v1/jobs/a:b/pause", {"reason": None, "until": None}).json() == {
        **answer.json(),
        "paused_until": None,
        "paused_reason": "",
    }
    clock.tick(25 * MINUTE)
    for _ in range(2):
        answer = client.post("/v1/jobs/a:b/resume")
        assert (answer.status_code, answer.json()["paused_at"]) == (200, None)
    assert Run.objects.filter(verdict="skipped", reason="paused").count() == 2


def test_pausing_again_keeps_what_is_not_said(api, clock, job):
    client = api("jobs:write")
    first = client.post("/v1/jobs/a:b/pause", {"reason": "disk full", "until": "2026-03-02T13:00:00Z"}).json()
    assert client.post("/v1/jobs/a:b/pause").json() == first
    assert client.post("/v1/jobs/a:b/pause", {"reason": "new disk"}).json() == {**first, "paused_reason": "new disk"}
    # An end that has come is none: the pause begins anew, or it would be over at once.
    clock.tick(61 * MINUTE)
    assert client.post("/v1/jobs/a:b/pause").json()["paused_until"] is None


def test_a_backfill_of_the_time_before_the_schedule_says_why_it_made_nothing(api, clock, job):
    client = api("jobs:write")
    span = {"from": "2026-03-01T12:00:00Z", "until": "2026-03-02T11:55:00Z"}
    for dry_run in (True, False):
        body = client.post("/v1/jobs/a:b/backfill", {**span, "dry_run": dry_run}).json()
        assert (body["created"], body["instants"]) == (0, [])
        assert "makes what would have fired" in body["message"]
        assert "2026-03-02T12:00:00Z" in body["message"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("pause", {"until": "tomorrow"}, "until"),
        ("pause", {"until": "2026-03-02T12:00:00Z"}, "until"),
        ("pause", {"until": 7}, "until"),
        ("pause", {"reason": 7}, "reason"),
        ("pause", {"reason": "x" * 256}, "reason"),
        ("pause", {"because": "x"}, "because"),
        ("backfill", {}, "from"),
        ("backfill", {"from": "2026-03-02T11:00:00Z"}, "until"),
        ("backfill", {"from": "2026-03-02T11:00:00Z", "until": "2026-03-02T13:00:00Z"}, "until"),
        ("backfill", {"from": "2026-03-02T11:00:00Z", "until": "2026-03-02T12:00:00Z", "dry_run": 1}, "dry_run"),
        ("backfill", {"from": "x", "until": "y", "dryrun": True}, "dryrun"),
    ],
)
def test_what_is_wrong_is_400_by_field(api, job, path, body, field):
    answer = api("jobs:write").post(f"/v1/jobs/a:b/{path}", body)
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {field})
    assert Job.objects.get().paused_at is None


def test_the_next_fire_is_skipped(api, job):
    client = api("jobs:write")
    answer = client.post("/v1/jobs/a:b/skip-next")
    run = Run.objects.get(verdict="skipped")
    assert answer.json() == {"execution_id": str(run.pk), "scheduled_for": "2026-03-02T12:10:00.000000Z"}
    assert client.post("/v1/jobs/a:b/skip-next").json()["scheduled_for"] == "2026-03-02T12:20:00.000000Z"
    client.post("/v1/jobs/a:b/deactivate")
    assert client.post("/v1/jobs/a:b/skip-next").json()["error"] == "nothing_to_skip"


def test_a_backfill_is_tried_dry_and_then_done(api, clock, job):
    client = api("jobs:write")
    client.post("/v1/jobs/a:b/pause")
    clock.tick(25 * MINUTE)
    client.post("/v1/jobs/a:b/resume")
    span = {"from": "2026-03-02T12:00:00Z", "until": "2026-03-02T12:25:00Z"}
    expected = {
        "created": 0,
        "revived": 2,
        "already_there": 0,
        "instants": ["2026-03-02T12:10:00.000000Z", "2026-03-02T12:20:00.000000Z"],
        "message": None,
    }
    assert client.post("/v1/jobs/a:b/backfill", {**span, "dry_run": True}).json() == {"dry_run": True, **expected}
    assert Run.objects.filter(verdict="skipped").count() == 2
    assert client.post("/v1/jobs/a:b/backfill", span).json() == {"dry_run": False, **expected}
    assert not Run.objects.filter(verdict="skipped").exists()


@pytest.mark.parametrize("path", ["pause", "resume", "skip-next", "backfill"])
def test_another_tenants_job_is_404_and_unchanged(api, job, path):
    before = list(Run.objects.values())
    answer = api("jobs:write", tenant="acme").post(f"/v1/jobs/a:b/{path}", {})
    assert answer.status_code == 404
    assert list(Run.objects.values()) == before
    assert Job.objects.get().paused_at is None


def test_maintenance_is_begun_changed_looked_at_and_ended(api, clock):
    client = api("admin")
    off = {"on": False, "began_at": None, "until": None, "reason": ""}
    url = "/v1/system/maintenance"
    assert client.get(url).json() == off
    on = client.put(url, {"reason": "new disks", "until": "2026-03-02T13:00:00Z"})
    assert on.status_code == 200
    assert (
        client.get(url).json()
        == on.json()
        == {
            "on": True,
            "began_at": "2026-03-02T12:00:00.000000Z",
            "until": "2026-03-02T13:00:00.000000Z",
            "reason": "new disks",
        }
    )
    assert client.put(url).json() == {**on.json(), "until": None, "reason": ""}
    for body, field in (({"until": "x"}, "until"), ({"reason": 1}, "reason"), ({"why": 1}, "why")):
        refused = client.put(url, body)
        assert (refused.status_code, set(refused.json()["fields"])) == (400, {field})
    for _ in range(2):
        ended = client.delete(url)
        assert (ended.status_code, ended.json()) == (200, off)


def test_a_key_of_one_tenant_does_not_hold_the_others(api):
    client, url = api("admin", tenant="acme"), "/v1/system/maintenance"
    assert client.put(url, {"reason": "mine"}).status_code == 403
    assert client.get(url).json()["on"] is False
    api("admin").put(url)
    assert client.delete(url).status_code == 403
    assert client.get(url).json()["on"] is True
