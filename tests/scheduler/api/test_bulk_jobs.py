"""Many jobs with one request."""

from __future__ import annotations

import pytest

from runners.models import AuditEvent
from scheduler.models import Job
from scheduler.queries import bulk
from tests.factories import JobFactory
from tests.scheduler.api.test_bulk_runs import counted, done

PAUSE, RESUME, DELETE, TAG = (f"/v1/jobs/bulk-{verb}" for verb in ("pause", "resume", "delete", "tag"))


@pytest.fixture
def jobs(db, now):
    JobFactory(job_key="a:one", tags=["nightly", "x"])
    JobFactory(job_key="a:two", tags=["nightly"], paused_at=now)
    JobFactory(job_key="a:three", tags=[])
    JobFactory(job_key="a:gone", tags=["nightly"], deleted_at=now, is_active=False)
    JobFactory(job_key="acme:job", tags=["nightly"], tenant="acme", lane__tenant="acme")


def paused() -> set[str]:
    return set(Job.objects.filter(paused_at__isnull=False).values_list("job_key", flat=True))


def test_pause_and_resume_by_a_tag(api, jobs):
    client = api("jobs:write", tenant="default")
    assert counted(client, PAUSE, tag="nightly")["ids"] == ["a:one"]
    result = done(client, PAUSE, tag="nightly", expected=1, reason="the move", until="2026-03-03T00:00:00Z")
    assert (result["changed"], result["ids"]) == (1, ["a:one"])
    job = Job.objects.get(job_key="a:one")
    assert (job.paused_reason, job.paused_until.isoformat()) == ("the move", "2026-03-03T00:00:00+00:00")
    assert paused() == {"a:one", "a:two"}
    assert done(client, PAUSE, tag="nightly", expected=0)["changed"] == 0
    assert done(client, RESUME, tag="nightly", expected=2)["changed"] == 2
    assert paused() == set()
    events = AuditEvent.objects.exclude(action="key.issued").values_list("action", "target_id")
    assert {("job.paused", "a:one"), ("job.resumed", "a:one"), ("job.resumed", "a:two")} <= set(events)


def test_delete_by_keys_and_what_is_not_there_is_not_counted(api, jobs):
    client = api(tenant="default")
    keys = ["a:one", "a:gone", "no:such", "acme:job"]
    assert counted(client, DELETE, job_keys=keys)["ids"] == ["a:one"]
    assert done(client, DELETE, job_keys=keys)["changed"] == 1
    assert Job.objects.get(job_key="a:one").deleted_at is not None
    assert Job.objects.get(job_key="acme:job").deleted_at is None


def test_all_are_meant_only_where_all_is_said(api, jobs):
    client = api()
    assert counted(client, DELETE, all=True)["matched"] == 4
    assert client.post(DELETE, {"all": True}).status_code == 400
    assert client.post(DELETE, {"all": True, "expected": 3}).status_code == 409
    assert Job.objects.filter(deleted_at__isnull=True).count() == 4
    assert done(client, DELETE, all=True, expected=4)["changed"] == 4


def test_tags_are_given_and_taken_and_the_others_stay(api, jobs):
    client = api(tenant="default")
    found = counted(client, TAG, all=True, add=["x"], remove=["nightly"])
    assert found["ids"] == ["a:one", "a:three", "a:two"]
    assert done(client, TAG, all=True, add=["x"], remove=["nightly"], expected=3)["changed"] == 3
    assert dict(Job.objects.filter(deleted_at=None).values_list("job_key", "tags")) == {
        "a:one": ["x"],
        "a:two": ["x"],
        "a:three": ["x"],
        "acme:job": ["nightly"],
    }
    assert counted(client, TAG, all=True, add=["x"], remove=["nightly"])["matched"] == 0


def test_one_that_cannot_be_changed_says_why_and_the_others_are(api, jobs):
    Job.objects.filter(job_key="a:one").update(tags=[f"tag-{n:02}" for n in range(64)])
    result = done(api(tenant="default"), TAG, all=True, add=["more"], expected=3)
    assert set(result["ids"]) == {"a:two", "a:three"}
    assert [(row["id"], row["error"]) for row in result["refused"]] == [("a:one", "invalid")]
    assert "64" in result["refused"][0]["message"]


def test_more_than_one_request_takes_are_said(api, jobs, monkeypatch):
    monkeypatch.setattr(bulk, "MOST", 2)
    found = counted(api(), DELETE, all=True)
    assert (found["matched"], found["has_more"]) == (2, True)
    monkeypatch.setattr("scheduler.api.views.bulk_jobs.MOST", 2)
    assert counted(api(), TAG, all=True, add=["y"])["has_more"] is True


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (PAUSE, {}, "expected"),
        (PAUSE, {"dry_run": True}, "job_keys"),
        (PAUSE, {"dry_run": True, "all": True, "tag": "x"}, "job_keys"),
        (PAUSE, {"dry_run": True, "all": "yes"}, "all"),
        (PAUSE, {"dry_run": True, "tag": ""}, "tag"),
        (PAUSE, {"dry_run": True, "tag": 5}, "tag"),
        (PAUSE, {"dry_run": True, "all": True, "until": "2026-03-02T12:00:00Z"}, "until"),
        (PAUSE, {"dry_run": True, "all": True, "until": "soon"}, "until"),
        (PAUSE, {"dry_run": True, "all": True, "reason": 5}, "reason"),
        (RESUME, {"dry_run": True, "job_keys": "a:one"}, "job_keys"),
        (RESUME, {"dry_run": True, "job_keys": [5]}, "job_keys"),
        (RESUME, {"dry_run": True, "all": True, "reason": "x"}, "reason"),
        (TAG, {"dry_run": True, "all": True}, "add"),
        (TAG, {"dry_run": True, "all": True, "add": ["x"], "remove": ["x"]}, "add"),
        (TAG, {"dry_run": True, "all": True, "add": ["a\nb"]}, "add"),
    ],
)
def test_a_wrong_field_is_named(api, jobs, path, body, field):
    answer = api().post(path, body)
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {field})
