"""Whatever is sent, to whichever path: a refusal with its status, never 500."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User

from runners.api.parsers import MOST_BYTES
from scheduler.models import Job, Run, Trigger
from tests.factories import AlertRuleFactory, ApiKeyFactory, JobFactory, RunnerFactory
from tests.scheduler.api.test_access import METHODS, path_of

WRITES = [
    (route, method)
    for route, _, method in METHODS
    if method in ("POST", "PUT")
    and not route.endswith(("/activate", "/deactivate", "/resume", "/skip-next", "/cancel", "/test"))
    and not route.startswith("v1/work/")  # these have bodies of their own kind: test_work_parity
]
WRITE_IDS = [f"{method} {route}" for route, method in WRITES]


@pytest.fixture
def paths(everything):
    """The path of each route, of things that are there."""
    job, run = everything["job"], everything["run_with_log"]
    trigger, calendar = job.triggers.get(), job.triggers.get().calendar
    key = ApiKeyFactory()

    def path(route: str) -> str:
        for name, value in {
            "<str:job_key>": job.job_key,
            "<str:trigger_id>": trigger.pk,
            "<str:calendar_id>": calendar.pk,
            "<str:execution_id>": run.pk,
            "<str:letter_id>": job.dead_letters.get().pk,
            "<str:client_id>": key.client_id,
            "<str:key_id>": key.pk,
            "<str:runner_id>": RunnerFactory().runner_id,
            "<str:rule_id>": AlertRuleFactory().pk,
            "<str:user_id>": User.objects.get_or_create(username="vera")[0].pk,
        }.items():
            route = route.replace(name, str(value))
        return path_of(route)

    return path


BODIES = {
    "nothing": b"",
    "no json": b"{",
    "two": b"{}{}",
    "an array": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "a number": b"5",
    "not utf-8": b'{"job_key": "\xff"}',
    "utf-16": '{"job_key": "a:b"}'.encode("utf-16"),
    "nan": b'{"job_key": NaN}',
    "infinity": b'{"job_key": -Infinity}',
    "a large number": b'{"job_key": 1e999}',
    "thousands of digits": b'{"job_key": ' + b"9" * 5000 + b"}",
    "a name twice": b'{"job_key": "a:b", "job_key": "a:c"}',
    "nul": b'{"job_key": "a:\\u0000"}',
    "a lone surrogate": b'{"description": "\\ud800", "job_key": "a:b"}',
    "a nul in a name": b'{"a\\u0000b": 1}',
    "a lone surrogate in a name": b'{"\\udfff": 1}',
    "a nul deep inside": b'{"metadata": {"a": [{"b": "\\u0000"}]}, "job_key": "a:b"}',
    "deep": b'{"metadata": ' + b'{"a":' * 100 + b"1" + b"}" * 101,
    "very deep": b'{"metadata": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "unknown": b'{"surprise": 1}',
}


def counts() -> tuple[int, ...]:
    return Job.objects.count(), Trigger.objects.count(), Run.objects.count()


@pytest.mark.parametrize(("route", "method"), WRITES, ids=WRITE_IDS)
def test_a_body_that_is_none_is_400_and_changes_nothing(api, paths, route, method):
    client, before = api(), counts()
    for name, body in BODIES.items():
        answer = client.generic(method, paths(route), body, content_type="application/json")
        # A group is nothing but its limit: without one there is nothing to put.
        may_be_empty = (method == "PUT" and "groups" not in route) or route.endswith(
            ("/pause", "/replay", "/rotate", "/drain", "/password")
        )
        if name == "nothing" and may_be_empty:
            assert answer.status_code in (200, 201)  # nothing named: nothing changed, or by what is usual
            before = counts()
        else:
            assert answer.status_code == 400, (name, answer.content)
            assert answer.json()["error"]
            assert answer.json()["message"]
        assert counts() == before, name


@pytest.mark.parametrize(("route", "method"), WRITES, ids=WRITE_IDS)
def test_a_body_over_1_mib_is_413(api, paths, route, method):
    body = b'{"description": "' + b"x" * MOST_BYTES + b'"}'
    answer = api().generic(method, paths(route), body, content_type="application/json")
    assert answer.status_code == 413
    assert answer.json()["error"] == "too_large"


@pytest.mark.parametrize(("route", "method"), WRITES, ids=WRITE_IDS)
def test_a_body_of_another_type_is_415(api, paths, route, method):
    client = api()
    for content_type in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = client.generic(method, paths(route), b'{"a": 1}', content_type=content_type)
        assert answer.status_code == 415, content_type
        assert answer.json()["error"] == "unsupported_media_type"
        assert "application/json" in answer.json()["message"]


WRONG = [
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    10**400,
    -(2**63),
    "",
    " ",
    "x",
    "-1s",
    "0s",
    "1e9d",
    "x" * 70_000,
    "\u202e",
    "a\nb",
    "'; DROP TABLE scheduler_job; --",
    [],
    [None],
    [""],
    [1],
    ["x"] * 1000,
    [[]],
    {},
    {"x": None},
    {"type": "command"},
    {"strategy": 5, "base": None},
]
JOB_FIELDS = [
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
]
SCHEDULE_FIELDS = [
    "job_key",
    "cron_expression",
    "every",
    "anchor",
    "run_at",
    "timezone",
    "calendar",
    "on_blocked",
    "window",
    "not_before",
    "not_after",
    "enabled",
]
CALENDAR_FIELDS = ["name", "timezone", "description", "rules", "tenant"]


def test_no_value_of_any_field_of_a_job_is_a_500(api):
    client = api()
    client.post("/v1/jobs", {"job_key": "a:b"})
    for field in JOB_FIELDS:
        for value in WRONG:
            body = json.dumps({"job_key": "a:b", field: value})
            # Both read the fields by the same code: PUT is sampled.
            doors = [("POST", "/v1/jobs"), ("PUT", "/v1/jobs/a:b")] if value in WRONG[::5] else [("POST", "/v1/jobs")]
            for method, path in doors:
                answer = client.generic(method, path, body, content_type="application/json")
                assert answer.status_code in (200, 201, 400), (field, value, answer.content[:300])
                if answer.status_code == 400:
                    named = answer.json().get("fields", {})
                    assert any(name.split(".")[0] == field for name in named), (field, value, answer.json())


def test_no_value_of_any_field_of_a_schedule_is_a_500(api):
    JobFactory(job_key="a:b")
    client = api()
    path = f"/v1/schedules/{client.post('/v1/schedules', {'job_key': 'a:b', 'every': '1h'}).json()['trigger_id']}"
    for field in SCHEDULE_FIELDS:
        for value in WRONG:
            post = {"job_key": "a:b", "every": "1h"} | {field: value}
            if field in ("cron_expression", "run_at"):
                del post["every"]
            for method, url, body in (("POST", "/v1/schedules", post), ("PUT", path, {field: value})):
                answer = client.generic(method, url, json.dumps(body), content_type="application/json")
                assert answer.status_code in (200, 201, 400, 404), (field, value, answer.content[:300])
                if answer.status_code == 400:
                    assert answer.json()["fields"], (field, value)


def test_no_value_of_any_field_of_a_calendar_is_a_500(api):
    client = api()
    made = client.post("/v1/calendars", {"name": "office", "timezone": "UTC"}).json()
    rules = [{"effect": "include", field: value} for field in ("weekdays", "dates", "window_start") for value in WRONG]
    rules += [{"effect": value} for value in WRONG] + [
        {"holiday_country": value, "effect": "exclude"} for value in WRONG
    ]
    values = [(field, value) for field in CALENDAR_FIELDS for value in WRONG] + [("rules", [rule]) for rule in rules]
    for field, value in values:
        for method, url, base in (
            ("POST", "/v1/calendars", {"name": "other", "timezone": "UTC"}),
            ("PUT", f"/v1/calendars/{made['id']}", {}),
        ):
            answer = client.generic(method, url, json.dumps(base | {field: value}), content_type="application/json")
            assert answer.status_code in (200, 201, 400, 409), (field, value, answer.content[:300])
            if answer.status_code == 400:
                assert answer.json()["fields"], (field, value)


LISTS = [route for route, _, method in METHODS if method == "GET" and "<" not in route]


PARAMETERS = [
    "limit",
    "page_size",
    "cursor",
    "job_key",
    "tag",
    "state",
    "status",
    "runner_id",
    "since",
    "until",
    "planned",
    "unknown",
    "format",
]
VALUES = ["\x00", "\udcff", "x" * 10_000, "' OR 1=1 --", "💩", "9" * 5000]


@pytest.mark.parametrize("route", LISTS)
def test_no_parameter_of_any_list_is_a_500(api, everything, route):
    client = api()
    for value in VALUES:
        encoded = value.encode("utf-8", "surrogateescape")
        for name in PARAMETERS:
            assert client.get(path_of(route), {name: encoded}).status_code in (200, 400), (name, value)
