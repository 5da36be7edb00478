"""/v1/jobs/{key}/history and revert, and those of calendars."""

from __future__ import annotations

import pytest

from scheduler.models import Job

JOB = "/v1/jobs/demo:job"


@pytest.fixture
def client(api):
    client = api("admin")
    client.post("/v1/jobs", {"job_key": "demo:job", "description": "first"})
    client.post("/v1/schedules", {"job_key": "demo:job", "every": "5m"})
    client.put(JOB, {"description": "second"})
    return client


def test_the_history_of_a_job_has_its_edits_and_those_of_its_schedules(client):
    edits = client.get(f"{JOB}/history").json()
    assert [(edit["action"], edit["revertible"]) for edit in edits] == [
        ("job.updated", True),
        ("trigger.created", False),
        ("job.created", False),
    ]
    assert edits[0]["diff"] == {"description": ["first", "second"]}
    assert edits[0]["actor_id"] == client.owner.name
    first = client.get(f"{JOB}/history?page_size=2").json()
    second = client.get(first["next"]).json()
    assert [edit["event_id"] for edit in first["results"] + second["results"]] == [edit["event_id"] for edit in edits]
    assert second["next"] is None


def test_an_edit_is_taken_back_and_answers_the_job(client):
    event_id = client.get(f"{JOB}/history").json()[0]["event_id"]
    answer = client.post(f"{JOB}/revert", {"event_id": event_id}, headers={"X-Request-ID": "back-1"})
    assert (answer.status_code, answer.json()["description"]) == (200, "first")
    newest = client.get(f"{JOB}/history").json()[0]
    assert (newest["action"], newest["diff"]["reverts"], newest["request_id"]) == ("job.reverted", event_id, "back-1")
    again = client.post(f"{JOB}/revert", {"event_id": event_id})
    assert (again.status_code, again.json()["error"]) == (409, "changed_since")
    assert again.json()["changed"] == ["description"]


@pytest.mark.parametrize("body", [{}, {"event_id": 1}, {"event_id": "x"}, {"event_id": None}, {"event_id": ["x"]}])
def test_nonsense_is_refused_by_its_field(client, body):
    answer = client.post(f"{JOB}/revert", body)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["event_id"])


def test_what_is_in_another_history_is_404(client):
    client.post("/v1/jobs", {"job_key": "demo:other"})
    event_id = client.get(f"{JOB}/history").json()[0]["event_id"]
    assert client.post("/v1/jobs/demo:other/revert", {"event_id": event_id}).status_code == 404
    assert client.post("/v1/jobs/demo:none/revert", {"event_id": event_id}).status_code == 404
    assert client.get("/v1/jobs/demo:none/history").status_code == 404


def test_an_edit_of_a_schedule_needs_the_scope_of_schedules(api, client):
    trigger_id = client.get("/v1/schedules").json()[0]["trigger_id"]
    client.put(f"/v1/schedules/{trigger_id}", {"every": "7m"})
    event_id = client.get(f"{JOB}/history").json()[0]["event_id"]
    refused = api("jobs:write").post(f"{JOB}/revert", {"event_id": event_id})
    assert (refused.status_code, refused.json()["error"]) == (403, "missing_scope")
    assert api("jobs:write", "schedules:write").post(f"{JOB}/revert", {"event_id": event_id}).status_code == 200
    assert client.get("/v1/schedules").json()[0]["every"] == "300s"


def test_a_job_of_the_jobs_file_is_not_taken_back(client):
    event_id = client.get(f"{JOB}/history").json()[0]["event_id"]
    Job.objects.update(managed_by="file")
    answer = client.post(f"{JOB}/revert", {"event_id": event_id})
    assert (answer.status_code, answer.json()["error"]) == (409, "file_managed")


def test_a_calendar_is_taken_back_with_its_rules(client):
    rules = [{"effect": "exclude", "weekdays": ["sat"]}]
    made = client.post("/v1/calendars", {"name": "c", "timezone": "UTC", "rules": rules}).json()
    path = f"/v1/calendars/{made['id']}"
    client.put(path, {"rules": [], "timezone": "Asia/Tokyo"})
    edits = client.get(f"{path}/history").json()
    assert [edit["action"] for edit in edits] == ["calendar.updated", "calendar.created"]
    answer = client.post(f"{path}/revert", {"event_id": edits[0]["event_id"]})
    assert answer.status_code == 200
    assert {**answer.json(), "updated_at": ""} == {**made, "updated_at": ""}
