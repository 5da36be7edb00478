"""Who may see pages, who may act, and what everybody else gets."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scheduler.dashboard import jobs
from scheduler.models import Run
from tests.factories import JobFactory, QueueEntryFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
PAGES = [
    "/jobs",
    "/jobs/ops:backup",
    "/runs",
    "/runs/planned",
    "/runs/0195f9a0-0000-7000-8000-000000000000",
    "/runners",
]
MORE_PAGES = ["/next", "/calendars", "/calendars/7", "/calendars/7/year"]
LOG = "/runs/0195f9a0-0000-7000-8000-000000000000/log"
ACTIONS = ["run-now", "pause", "resume"]


@pytest.mark.parametrize("path", [*PAGES, *MORE_PAGES, LOG])
def test_whoever_is_not_signed_in_is_sent_to_sign_in_and_comes_back(client, path):
    answer = client.get(f"{path}?after=5")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in?next=%2F")
    assert answer["Location"].endswith("after%3D5")
    assert "no-store" in answer["Cache-Control"]


def test_a_part_that_polls_after_the_session_ended_takes_the_whole_page_to_sign_in(client):
    headers = HTMX | {"HX-Current-URL": "http://testserver/runs?state=dead"}
    answer = client.get("/runs?state=dead&seen=x", headers=headers)
    assert (answer.status_code, answer["HX-Redirect"]) == (200, "/sign-in?next=%2Fruns%3Fstate%3Ddead")
    assert answer.content == b""


def test_a_part_whose_address_is_none_leads_to_sign_in_all_the_same(client):
    for address in ("http://[bad", "", "//", "\x00", "http://testserver:port/runs"):
        answer = client.get("/runs", headers=HTMX | {"HX-Current-URL": address})
        assert (answer.status_code, answer["HX-Redirect"]) == (200, "/sign-in?next=%2Fnow"), address


def test_a_session_key_that_was_never_given_out_is_none(client):
    """A cookie is text from outside: PostgreSQL would refuse to look for a text with a NUL."""
    for key in ("\\000" + "a" * 31, "a" * 31 + "\\000", "a" * 16, "A" * 32, "a" * 33, "é" * 32):
        client.cookies["sessionid"] = ""
        client.cookies["sessionid"].set("sessionid", key, f'"{key}"')
        for path in ("/jobs", "/sign-in", "/admin/login/"):
            with CaptureQueriesContext(connection) as asked:
                assert client.get(path).status_code in (200, 302), (path, key)
            assert "django_session" not in str(asked.captured_queries)


def test_signing_in_and_out(client):
    User.objects.create_user("vera", password="a long secret")
    wrong = client.post("/sign-in", {"username": "vera", "password": "no"})
    assert "do not belong together" in Page(wrong).text
    right = client.post("/sign-in", {"username": "vera", "password": "a long secret", "next": "/runs?state=dead"})
    assert right["Location"] == "/runs?state=dead"
    assert client.get("/sign-in")["Location"] == "/now"
    assert client.get("/sign-out").status_code == 405
    assert client.post("/sign-out")["Location"] == "/sign-in"
    assert client.get("/jobs").status_code == 302


def test_signing_in_leads_to_no_other_site(client):
    User.objects.create_user("vera", password="a long secret")
    fields = {"username": "vera", "password": "a long secret", "next": "//evil.example/"}
    assert client.post("/sign-in", fields)["Location"] == "/now"


@pytest.mark.parametrize("path", [PAGES[0], *PAGES[2:4], PAGES[5], *MORE_PAGES[:2]])
def test_whoever_is_signed_in_may_look(viewer, path):
    assert viewer.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/jobs/no:such", "/jobs/a%00b", PAGES[4], LOG, "/nothing", "/jobs/a:b/c"])
def test_what_is_not_there_is_a_page_that_says_so(viewer, path):
    answer = viewer.get(path)
    assert answer.status_code == 404
    assert {"Jobs", "Runs", "Runners"} <= set(Page(answer).text.split())


@pytest.mark.parametrize("name", ACTIONS)
def test_only_the_permission_lets_a_person_act(viewer, operator, name):
    JobFactory(job_key="ops:backup")
    path = reverse(name, kwargs={"job_key": "ops:backup"})
    refused = viewer.post(path)
    assert refused.status_code == 403
    assert "You may not do that" in Page(refused).text
    assert not Run.objects.exists()
    assert operator.post(path).status_code == 302


def test_only_the_permission_lets_a_person_cancel(viewer):
    entry = QueueEntryFactory(claimed=True)
    assert viewer.post(reverse("cancel", kwargs={"run_id": entry.run_id})).status_code == 403
    assert Run.objects.get().verdict is None


def test_buttons_are_shown_to_those_who_may_press_them(viewer, operator):
    entry = QueueEntryFactory(claimed=True)
    for path in (f"/jobs/{entry.job.job_key}", f"/runs/{entry.run_id}"):
        assert len(Page(viewer.get(path)).all("form")) == 1  # sign out
        assert len(Page(operator.get(path)).all("form")) > 1


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_is_never_a_link(operator, name):
    JobFactory(job_key="ops:backup")
    assert operator.get(reverse(name, kwargs={"job_key": "ops:backup"})).status_code == 405
    assert not Run.objects.exists()


def test_a_form_of_another_site_does_nothing(operator):
    JobFactory(job_key="ops:backup")
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    answer = strict.post("/jobs/ops:backup/run")
    assert answer.status_code == 403
    assert "This form has expired" in Page(answer).text
    assert not Run.objects.exists()


def test_an_action_on_what_is_not_there_is_404(operator):
    for name in ACTIONS:
        assert operator.post(reverse(name, kwargs={"job_key": "no:such"})).status_code == 404
    assert operator.post("/runs/0195f9a0-0000-7000-8000-000000000000/cancel").status_code == 404


def test_without_a_database_a_page_says_so_without_one(viewer, monkeypatch, caplog):
    def away(*args, **kwargs):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(jobs, "job_lines", away)
    answer = viewer.get("/jobs")
    assert answer.status_code == 503
    assert "The database does not answer" in Page(answer).text
    assert "the server closed the connection" in caplog.text


def test_a_fault_of_ours_is_a_page_too(viewer, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(jobs, "job_lines", broken)
    viewer.raise_request_exception = False
    answer = viewer.get("/jobs")
    assert answer.status_code == 500
    assert "Croniq has failed here" in Page(answer).text
