"""/health, /version, /metrics, the OpenAPI document, and what a failing database or a fault of ours looks like."""

from __future__ import annotations

from datetime import timedelta

import pytest
import yaml
from django.db import IntegrityError, InterfaceError, OperationalError
from django.test import Client
from rest_framework.test import APIClient

from calendars.services import edit as calendar_edit
from scheduler.api import calendars_schema, schema
from scheduler.api.urls import urlpatterns
from scheduler.api.views import jobs, site
from scheduler.domain import job_fields, trigger_fields
from tests.factories import HeartbeatFactory, QueueEntryFactory
from tests.scheduler.api.test_access import METHODS


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/jobs/", 404, "not_found"),
        ("/v1/work", 404, "not_found"),
        ("/v1/nothing", 404, "not_found"),
        ("/v1/docs", 405, "method_not_allowed"),
    ],
)
def test_a_machine_that_errs_in_its_path_is_told_so_and_not_asked_for_a_form(method, path, status, code):
    machine = Client(enforce_csrf_checks=True)
    answer = getattr(machine, method)(path, "{}", "application/json", headers={"Authorization": "ApiKey croniq_x"})
    assert (answer.status_code, answer.json()["error"]) == (status, code)


def test_no_path_of_the_api_asks_for_a_form():
    """A session's token is looked at where the session is (`runners.api.sessions`)."""
    assert [str(one.pattern) for one in urlpatterns if not getattr(one.callback, "csrf_exempt", False)] == []


def test_health_is_public_and_counts(db, clock, now):
    QueueEntryFactory.create_batch(2)
    QueueEntryFactory(available_at=now + timedelta(seconds=1))
    QueueEntryFactory(claimed=True)
    HeartbeatFactory(kind="materialize", tick_at=now - timedelta(seconds=3))
    HeartbeatFactory(kind="materialize", tick_at=now - timedelta(seconds=1))
    HeartbeatFactory(kind="reap", tick_at=now)
    answer = APIClient().get("/health")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "runners_online": 1,
        "runners_stale": 0,
        "runners_dead": 0,
        "queued": 2,
        "scheduler_last_tick_at": "2026-03-02T11:59:59.000000Z",
    }
    # A key that is none does not close what is open.
    assert APIClient().get("/health", HTTP_AUTHORIZATION="ApiKey croniq_no").status_code == 200


def test_version_is_public(db, settings, monkeypatch):
    monkeypatch.setenv("CRONIQ_GIT_SHA", "abc123")
    settings.DEBUG = False
    body = APIClient().get("/version").json()
    assert body["version"].startswith("0.")
    assert (body["git_sha"], body["build_time"], body["env"]) == ("abc123", None, "production")


