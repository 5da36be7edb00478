"""What a jobs file has the say in is changed by no other door; to pause, run and cancel is no change."""

from __future__ import annotations

import re

import pytest
import yaml
from django.contrib.auth import get_user_model
from django.urls import reverse

from calendars.models import Calendar
from croniq_site.kernel.errors import Conflict
from runners.services.audit import Event, record_events
from runners.services.file_managed import APPLIED, FILE, refuse_file_managed
from scheduler.models import Job, Run, Trigger
from scheduler.services.jobs import save_job
from scheduler.services.jobs_file import unadopt
from tests.scheduler.api import conftest as api_conftest
from tests.scheduler.jobs_file.support import EXAMPLE, apply, snapshot
from tests.scheduler.planning.support import ACTOR

pytestmark = pytest.mark.django_db
api, clock = api_conftest.api, api_conftest.clock


@pytest.fixture
def applied(now, db):
    apply(EXAMPLE, now)
    return {
        "job": "ops:tick",
        "trigger": str(Trigger.objects.get(job__job_key="ops:tick").pk),
        "calendar": str(Calendar.objects.get().pk),
    }


RULES = [{"effect": "include", "weekdays": [1]}]
WRITES = [
    ("post", "/v1/jobs", {"job_key": "ops:tick", "timeout": "9m"}, "ops:tick"),
    ("put", "/v1/jobs/{job}", {"timeout": "9m"}, "ops:tick"),
    ("put", "/v1/jobs/{job}", {}, "ops:tick"),
    ("delete", "/v1/jobs/{job}", None, "ops:tick"),
    ("post", "/v1/jobs/{job}/activate", None, "ops:tick"),
    ("post", "/v1/jobs/{job}/deactivate", None, "ops:tick"),
    ("post", "/v1/schedules", {"job_key": "ops:tick", "every": "9m"}, "ops:tick"),
    ("put", "/v1/schedules/{trigger}", {"every": "9m"}, "ops:tick"),
    ("delete", "/v1/schedules/{trigger}", None, "ops:tick"),
    ("put", "/v1/calendars/{calendar}", {"rules": RULES}, "--calendar business-days"),
    ("delete", "/v1/calendars/{calendar}", None, None),
    ("put", "/v1/concurrency-groups/database", {"max_concurrent": 9}, "--group database"),
    ("delete", "/v1/concurrency-groups/database", None, "--group database"),
]


@pytest.mark.parametrize(("verb", "path", "body", "named"), WRITES)
def test_a_write_over_the_api_is_a_409_that_names_the_file_and_the_command(verb, path, body, named, applied, api):
    if named is None:  # its users are asked for first
        Trigger.objects.exclude(calendar=None).update(calendar=None)
        named = "--calendar business-days"
    client = api()
    before = snapshot()
    answer = getattr(client, verb)(path.format(**applied), body)
    assert (answer.status_code, answer.json()["error"]) == (409, "file_managed")
    assert "croniq.yaml" in answer.json()["message"]
    assert f"jobs unadopt {named}'" in answer.json()["message"]
    assert snapshot() == before


def test_the_document_of_the_api_has_each_of_these_answers(api):
    paths = yaml.safe_load(api().get("/v1/openapi.yaml").content)["paths"]
    for verb, path, *_ in WRITES:
        name = re.sub("^/v1/concurrency-groups/database$", "/v1/concurrency-groups/{name}", path)
        name = name.replace("{job}", "{job_key}").replace("{trigger}", "{trigger_id}")
        name = name.replace("{calendar}", "{calendar_id}")
        assert "409" in paths[name][verb]["responses"], (verb, path)


def test_what_is_no_change_of_the_definition_stays_allowed(applied, api):
    client = api()
    for verb, path, body, status in [
        ("post", "/v1/jobs/ops:tick/pause", {"reason": "x"}, 200),
        ("post", "/v1/jobs/ops:tick/resume", None, 200),
        ("post", "/v1/jobs/ops:tick/skip-next", None, 200),
        ("post", "/v1/trigger", {"job_key": "ops:tick"}, 200),
        ("get", "/v1/jobs/ops:tick", None, 200),
    ]:
        answer = getattr(client, verb)(path, body)
        assert answer.status_code == status, (path, answer.content)
    run = Run.objects.get(kind="triggered")
    assert client.post(f"/v1/executions/{run.pk}/cancel").status_code == 200


def test_a_runner_that_registers_such_a_job_is_told_that_the_file_was_first(applied, api):
    client = api()
    before = snapshot()
    answer = client.post("/v1/jobs/register", {"job_key": "ops:tick", "schedule": "9m", "capabilities": ["x"]})
    assert (answer.status_code, answer.json()["status"]) == (200, "skipped_dsl_precedence")
    assert snapshot() == before


def test_a_calendar_says_who_has_the_say(applied, api):
    assert api().get("/v1/calendars").json()[0]["managed_by"] == "file"


def test_what_is_unadopted_is_the_apis_again(applied, api, now):
    unadopt("default", now, ACTOR, jobs=["ops:tick"])
    assert api().put("/v1/jobs/ops:tick", {"timeout": "9m"}).status_code == 200
    assert Job.objects.get(job_key="ops:tick").timeout_seconds == 540


@pytest.mark.parametrize("importer", ["crontab", "demo", "runner", "admin"])
def test_no_importer_writes_over_it(importer, applied, now):
    with pytest.raises(Conflict) as refused:
        save_job({"job_key": "ops:tick"}, now, ACTOR, managed_by=importer)
    assert refused.value.code == "file_managed"


def test_the_admin_says_so_and_saves_nothing(applied, client):
    client.force_login(get_user_model().objects.create_superuser("root"))
    before = snapshot()
    url = reverse("admin:calendars_calendar_change", args=[applied["calendar"]])
    form = {
        "name": "business-days",
        "timezone": "UTC",
        "description": "",
        "rules-TOTAL_FORMS": "0",
        "rules-INITIAL_FORMS": "0",
    }
    answer = client.post(url, form, follow=True)
    assert "is declared in the jobs file croniq.yaml" in answer.content.decode()
    assert snapshot() == before


def test_the_file_of_another_tenant_is_not_named(now, db):
    record_events([Event(APPLIED, "jobs_file", name, ACTOR, name) for name in ("mine", "theirs")], now)
    with pytest.raises(Conflict, match="the jobs file mine:"):
        refuse_file_managed("job", "a:b", FILE, "mine", by="api")
