"""Keys, scopes and tenants: who is let in, and what the others are told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from runners.api.authentication import PUBLIC
from runners.api.views import ApiView
from runners.domain.scopes import SCOPES
from runners.models import ApiKey
from runners.services.clients import issue_key
from tests.factories import (
    ApiClientFactory,
    DeadLetterFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerFactory,
    TriggerFactory,
)


def views(patterns=None) -> list[tuple[str, type[ApiView]]]:
    found = []
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(pattern, URLResolver):
            found += views(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            view = getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
            if view is not None and issubclass(view, ApiView):
                found.append((str(pattern.pattern), view))
    return found


VIEWS = views()
METHODS = [
    (route, view, method.upper())
    for route, view in VIEWS
    for method in view.http_method_names
    if method != "head" and hasattr(view, method)
]


def path_of(route: str) -> str:
    return "/" + (
        route.replace("<str:job_key>", "test:none")
        .replace("<str:trigger_id>", "018f4e9c-8a1b-7c3d-9e2f-0123456789ab")
        .replace("<str:execution_id>", "018f4e9c-8a1b-7c3d-9e2f-0123456789ab")
        .replace("<str:letter_id>", "018f4e9c-8a1b-7c3d-9e2f-0123456789ab")
        .replace("<str:calendar_id>", "1")
        .replace("<path:name>", "db")
        .replace("<str:runner_id>", "nobody")
        .replace("<str:client_id>", "1")
        .replace("<str:key_id>", "1")
        .replace("<str:user_id>", "0")
        .replace("<str:line_id>", "1")
    )


def names(methods) -> list[str]:
    return [f"{method} {route}" for route, _, method in methods]


GUARDED = [row for row in METHODS if row[1].required_scope.get(row[2]) != PUBLIC]


def test_the_views_are_found():
    assert len(METHODS) >= 25
    assert {route for route, view, method in METHODS if view.required_scope.get(method) == PUBLIC} == {
        "health",
        "ready",
        "version",
        "v1/openapi.yaml",
    }


@pytest.mark.parametrize(("route", "view", "method"), METHODS, ids=names(METHODS))
def test_each_method_declares_a_scope_that_exists(route, view, method):
    assert view.required_scope.get(method) in {PUBLIC, *SCOPES}
    assert set(view.required_scope) == {m for r, v, m in METHODS if v is view}


@pytest.mark.parametrize(("route", "view", "method"), GUARDED, ids=names(GUARDED))
def test_without_a_key_it_is_401_with_a_challenge(db, clock, route, view, method):
    client = APIClient(REMOTE_ADDR="192.0.2.1")
    answer = client.generic(method, path_of(route), content_type="application/json")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("ApiKey")
    assert answer.json()["error"] == "unauthorized"
    assert answer.json()["message"]


@pytest.mark.parametrize(("route", "view", "method"), GUARDED, ids=names(GUARDED))
def test_with_every_other_scope_it_is_403_naming_the_one_that_is_missing(api, route, view, method):
    scope = view.required_scope[method]
    client = api(*(SCOPES - {scope, "admin"}))
    answer = client.generic(method, path_of(route), content_type="application/json", REMOTE_ADDR="192.0.2.1")
    assert answer.status_code == 403
    assert answer.json()["error"] == "missing_scope"
    assert scope in answer.json()["message"]


@pytest.mark.parametrize(("route", "view", "method"), GUARDED, ids=names(GUARDED))
def test_the_scope_alone_and_admin_alone_are_enough(api, route, view, method):
    for client in (api(view.required_scope[method]), api("admin")):
        answer = client.generic(method, path_of(route), content_type="application/json", REMOTE_ADDR="192.0.2.1")
        assert answer.status_code not in (401, 403)
        assert answer.status_code < 500


@pytest.mark.parametrize(
    "header",
    [
        "ApiKey croniq_nobodyhasthiskey",
        "Bearer croniq_nobodyhasthiskey",
        "ApiKey",
        "ApiKey ",
        "Basic YWRtaW46YWRtaW4=",
        "ApiKey something-else",
        "croniq_without_scheme",
        "ApiKey croniq_\x00",
        "ApiKey croniq_\udcff",
        "ApiKey croniq_é",
        "ApiKey croniq_" + "x" * 100_000,
    ],
)
def test_a_key_that_is_none_is_401(db, clock, header):
    answer = APIClient().get("/v1/jobs", HTTP_AUTHORIZATION=header)
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("ApiKey")


@pytest.mark.parametrize("scheme", ["ApiKey", "Bearer", "apikey", "BEARER"])
def test_both_schemes_open(db, clock, scheme):
    raw_key = issue_key(ApiClientFactory(), clock.now())
    assert APIClient().get("/v1/jobs", HTTP_AUTHORIZATION=f"{scheme} {raw_key}").status_code == 200


def test_a_key_ends_when_it_expires_is_revoked_or_its_client_is_switched_off(db, clock):
    owner = ApiClientFactory()
    expiring = issue_key(owner, clock.now(), expires_at=clock.now() + timedelta(minutes=1))
    revoked, other = issue_key(owner, clock.now()), issue_key(owner, clock.now())

    def status(raw_key: str) -> int:
        return APIClient().get("/v1/jobs", HTTP_AUTHORIZATION=f"ApiKey {raw_key}").status_code

    assert [status(key) for key in (expiring, revoked, other)] == [200, 200, 200]
    clock.tick(timedelta(minutes=1))
    ApiKey.objects.filter(prefix=revoked[:12], digest=ApiKey.objects.order_by("id")[1].digest).update(
        revoked_at=clock.now()
    )
    assert [status(key) for key in (expiring, revoked, other)] == [401, 401, 200]
    owner.is_active = False
    owner.save()
    assert status(other) == 401


def test_a_method_whose_scope_was_forgotten_stays_shut(api, monkeypatch):
    from scheduler.api.views.jobs import Jobs

    monkeypatch.setattr(Jobs, "required_scope", {"POST": "jobs:write"})
    client = api("admin")
    assert client.get("/v1/jobs").status_code == 403
    assert client.head("/v1/jobs").status_code == 403


def test_a_method_that_is_not_there_is_405(api):
    for method in ("PATCH", "OPTIONS", "TRACE", "PUT"):
        answer = api().generic(method, "/v1/jobs")
        assert answer.status_code == 405
        assert answer.json()["error"] == "method_not_allowed"
        assert "POST" in answer["Allow"]


def test_a_browser_that_asks_for_html_gets_json_too(api):
    for accept in ("text/html", "nonsense", "application/xml;q=0.9"):
        answer = api().get("/v1/jobs", HTTP_ACCEPT=accept)
        assert answer.status_code == 200
        assert answer["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/jobs/", "/v1/nothing", "/v1/jobs/a:b/nothing", "/v1/executions/x/y/z"]
)
@pytest.mark.parametrize("debug", [True, False])
def test_an_unknown_path_is_404_in_json_and_never_a_redirect(db, settings, path, debug):
    settings.DEBUG = debug
    answer = APIClient().get(path, secure=True)
    assert answer.status_code == 404
    assert answer.json()["error"] == "not_found"


def test_a_host_that_is_not_allowed_is_400_in_json(db, settings, clock):
    settings.ALLOWED_HOSTS = ["croniq.example"]
    answer = APIClient(raise_request_exception=False).get("/v1/nothing", HTTP_HOST="evil.example")
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]


# Tenants: what is foreign is not there, and is not changed by asking.


@pytest.fixture
def foreign(db):
    """One thing of each kind that belongs to the tenant ``acme``."""
    job = JobFactory(job_key="acme:job", tenant="acme", lane__tenant="acme")
    entry = QueueEntryFactory(job=job)
    return {
        "job": job,
        "trigger": TriggerFactory(job=job),
        "run": entry.run,
        "finished": RunFactory(job=job, completed=True),
        "letter": DeadLetterFactory(job=job),
        "runner": RunnerFactory(client__tenant="acme", runner_id="acme-runner"),
    }


REQUESTS = [
    ("GET", "/v1/jobs/acme:job"),
    ("PUT", "/v1/jobs/acme:job"),
    ("DELETE", "/v1/jobs/acme:job"),
    ("POST", "/v1/jobs/acme:job/activate"),
    ("POST", "/v1/jobs/acme:job/deactivate"),
    ("GET", "/v1/schedules/{trigger}"),
    ("PUT", "/v1/schedules/{trigger}"),
    ("DELETE", "/v1/schedules/{trigger}"),
    ("GET", "/v1/executions/{run}"),
    ("GET", "/v1/executions/{run}/logs"),
    ("POST", "/v1/executions/{run}/cancel"),
    ("GET", "/v1/dead-letters/{letter}"),
    ("DELETE", "/v1/runners/acme-runner"),
]


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=[f"{method} {path}" for method, path in REQUESTS])
def test_what_belongs_to_another_tenant_is_404_and_unchanged(api, foreign, method, path):
    path = path.format(**{name: row.pk for name, row in foreign.items()})
    answer = api(tenant="other").generic(method, path, "{}", content_type="application/json")
    assert answer.status_code == 404
    for row in foreign.values():
        before = {field.attname: getattr(row, field.attname) for field in row._meta.fields}
        row.refresh_from_db()
        assert before == {field.attname: getattr(row, field.attname) for field in row._meta.fields}
    assert foreign["run"].entry.state == 0
    # The same request of its own tenant finds it.
    own = api(tenant="acme").generic(method, path, "{}", content_type="application/json")
    assert own.status_code in (200, 204)


@pytest.mark.parametrize(
    "body", [{"job_key": "acme:job", "schedule": "5m"}, {"job_key": "acme:job"}], ids=["register", "trigger"]
)
def test_another_tenants_job_can_neither_be_registered_nor_triggered(api, foreign, body):
    path = "/v1/jobs/register" if "schedule" in body else "/v1/trigger"
    answer = api(tenant="other").post(path, body)
    assert answer.status_code == 404
    assert foreign["job"].runs.count() == 3
    assert foreign["job"].triggers.count() == 1


def test_another_tenants_job_cannot_be_written_by_post(api, foreign):
    answer = api(tenant="other").post("/v1/jobs", {"job_key": "acme:job", "description": "mine"})
    assert answer.status_code == 404
    foreign["job"].refresh_from_db()
    assert foreign["job"].description == ""
    answer = api(tenant="other").post("/v1/jobs", {"job_key": "my:job", "tenant": "acme"})
    assert answer.status_code == 400
    assert "tenant" in answer.json()["fields"]
    answer = api(tenant="other").post("/v1/schedules", {"job_key": "acme:job", "every": "5m"})
    assert answer.status_code == 404


LISTS = [
    "/v1/jobs",
    "/v1/jobs/states",
    "/v1/schedules",
    "/v1/schedules?job_key=acme:job",
    "/v1/executions",
    "/v1/executions?job_key=acme:job",
    "/v1/executions?state=queued",
    "/v1/executions?state=completed",
    "/v1/executions?state=dead",
    "/v1/runners",
    "/v1/dead-letters",
    "/v1/dead-letters?job_key=acme:job",
]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_shows_a_tenant_its_own_and_the_others_nothing(api, foreign, path):
    assert api(tenant="other").get(path).json() == []
    assert api(tenant="acme").get(path).json()
    assert api().get(path).json()
    paged = f"{path}{'&' if '?' in path else '?'}page_size=1"
    assert api(tenant="other").get(paged).json() == {"results": [], "next": None}