@pytest.mark.parametrize(
    ("address", "status"),
    [("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), ("192.0.2.1", 401), ("", 401), ("nonsense", 401)],
)
def test_metrics_are_for_allowed_addresses(db, clock, address, status):
    answer = APIClient().get("/metrics", REMOTE_ADDR=address)
    assert answer.status_code == status
    if status == 200:
        assert b"# TYPE" in answer.content


def test_metrics_are_for_keys_with_the_scope(api, settings):
    settings.CRONIQ_METRICS_ALLOW = ["10.0.0.0/8"]
    assert api("metrics:read").get("/metrics").status_code == 200
    assert api("jobs:read").get("/metrics").status_code == 403
    assert api("jobs:read").get("/metrics", REMOTE_ADDR="10.1.2.3").status_code == 200


@pytest.mark.parametrize("error", [OperationalError("away"), InterfaceError("closed")], ids=str)
@pytest.mark.parametrize("where", ["query", "key"])
def test_a_database_that_is_away_is_503_never_401_or_500(api, monkeypatch, error, where):
    def fail(*args, **kwargs):
        raise error

    client = api()
    if where == "query":
        monkeypatch.setattr(jobs, "job_list", fail)
    else:
        monkeypatch.setattr("runners.api.authentication.recognise", fail)
    answer = client.get("/v1/jobs")
    assert answer.status_code == 503
    assert answer.json()["error"] == "unavailable"
    assert int(answer["Retry-After"]) >= 1


def test_a_fault_of_ours_is_500_in_json_and_in_the_log(api, monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise IntegrityError("a secret of the database")

    monkeypatch.setattr(jobs, "job_list", fail)
    answer = api().get("/v1/jobs")
    assert answer.status_code == 500
    assert answer.json()["error"] == "internal"
    assert "secret" not in answer.content.decode()
    assert "a secret of the database" in caplog.text


# The OpenAPI document


@pytest.fixture(scope="module")
def document() -> dict:
    return site.openapi_document()


def test_the_document_is_made_without_warnings_and_served(db, clock, capsys):
    from drf_spectacular.drainage import GENERATOR_STATS, reset_generator_stats

    reset_generator_stats()
    site.openapi_text.cache_clear()
    answer = APIClient().get("/v1/openapi.yaml")
    assert answer.status_code == 200
    assert not GENERATOR_STATS, capsys.readouterr().err
    served = yaml.safe_load(answer.content)
    assert served["openapi"].startswith("3.1")
    assert served["components"]["securitySchemes"]["ApiKey"]["in"] == "header"


def test_each_method_is_in_the_document_with_its_refusals(document):
    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods if method != "head"
    }
    expected = {
        (method, "/" + route.replace("<str:", "{").replace("<path:", "{").replace(">", "}"))
        for route, _, method in METHODS
        if route not in ("metrics", "v1/openapi.yaml")
    }
    assert described == expected
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["operationId"]
            codes = set(operation["responses"])
            assert "503" in codes
            assert ("401" in codes) == (path not in ("/health", "/ready", "/version"))
            assert codes & {"200", "201", "204"}


ANSWERS = [
    ("listJobs", schema.JobAnswer),
    ("listJobStates", schema.JobStateAnswer),
    ("listSchedules", schema.ScheduleAnswer),
    ("listCalendars", calendars_schema.CalendarAnswer),
    ("listConcurrencyGroups", schema.GroupAnswer),
    ("listExecutions", schema.ExecutionAnswer),
    ("listRunners", schema.RunnerAnswer),
    ("listDeadLetters", schema.LetterAnswer),
]


@pytest.mark.parametrize(("operation", "answer"), ANSWERS, ids=[name for name, _ in ANSWERS])
def test_what_is_answered_is_what_the_document_says(api, everything, document, operation, answer):
    path = next(p for p, methods in document["paths"].items() if methods.get("get", {}).get("operationId") == operation)
    client = api()
    (row, *_) = client.get(path).json()
    component = document["components"]["schemas"][answer.__name__]
    assert set(row) == set(component["properties"]) == set(component["required"])
    one = next(
        (p for p in document["paths"] if p.startswith(path + "/{") and p.count("/") == path.count("/") + 1), None
    )
    if one and "get" in document["paths"][one]:
        identity = row.get("trigger_id") or (row["job_key"] if operation == "listJobs" else row.get("id"))
        detail = client.get(f"{path}/{identity}").json()
        content = document["paths"][one]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert set(detail) == set(document["components"]["schemas"][content["$ref"].split("/")[-1]]["properties"])


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("JobBody", {*job_fields.FIELDS, "job_key", "tenant", "retry", "is_active"}),
        ("RetryRule", set(job_fields.RETRY)),
        ("ScheduleBody", trigger_fields.FIELDS),
        ("CalendarBody", set(calendar_edit.FIELDS)),
    ],
)
def test_the_document_names_every_field_that_a_write_takes_and_no_other(document, body, taken):
    assert set(document["components"]["schemas"][body]["properties"]) == taken


def test_log_rows_are_what_the_document_says(api, everything, document):
    run = everything["run_with_log"]
    (row, *_) = api().get(f"/v1/executions/{run.pk}/logs").json()
    assert set(row) == set(document["components"]["schemas"]["LogAnswer"]["properties"])
    assert "fields" in row


def test_fields_that_do_not_explain_themselves_are_described(document):
    schemas = document["components"]["schemas"]
    told = {
        "CalendarRuleAnswer": None,
        "JobBody": ("catch_up", "max_catch_up"),
        "ScheduleBody": ("not_before", "not_after"),
    }
    for name, fields in told.items():
        properties = schemas[name]["properties"]
        assert [field for field in fields or properties if not properties[field].get("description")] == []
