"""The admin: every model can be looked at, what the services write cannot be written by hand."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from runners.admin import MOST_COUNTED, BoundedPaginator
from runners.models import ApiClient, Runner
from scheduler.models import Job, Run, Trigger
from tests import factories
from tests.scheduler.dashboard.markup import Page, nameless

pytestmark = pytest.mark.django_db
MODELS = [model for app in ("scheduler", "calendars", "runners") for model in apps.get_app_config(app).get_models()]
EDITABLE = {"Calendar", "ApiClient"}
READ_ONLY = [model for model in MODELS if model.__name__ not in EDITABLE]


def made(model: type[Model]) -> Model:
    """A row with all that its list could ask further queries about."""
    extra = {"QueueEntry": {"claimed": True}, "Trigger": {"calendar": factories.CalendarFactory()}}
    return getattr(factories, f"{model.__name__}Factory")(**extra.get(model.__name__, {}))


def path_of(model: type[Model], name: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_list_and_the_page_of_every_model_open(admin_client: Client, model: type[Model]):
    row = made(model)
    may_add = [path_of(model, "add")] if model.__name__ in EDITABLE else []
    for path in (path_of(model, "changelist"), path_of(model, "change", row.pk), *may_add):
        answer = admin_client.get(path)
        assert answer.status_code == 200
        page = Page(answer)
        assert page.refused == []
        assert nameless(page) == [], path
    search = admin_client.get(path_of(model, "changelist"), {"q": "x' %_"})
    assert search.status_code == 200


def test_so_do_those_of_people_and_what_they_sign_in_with(admin_client: Client):
    others = [model for model in admin.site._registry if model not in MODELS]
    assert {"User", "Group"} <= {model.__name__ for model in others}
    user, group = User.objects.create_user("otto"), Group.objects.first()
    paths = ["/admin/", *(path_of(model, name) for model in others for name in ("changelist", "add"))]
    for path in (*paths, path_of(User, "change", user.pk), path_of(Group, "change", group.pk)):
        page = Page(answer := admin_client.get(path))
        assert answer.status_code in (200, 403), path
        assert [refused for refused in page.refused if "href=../" not in refused] == [], path
        assert nameless(page) == [], path


@pytest.mark.parametrize("model", READ_ONLY, ids=lambda model: model.__name__)
def test_what_the_services_write_is_not_written_by_hand(admin_client: Client, model: type[Model]):
    row = made(model)
    before = type(row).objects.values().get(pk=row.pk)
    changelist = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert admin_client.get(path_of(model, "add")).status_code == 403
    assert admin_client.post(path_of(model, "add"), {}).status_code == 403
    assert admin_client.post(path_of(model, "change", row.pk), {}).status_code == 403
    assert admin_client.post(path_of(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    admin_client.post(path_of(model, "changelist"), changelist)
    assert type(row).objects.values().get(pk=row.pk) == before


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_list_costs_as_many_queries_with_twelve_rows_as_with_two(admin_client: Client, model: type[Model]):
    counts = []
    for rows in (2, 10):
        for _ in range(rows):
            made(model)
        with CaptureQueriesContext(connection) as queries:
            assert admin_client.get(path_of(model, "changelist")).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 7


def test_a_list_is_counted_only_to_its_bound(monkeypatch):
    for _ in range(4):
        factories.RunLogFactory()
    monkeypatch.setattr("runners.admin.MOST_COUNTED", 3)
    rows = factories.RunLogFactory._meta.model.objects.order_by("-id")
    assert BoundedPaginator(rows, 2).count == 3
    assert MOST_COUNTED == 10_000


def test_a_job_and_its_trigger_and_run_lead_to_their_pages(admin_client: Client, now: datetime):
    trigger = factories.TriggerFactory(job__job_key="ops:backup")
    run = factories.RunFactory(job=trigger.job)
    gone = factories.JobFactory(job_key="ops:gone", deleted_at=now)
    assert Page(admin_client.get(path_of(Job, "change", trigger.job.pk))).links("/jobs/") == ["/jobs/ops:backup"]
    assert Page(admin_client.get(path_of(Trigger, "changelist"))).links("/jobs/") == ["/jobs/ops:backup"]
    assert Page(admin_client.get(path_of(Run, "change", run.pk))).links("/runs/") == [f"/runs/{run.pk}"]
    assert Page(admin_client.get(path_of(Job, "change", gone.pk))).links("/jobs/") == []


SEARCHED = [model for model, registered in admin.site._registry.items() if registered.search_fields]
SEARCHES = {
    "nul": "\x00",
    "percent": "%EF",
    "quotes": '""\'' * 5000,
    "surrogate": b"\xed\xa0\x80",
}


@pytest.mark.parametrize("model", SEARCHED, ids=lambda model: model.__name__)
def test_a_search_has_an_end(admin_client: Client, model: type[Model]):
    """An address holds more words than SQLite's conditions are deep, and longer ones than its patterns are."""
    where = path_of(model, "changelist")
    for words in ("a " * 51, "a " * 1500, "x" * 1001, "x" * 60_000):
        answer = admin_client.get(where, {"q": words})
        assert answer.status_code == 200
        assert [str(message) for message in answer.context["messages"]] == [
            "A search has at most 50 words and 1000 characters."
        ]
        assert not answer.context["cl"].queryset.exists()
    for words in ("a " * 50, "x" * 1000):
        assert not admin_client.get(where, {"q": words}).context["messages"]


@pytest.mark.parametrize("words", SEARCHES.values(), ids=SEARCHES)
def test_no_search_is_an_error_of_ours(admin_client: Client, words):
    for model in SEARCHED:
        where = path_of(model, "changelist")
        assert admin_client.get(where, {"q": words}).status_code in (200, 302), model


def test_whoever_is_no_member_of_staff_is_sent_away(client: Client, django_user_model):
    client.force_login(django_user_model.objects.create_user("vera"))
    assert client.get("/admin/").status_code == 302


def test_every_model_is_registered():
    assert {model.__name__ for model in MODELS if not admin.site.is_registered(model)} == set()
    assert {ApiClient, Runner} <= set(MODELS)
