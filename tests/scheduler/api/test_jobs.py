"""/v1/jobs and /v1/jobs/states."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Job, QueueEntry
from tests.factories import JobFactory, QueueEntryFactory, RunFactory, RunnerFactory, TriggerFactory

FIELDS = {
    "job_key",
    "tenant",
    "description",
    "metadata",
    "action",
    "tags",
    "managed_by",
    "timeout",
    "lease",
    "max_retries",
    "max_losses",
    "retry",
    "require",
    "prefer",
    "pin",
    "priority",
    "max_concurrent",
    "concurrency_group",
    "overlap",
    "coalesce",
    "max_queue_depth",
    "queue_ttl",
    "catch_up",
    "misfire_grace",
    "max_catch_up",
    "dead_letter_enabled",
    "dead_letter_retention",
    "dead_letter_operator_hint",
    "dead_letter_replay_max_age",
    "is_active",
    "created_at",
    "updated_at",
    "paused_at",
    "paused_until",
    "paused_reason",
}


def test_a_job_is_created_with_the_protocols_defaults_and_then_updated(api):
    client = api("jobs:write", "jobs:read")
    answer = client.post("/v1/jobs", {"job_key": "billing:invoices"})
    assert answer.status_code == 201
    body = answer.json()
    assert set(body) == FIELDS | {"warnings"}
    assert body["warnings"] == []
    assert (body["max_retries"], body["timeout"], body["lease"], body["max_losses"]) == (3, "300s", "60s", 2)
    assert body["retry"] == {"strategy": "exponential", "base": "2s", "step": "2s", "cap": "3600s", "jitter": 0.1}
    assert (body["max_queue_depth"], body["dead_letter_retention"]) == (10, "2592000s")
    assert body["created_at"] == "2026-03-02T12:00:00.000000Z"
    answer = client.post("/v1/jobs", {"job_key": "billing:invoices", "timeout": "1.5h", "tags": ["money"]})
    assert answer.status_code == 200
    assert answer.json()["timeout"] == "5400s"
    assert client.get("/v1/jobs/billing:invoices").json() | {"warnings": []} == answer.json()


def test_put_changes_what_it_names_and_null_is_the_default_again(api):
    client = api()
    client.post("/v1/jobs", {"job_key": "a:b", "description": "why", "timeout": "10s", "max_retries": 7})
    body = client.put("/v1/jobs/a:b", {"timeout": None}).json()
    assert (body["timeout"], body["description"], body["max_retries"]) == ("300s", "why", 7)
    assert client.put("/v1/jobs/a:none", {}).status_code == 404
    answer = client.put("/v1/jobs/a:b", {"job_key": "a:c"})
    assert answer.status_code == 400
    assert "job_key" in answer.json()["fields"]


def test_what_was_read_may_be_written_back(api):
    client = api()
    client.post("/v1/jobs", {"job_key": "a:b", "action": {"type": "command", "argv": ["true"]}, "require": ["gpu"]})
    body = client.get("/v1/jobs/a:b").json()
    body["description"] = "edited"
    answer = client.put("/v1/jobs/a:b", body)
    assert answer.status_code == 200, answer.content
    assert answer.json() == body | {"warnings": answer.json()["warnings"]}
    assert client.put("/v1/jobs/a:b", {**body, "created_at": "2020-01-01T00:00:00Z"}).status_code == 400


def test_a_pause_is_told_with_its_reason_and_its_end_and_stays_when_written_back(api):
    client = api()
    client.post("/v1/jobs", {"job_key": "a:b"})
    assert client.get("/v1/jobs/a:b").json()["paused_at"] is None
    paused = client.post("/v1/jobs/a:b/pause", {"reason": "moving", "until": "2026-03-02T13:00:00Z"}).json()
    assert paused["paused_until"] == "2026-03-02T13:00:00.000000Z"
    body = client.get("/v1/jobs/a:b").json()
    assert {name: body[name] for name in paused} == paused
    (state,) = client.get("/v1/jobs/states").json()
    assert (state["paused_until"], state["paused_reason"]) == (paused["paused_until"], "moving")
    assert client.put("/v1/jobs/a:b", {**body, "description": "edited"}).json()["paused_reason"] == "moving"
    assert client.put("/v1/jobs/a:b", {"paused_reason": "another"}).status_code == 400


def test_a_length_of_time_is_no_end_of_a_pause_and_the_refusal_says_what_is(api):
    client = api()
    client.post("/v1/jobs", {"job_key": "a:b"})
    answer = client.post("/v1/jobs/a:b/pause", {"until": "2h"})
    assert (answer.status_code, answer.json()["fields"]["until"]) == (
        400,
        [
            "until is an instant with its offset, such as 2026-12-24T12:00:00Z. A length of time is none: say when "
            "that is over."
        ],
    )


def test_a_lease_that_sdk_runners_renew_too_late_is_warned_of(api):
    client = api()
    (warning,) = client.post("/v1/jobs", {"job_key": "a:b", "lease": "44s"}).json()["warnings"]
    assert "44s" in warning
    assert client.put("/v1/jobs/a:b", {"lease": "45s"}).json()["warnings"] == []
    # The reference runner, which runs commands, renews every third of the lease.
    command = {"job_key": "a:c", "lease": "5s", "action": {"type": "command", "argv": ["true"]}}
    assert client.post("/v1/jobs", command).json()["warnings"] == []


def test_a_requirement_that_no_live_runner_meets_is_warned_of(api, now):
    minutes = timedelta(minutes=5)
    RunnerFactory(capabilities=["gpu"], last_poll_at=now - minutes)
    RunnerFactory(capabilities=["tape"], last_poll_at=now - minutes - timedelta(microseconds=1))
    RunnerFactory(capabilities=["disk"], last_poll_at=now, client__tenant="acme")
    RunnerFactory(capabilities=["gp"], last_poll_at=now, drained_at=now)
    client = api()
    job = {"job_key": "a:b", "require": ["disk", "gp", "gpu", "tape"]}
    answer = client.post("/v1/jobs", job)
    assert answer.status_code == 201
    disk, gp, tape = answer.json()["warnings"]
    assert ("'disk'" in disk, "'gp'" in gp, "'tape'" in tape) == (True, True, True)
    assert len(client.put("/v1/jobs/a:b", {"require": ["gpu", "tape"]}).json()["warnings"]) == 1
    assert client.put("/v1/jobs/a:b", {"require": ["gpu"]}).json()["warnings"] == []
    acme = client.post("/v1/jobs", {**job, "job_key": "a:c", "tenant": "acme", "require": ["disk"]})
    assert (acme.status_code, acme.json()["warnings"]) == (201, [])


def test_unknown_fields_are_refused_by_name_and_nothing_is_written(api):
    for client, write in ((api(), "post"), (api(), "put")):
        JobFactory(job_key=f"x:{write}")
        path = "/v1/jobs" if write == "post" else "/v1/jobs/x:put"
        answer = getattr(client, write)(path, {"job_key": f"x:{write}", "descriptoin": "typo"})
        assert answer.status_code == 400
        assert "descriptoin" in answer.json()["fields"]
        assert Job.objects.get(job_key=f"x:{write}").description == ""


@pytest.mark.parametrize("write", ["post", "put"])
def test_saying_what_is_executed_needs_the_scope_jobs_exec(api, write):
    JobFactory(job_key="a:b")
    action = {"type": "command", "argv": ["id"]}
    client = api("jobs:write")
    path = "/v1/jobs" if write == "post" else "/v1/jobs/a:b"
    answer = getattr(client, write)(path, {"job_key": "a:b", "action": action})
    assert answer.status_code == 403
    assert Job.objects.get().action == {}
    answer = getattr(api("jobs:write", "jobs:exec"), write)(path, {"job_key": "a:b", "action": action})
    assert answer.status_code == 200


def test_delete_takes_the_job_off_the_lists_and_keeps_its_history(api):
    job = JobFactory(job_key="a:b")
    run = RunFactory(job=job, completed=True)
    client = api()
    assert client.delete("/v1/jobs/a:b").status_code == 204
    assert client.get("/v1/jobs/a:b").status_code == 404
    assert client.delete("/v1/jobs/a:b").status_code == 404
    assert client.get("/v1/jobs").json() == []
    assert client.get(f"/v1/executions/{run.id}").json()["job_key"] == "a:b"


def test_deactivate_and_activate(api):
    JobFactory(job_key="a:b:c")
    client = api("jobs:write", "jobs:read")
    assert client.post("/v1/jobs/a:b:c/deactivate").json()["is_active"] is False
    assert client.get("/v1/jobs/states").json()[0]["status"] == "inactive"
    assert client.post("/v1/jobs/a:b:c/activate", {}).json()["is_active"] is True
    assert client.post("/v1/jobs/no:such/activate").status_code == 404


@pytest.mark.parametrize("key", ["nocolon", "a:%00", "a:b%0A", "x" * 3000, "%F0%9F%92%A9:x", "..", "a:%ED%A0%80"])
def test_a_key_that_is_none_is_404(api, key):
    client = api()
    for method in ("get", "delete"):
        assert getattr(client, method)(f"/v1/jobs/{key}").status_code == 404
    assert client.put(f"/v1/jobs/{key}", {}).status_code == 404


def test_the_list_is_by_key_filtered_by_tag_and_paged(api):
    for number, tags in enumerate([["x"], ["x", 'quo"te'], [], ["xx"], ["y"]]):
        JobFactory(job_key=f"job:{number}", tags=tags)
    JobFactory(job_key="job:gone", tags=["x"], deleted_at="2026-01-01T00:00:00Z")
    client = api()

    def keys(path: str) -> list[str]:
        body = client.get(path).json()
        return [row["job_key"] for row in (body if isinstance(body, list) else body["results"])]

    assert keys("/v1/jobs") == [f"job:{number}" for number in range(5)]
    assert keys("/v1/jobs?tag=x") == ["job:0", "job:1"]
    assert keys("/v1/jobs?tag=quo%22te") == ["job:1"]
    assert keys("/v1/jobs?tag=no") == []
    assert keys("/v1/jobs/states?tag=x") == ["job:0", "job:1"]
    assert keys("/v1/jobs?page_size=2") == ["job:0", "job:1"]
    page = client.get(client.get("/v1/jobs?page_size=2").json()["next"]).json()
    assert [row["job_key"] for row in page["results"]] == ["job:2", "job:3"]
    last = client.get(page["next"]).json()
    assert ([row["job_key"] for row in last["results"]], last["next"]) == (["job:4"], None)


def test_states_tell_when_a_job_fires_next_and_fired_last(api, now):
    planned = JobFactory(job_key="a:planned")
    QueueEntryFactory(
        job=planned, run__scheduled_for=now + timedelta(minutes=3), available_at=now + timedelta(minutes=3)
    )
    RunFactory(job=planned, completed=True, scheduled_for=now - timedelta(minutes=1))
    RunFactory(job=planned, completed=True, scheduled_for=now - timedelta(minutes=5))
    daily = JobFactory(job_key="b:beyond-the-horizon")
    TriggerFactory(job=daily, every=timedelta(days=1))
    broken = JobFactory(job_key="c:broken")
    TriggerFactory(job=broken, config_error="The zone is gone.", kind="cron", cron_expression="x", every=None)
    late = JobFactory(job_key="d:late")
    QueueEntryFactory(job=late, available_at=now - timedelta(minutes=2))
    states = {state["job_key"]: state for state in api("jobs:read").get("/v1/jobs/states").json()}
    assert states["a:planned"] == {
        "job_key": "a:planned",
        "status": "active",
        "paused_until": None,
        "paused_reason": "",
        "next_fire_at": "2026-03-02T12:03:00.000000Z",
        "last_fired_at": "2026-03-02T11:59:00.000000Z",
        "fire_count": 2,
        "overdue": False,
        "config_error": None,
    }
    assert states["b:beyond-the-horizon"]["next_fire_at"] == "2026-03-03T12:00:00.000000Z"
    assert states["c:broken"]["config_error"] == "The zone is gone."
    assert states["c:broken"]["next_fire_at"] is None
    assert states["d:late"]["overdue"] is True


def test_a_paused_job_is_neither_overdue_nor_about_to_fire(api, now):
    job = JobFactory(paused_at=now)
    QueueEntryFactory(job=job, state=QueueEntry.State.HELD, available_at=now - timedelta(hours=1))
    QueueEntryFactory(job=job, available_at=now - timedelta(hours=1))
    (state,) = api().get("/v1/jobs/states").json()
    assert (state["status"], state["overdue"], state["next_fire_at"]) == ("paused", False, None)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tmeout": "5m"}, "tmeout is not a field that is known here. Did you mean timeout?"),
        ({"Max_Retry": 1}, "Did you mean max_retries?"),
        ({"retry": {"jiter": 0.1}}, "retry.jiter is not a field that is known here. Did you mean retry.jitter?"),
        ({"retry": {"x": 1}}, "There are base, cap, jitter, step, strategy."),
    ],
)
def test_a_field_that_is_not_known_is_named_with_one_like_it_or_all(api, fields, says):
    answer = api("jobs:write").post("/v1/jobs", {"job_key": "ops:x", **fields}, format="json")
    assert answer.status_code == 400
    assert says in answer.json()["message"]
