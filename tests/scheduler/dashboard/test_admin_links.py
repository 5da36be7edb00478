"""Whoever may open the admin goes there from the page of the dashboard that shows the same thing."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from scheduler.dashboard.urls import urlpatterns
from scheduler.templatetags.admin_pages import JOB_PAGES, LISTS, OBJECTS
from tests.factories import (
    AlertRuleFactory,
    ApiClientFactory,
    CalendarFactory,
    DeadLetterFactory,
    JobFactory,
    RunnerFactory,
    SkippedSpanFactory,
    TriggerFactory,
)
from tests.scheduler.dashboard.conftest import client_of, person
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
WITHOUT = {"job-preview", "log-raw", "log-stream"}
"""Of one thing, and no page of it."""


@pytest.fixture
def parts() -> dict[str, object]:
    """What stands in addresses, by the name of the part."""
    letter = DeadLetterFactory(job=JobFactory(job_key="ops:a"))
    TriggerFactory(job=letter.job)
    SkippedSpanFactory(job=letter.job, reason="downtime")
    return {
        "job_key": "ops:a",
        "run_id": letter.run_id,
        "letter_id": letter.pk,
        "calendar_id": CalendarFactory().pk,
        "runner_pk": RunnerFactory().pk,
        "client_id": ApiClientFactory().pk,
        "user_id": person("otto", "operator").pk,
        "rule_id": AlertRuleFactory().pk,
    }


def paths(parts: dict[str, object]) -> dict[str, str]:
    """The address of each page that leads to the admin."""
    named = {pattern.name: pattern.pattern.converters for pattern in urlpatterns}
    return {
        name: reverse(name, kwargs={part: parts[part] for part in named[name]})
        for name in (*OBJECTS, *JOB_PAGES, *LISTS)
    }


def admin_links(client, path: str) -> list[str]:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return [link for link in Page(answer).links("/admin/") if link != "/admin/"]


def test_each_page_leads_to_the_admin_of_what_it_shows(parts):
    ada = client_of(User.objects.create_superuser("ada"))
    for name, path in paths(parts).items():
        [link] = admin_links(ada, path)[-1:] or [name]
        there = ada.get(link)
        assert there.status_code == 200, name
        if name in OBJECTS:
            assert str(parts[OBJECTS[name][1]]) in link
            assert there.context["original"] is not None
        elif name in JOB_PAGES:
            assert [job.job_key for job in there.context["cl"].queryset] == ["ops:a"]


def test_nobody_is_led_to_what_he_may_not_open(parts):
    lead = client_of(person("olga", "operator"))
    staff = person("sam")
    staff.is_staff = True
    staff.save()
    seen = Permission.objects.filter(codename__in=("view_job", "view_run"), content_type__app_label="scheduler")
    staff.user_permissions.set(seen)
    sam = client_of(User.objects.get(pk=staff.pk))
    shown = {name: path for name, path in paths(parts).items() if name in ("run", "runs", "audit", "calendar")}
    assert {name: admin_links(lead, path) for name, path in shown.items()} == {name: [] for name in shown}
    assert {name: admin_links(sam, path) for name, path in shown.items()} == {
        "run": [f"/admin/scheduler/run/{parts['run_id']}/change/"],
        "runs": ["/admin/scheduler/run/"],
        "audit": [],
        "calendar": [],
    }
    assert not admin_links(lead, "/jobs/ops:a")
    gone = client_of(User.objects.create_superuser("ada")).get(f"/runs/{parts['letter_id']}")
    assert gone.status_code == 404
    assert Page(gone).links("/admin/scheduler") == []


def test_each_page_of_one_thing_is_known():
    """A new page of one thing leads to the admin too, or says here why not."""
    are_pages = re.compile(r"(page|form|own)\.<locals>")
    of_one = {
        pattern.name
        for pattern in urlpatterns
        if getattr(pattern.pattern, "converters", None)
        and are_pages.match(getattr(pattern.callback.__code__, "co_qualname", ""))
    }
    assert of_one - {*OBJECTS, *JOB_PAGES, *WITHOUT} == set()
