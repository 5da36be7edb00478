"""A field of a PUT that is missing, that is null, and that is empty say three different things."""

from __future__ import annotations

import pytest

from scheduler.domain.job_fields import FIELDS, RETRY
from scheduler.domain.trigger_fields import FIELDS as SCHEDULE_FIELDS
from tests.factories import CalendarFactory, ConcurrencyGroupFactory

JOB = {
    "description": "what it does",
    "metadata": {"a": 1},
    "action": {"type": "command", "argv": ["true"]},
    "tags": ["x", "y"],
    "timeout": "90s",
    "lease": "75s",
    "max_retries": 7,
    "max_losses": 4,
    "require": ["gpu"],
    "prefer": ["ssd"],
    "pin": "runner-1",
    "priority": 5,
    "max_concurrent": 2,
    "concurrency_group": "db",
    "overlap": "skip",
    "coalesce": True,
    "queue_ttl": "600s",
    "max_queue_depth": 20,
    "catch_up": "all",
    "misfire_grace": "120s",
    "max_catch_up": 5,
    "dead_letter_enabled": False,
    "dead_letter_retention": "86400s",
    "dead_letter_operator_hint": "call somebody",
    "dead_letter_replay_max_age": "3600s",
    "retry": {"strategy": "fixed", "base": "5s", "step": "6s", "cap": "60s", "jitter": 0.5},
    "is_active": False,
}
# What is empty and no mistake: of an action none at all, of a name nobody's.
EMPTY = {"description": "", "metadata": {}, "tags": [], "require": [], "prefer": [], "pin": "", "retry": {}}
EMPTY |= {"dead_letter_operator_hint": ""}


def settings_of(body: dict) -> dict:
    return {name: body[name] for name in JOB}


@pytest.fixture
def jobs(api):
    ConcurrencyGroupFactory(name="db")
    client = api()
    plain = settings_of(client.post("/v1/jobs", {"job_key": "test:plain"}).json())
    made = client.post("/v1/jobs", {"job_key": "test:set", **JOB})
    assert made.status_code == 201, made.content
    return client, plain, settings_of(made.json())


def test_the_table_has_every_field():
    assert set(JOB) == {*FIELDS, "retry", "is_active"}
    assert set(JOB["retry"]) == set(RETRY)


def test_each_field_of_a_job_missing_stays_and_null_is_the_default_again(jobs):
    client, plain, changed = jobs
    for name in JOB:
        assert plain[name] != changed[name], name
    assert settings_of(client.put("/v1/jobs/test:set", {}).json()) == changed
    for name in JOB:
        body = settings_of(client.put("/v1/jobs/test:set", {name: None}).json())
        assert body == {**changed, name: plain[name]}, name
        assert settings_of(client.put("/v1/jobs/test:set", {name: JOB[name]}).json()) == changed, name


def test_each_field_of_a_job_that_may_be_empty_is_emptied_alone_and_the_others_refuse(jobs):
    client, _, changed = jobs
    for name in JOB:
        for empty in ("", [], {}):
            answer = client.put("/v1/jobs/test:set", {name: empty})
            if answer.status_code == 200:
                assert name in EMPTY or name == "action", (name, empty)
                # A retry rule without a word says nothing about any part of it.
                expected = changed[name] if name == "retry" else (empty or None) if name in ("pin", "action") else empty
                assert settings_of(answer.json()) == {**changed, name: expected}, (name, empty)
                client.put("/v1/jobs/test:set", {name: JOB[name]})
            else:
                assert (answer.status_code, set(answer.json()["fields"])) == (400, {name}), (name, empty)


def test_a_part_of_a_retry_rule_stays_where_it_is_not_named(jobs):
    client, plain, changed = jobs
    body = client.put("/v1/jobs/test:set", {"retry": {"cap": None}}).json()
    assert body["retry"] == {**changed["retry"], "cap": plain["retry"]["cap"]}


SCHEDULE = {
    "timezone": "Europe/Vienna",
    "calendar": "office",
    "on_blocked": "defer",
    "window": {"start": "08:00", "end": "17:00"},
    "not_before": "2026-04-01T00:00:00.000000Z",
    "not_after": "2027-04-01T00:00:00.000000Z",
    "enabled": False,
}


def test_each_field_of_a_schedule_missing_stays_and_null_is_the_default_again(api):
    assert set(SCHEDULE) == SCHEDULE_FIELDS - {"cron_expression", "every", "run_at", "anchor", "job_key"}
    CalendarFactory(name="office")
    client = api()
    client.post("/v1/jobs", {"job_key": "test:plain"})
    when = {"job_key": "test:plain", "cron_expression": "0 9 * * *"}
    plain = client.post("/v1/schedules", when).json()
    made = client.post("/v1/schedules", {**when, **SCHEDULE}).json()
    path = f"/v1/schedules/{made['trigger_id']}"

    def said(fields: dict) -> dict:
        answer = client.put(path, fields)
        assert answer.status_code == 200, (fields, answer.content)
        return {name: answer.json()[name] for name in SCHEDULE}

    assert said({}) == SCHEDULE
    for name in SCHEDULE:
        assert said({name: None}) == {**SCHEDULE, name: plain[name]}, name
        assert said({name: SCHEDULE[name]}) == SCHEDULE


def test_a_schedule_cannot_be_left_without_an_instant(api):
    client = api()
    client.post("/v1/jobs", {"job_key": "test:plain"})
    made = client.post("/v1/schedules", {"job_key": "test:plain", "every": "5m"}).json()
    for empty in (None, ""):
        answer = client.put(f"/v1/schedules/{made['trigger_id']}", {"every": empty})
        assert (answer.status_code, set(answer.json()["fields"])) == (400, {"every"})


def test_a_calendar_keeps_what_is_not_named(api):
    client = api()
    rules = [{"effect": "exclude", "weekdays": [6, 7]}]
    made = client.post("/v1/calendars", {"name": "office", "timezone": "Europe/Vienna", "rules": rules}).json()
    path = f"/v1/calendars/{made['id']}"
    assert client.put(path, {"description": "ours"}).json()["rules"] == made["rules"] != []
    assert client.put(path, {"rules": []}).json()["rules"] == []
    assert client.get(path).json()["timezone"] == "Europe/Vienna"


def test_a_post_of_a_job_that_is_there_leaves_what_it_does_not_name(jobs, api):
    """Also where the caller could not have given it back: an action needs a scope of its own."""
    client, _, before = jobs
    answer = api("jobs:read", "jobs:write").post("/v1/jobs", {"job_key": "test:set", "timeout": "10s"})
    assert answer.status_code == 200, answer.content
    assert settings_of(client.get("/v1/jobs/test:set").json()) == {**before, "timeout": "10s"}
