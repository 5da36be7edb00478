"""/v1/jobs/register and /v1/trigger, as they look on the wire."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Job, QueueEntry, Run, Trigger
from tests.factories import JobFactory, QueueEntryFactory

REGISTRATION = {
    "job_key": "python:every-two-seconds",
    "schedule": "2s",
    "timezone": "UTC",
    "timeout": "30s",
    "runner_id": "worker-1",
    "capabilities": ["python"],
    "description": "from an SDK",
}


def test_register_is_201_once_and_200_for_the_same_again(api):
    client = api("jobs:register")
    first = client.post("/v1/jobs/register", REGISTRATION)
    assert first.status_code == 201, first.content
    trigger = Trigger.objects.get()
    assert first.json() == {
        "job_key": "python:every-two-seconds",
        "trigger_id": str(trigger.pk),
        "status": "registered",
    }
    runs = set(Run.objects.values_list("pk", flat=True))
    again = client.post("/v1/jobs/register", REGISTRATION)
    assert (again.status_code, again.json()) == (200, first.json())
    assert set(Run.objects.values_list("pk", flat=True)) == runs
    job = Job.objects.get()
    assert (job.require, job.timeout_seconds, job.pin) == (["python"], 30, "")


def test_a_job_of_the_jobs_file_wins_over_a_registration(api):
    JobFactory(job_key="a:b", managed_by="file")
    answer = api().post("/v1/jobs/register", {"job_key": "a:b", "schedule": "5m"})
    assert answer.status_code == 200
    assert answer.json()["status"] == "skipped_dsl_precedence"
    assert answer.json()["trigger_id"] is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"job_key": "nocolon"}, "job_key"),
        ({"job_key": None}, "job_key"),
        ({"schedule": "every now and then"}, "schedule|cron_expression"),
        ({"schedule": "0s"}, "schedule|every"),
        ({"schedule": None}, "schedule"),
        ({"schedule": ["5m"]}, "schedule"),
        ({"schedule": "* * * * *", "timezone": "Mars/Olympus"}, "timezone"),
        ({"timeout": "-1s"}, "timeout"),
        ({"timeout": {}}, "timeout"),
        ({"capabilities": "python"}, "capabilities"),
        ({"capabilities": [1]}, "capabilities"),
        ({"capabilities": ["runner:other"]}, "capabilities"),
        ({"runner_id": 5}, "runner_id"),
        ({"action": {"type": "command", "argv": ["id"]}}, "action"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 10**30}, "max_retries"),
        ({"description": 5}, "description"),
        ({"surprise": 1}, "surprise"),
    ],
    ids=str,
)
def test_a_registration_that_is_none_is_400_by_field_and_leaves_nothing(api, changes, named):
    answer = api().post("/v1/jobs/register", REGISTRATION | changes)
    assert answer.status_code == 400, answer.content
    assert set(answer.json()["fields"]) & set(named.split("|")), answer.json()
    assert not Job.objects.exists()


def test_trigger_makes_a_run_that_is_due_now(api, now):
    job = JobFactory(job_key="a:b", paused_at=now)
    answer = api("jobs:trigger").post(
        "/v1/trigger", {"job_key": "a:b", "metadata": {"n": 1, "__runner_exec": {"argv": ["id"]}}, "timeout": "90s"}
    )
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert body == {"execution_id": body["execution_id"], "queued": 1, "deduplicated": False, "coalesced": False}
    run = Run.objects.get(pk=body["execution_id"])
    assert (run.job_id, run.kind, run.metadata, run.scheduled_for) == (job.pk, "triggered", {"n": 1}, now)
    assert (run.entry.timeout_seconds, run.entry.state) == (90, QueueEntry.State.READY)


def test_trigger_makes_a_run_for_later(api, now):
    JobFactory(job_key="a:b")
    client = api()
    at = now + timedelta(days=2)
    body = client.post("/v1/trigger", {"job_key": "a:b", "run_at": at.isoformat()}).json()
    assert body == {"execution_id": body["execution_id"], "queued": 0, "deduplicated": False, "coalesced": False}
    run = client.get(f"/v1/executions/{body['execution_id']}").json()
    assert (run["state"], run["fire_at"], run["scheduled_for"]) == (
        "queued",
        "2026-03-04T12:00:00.000000Z",
        run["fire_at"],
    )


def test_the_same_key_gives_the_same_run(api):
    JobFactory(job_key="a:b")
    client = api()
    first, second = (
        client.post("/v1/trigger", {"job_key": "a:b", "idempotency_key": "order-7"}).json() for _ in range(2)
    )
    assert first["execution_id"] == second["execution_id"]
    assert (first["deduplicated"], second["deduplicated"]) == (False, True)
    # A blank key is none.
    blank = {
        client.post("/v1/trigger", {"job_key": "a:b", "idempotency_key": key}).json()["execution_id"] for key in " "
    }
    assert first["execution_id"] not in blank
    assert Run.objects.count() == 2


def test_a_full_queue_is_429_with_retry_after_and_the_sdks_body(api):
    job = JobFactory(job_key="a:b", max_queue_depth=2)
    QueueEntryFactory.create_batch(2, job=job)
    answer = api().post("/v1/trigger", {"job_key": "a:b", "idempotency_key": "k"})
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) >= 1
    body = answer.json()
    assert (body["execution_id"], body["queued"], body["deduplicated"]) == ("", 0, False)
    assert body["error"] == "queue_full"
    assert Run.objects.count() == 2
    assert not job.idempotency_keys.exists()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"job_key": None}, "job_key"),
        ({"job_key": 5}, "job_key"),
        ({"job_key": "a"}, "job_key"),
        ({"metadata": []}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata": {"a": "x" * 70_000}}, "metadata"),
        ({"metadata": {"a": 10**400}}, "metadata"),
        ({"require": "gpu"}, "require"),
        ({"require": [""]}, "require"),
        ({"require": ["runner:x"]}, "require"),
        ({"prefer": [None]}, "prefer"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": "99999999d"}, "timeout"),
        ({"idempotency_key": "k" * 201}, "idempotency_key"),
        ({"idempotency_key": ["k"]}, "idempotency_key"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"priority": 5}, "priority"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_trigger_that_is_none_is_400_by_field_and_makes_no_run(api, fields, named):
    JobFactory(job_key="a:b")
    answer = api().post("/v1/trigger", {"job_key": "a:b"} | fields)
    assert answer.status_code == 400, answer.content
    assert named in answer.json()["fields"], answer.json()
    assert not Run.objects.exists()


@pytest.mark.parametrize("empty", [None, [], "", {}], ids=str)
def test_what_is_empty_inherits_the_jobs(api, empty):
    job = JobFactory(job_key="a:b", timeout_seconds=77)
    body = {"job_key": "a:b"}
    if empty in (None, []):
        body |= {"require": empty, "prefer": empty}
    if empty in (None, ""):
        body |= {"timeout": empty, "idempotency_key": empty}
    if empty in (None, {}):
        body |= {"metadata": empty}
    answer = api().post("/v1/trigger", body)
    assert answer.status_code == 200, answer.content
    entry = QueueEntry.objects.get()
    assert (entry.lane_id, entry.timeout_seconds) == (job.lane_id, 77)


def test_an_unknown_job_is_404(api):
    assert api().post("/v1/trigger", {"job_key": "no:such"}).status_code == 404
