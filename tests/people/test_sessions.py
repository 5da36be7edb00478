"""A session opens the API as far as the person's permissions go, and changes nothing without its CSRF token."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.rates import Rate
from runners.api.limits import PerKey
from runners.models import AuditEvent
from runners.services.clients import issue_key
from scheduler.models import Job, Run
from tests.factories import ApiClientFactory, JobFactory

pytestmark = pytest.mark.django_db
JSON = {"content_type": "application/json"}


@pytest.mark.parametrize(
    ("roles", "statuses"),
    [
        ((), (403, 403, 403)),
        (("viewer",), (200, 403, 403)),
        (("operator",), (200, 200, 403)),
        (("admin",), (200, 200, 200)),
    ],
)
def test_a_role_is_so_many_scopes(client_as, roles, statuses):
    JobFactory(job_key="a:b")
    client = client_as(*roles)
    answers = (
        client.get("/v1/jobs"),
        client.post("/v1/trigger", {"job_key": "a:b"}, **JSON),
        client.get("/v1/api-keys"),
    )
    assert tuple(answer.status_code for answer in answers) == statuses
    assert {answer.json()["error"] for answer in answers if answer.status_code == 403} <= {"missing_scope"}


def test_who_is_signed_in_is_who_did_it(client_as):
    client_as("operator").post("/v1/jobs", {"job_key": "a:b"}, **JSON)
    event = AuditEvent.objects.get(action="job.created")
    assert (event.actor_type, event.actor_id) == ("user", "operator")


def test_an_operator_says_not_what_is_executed(client_as):
    body = {"job_key": "a:b", "action": {"type": "command", "argv": ["id"]}}
    assert client_as("operator").post("/v1/jobs", body, **JSON).status_code == 403
    assert not Job.objects.exists()
    assert client_as("admin").post("/v1/jobs", body, **JSON).status_code == 201


def test_without_its_token_a_session_changes_nothing(client_as):
    JobFactory(job_key="a:b")
    client = client_as("operator", enforce_csrf_checks=True)
    refused = client.post("/v1/trigger", {"job_key": "a:b"}, **JSON)
    assert (refused.status_code, refused.json()["error"]) == (403, "csrf_failed")
    assert not Run.objects.exists()
    client.get("/jobs/a:b")
    token = client.cookies["csrftoken"].value
    allowed = client.post("/v1/trigger", {"job_key": "a:b"}, headers={"X-CSRFToken": token}, **JSON)
    assert allowed.status_code == 200


def test_a_key_comes_first(client_as, now):
    """A key that is none is refused, whoever is signed in; and a good one needs no token."""
    client = client_as("admin", enforce_csrf_checks=True)
    assert client.get("/v1/jobs", headers={"Authorization": "ApiKey croniq_nobody"}).status_code == 401
    JobFactory(job_key="a:b")
    key = issue_key(ApiClientFactory(scopes=["jobs:trigger"]), now)
    headers = {"Authorization": f"ApiKey {key}"}
    assert client.post("/v1/trigger", {"job_key": "a:b"}, headers=headers, **JSON).status_code == 200
    assert client.get("/v1/jobs", headers=headers).status_code == 403


def test_without_either_it_is_401(client: Client):
    assert client.get("/v1/jobs").status_code == 401


def test_who_is_switched_off_is_out_at_once(client_as):
    client = client_as("viewer")
    assert client.get("/v1/jobs").status_code == 200
    assert client.get("/jobs").status_code == 200
    User.objects.update(is_active=False)
    assert client.get("/v1/jobs").status_code == 401
    assert client.get("/jobs")["Location"].startswith("/sign-in")


def test_who_loses_a_role_loses_it_at_once(client_as):
    client = client_as("operator")
    JobFactory(job_key="a:b")
    assert client.post("/v1/trigger", {"job_key": "a:b"}, **JSON).status_code == 200
    User.objects.get().groups.clear()
    assert client.post("/v1/trigger", {"job_key": "a:b"}, **JSON).status_code == 403


def test_a_person_uses_up_no_api_clients_rate(client_as, settings):
    settings.CRONIQ_RATE_PER_KEY = Rate(1, 3600)
    client = client_as("viewer")
    key = issue_key(ApiClientFactory(pk=User.objects.get().pk, scopes=["jobs:read"]), DatabaseClock().now())
    try:
        assert [client.get("/v1/jobs").status_code for _ in range(2)] == [200, 429]
        assert Client().get("/v1/jobs", headers={"Authorization": f"ApiKey {key}"}).status_code == 200
    finally:
        PerKey.buckets.forget()
