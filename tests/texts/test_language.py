"""Pages speak the viewer's language; machines, and all that is written down, English."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.middleware.locale import LocaleMiddleware
from django.template import engines
from django.test import Client
from django.utils import translation

from runners.models import AuditEvent
from tests.factories import JobFactory
from tests.support.server import live_edge

GERMAN = {"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"}


def language_of(answer: Any) -> str:
    return answer.content.decode().partition('<html lang="')[2].partition('"')[0]


@pytest.fixture
def person(db: None) -> User:
    user = User.objects.create_user("otto", password="a long secret", is_staff=True)
    user.groups.set(Group.objects.filter(name="operator"))
    return user


@pytest.fixture
def browser(person: User) -> Client:
    client = Client(headers=GERMAN)
    client.force_login(person)
    return client


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("de", "de"),
        ("de-CH, fr;q=0.9", "de"),
        ("fr, de;q=0.4", "de"),
        ("en-GB, de;q=0.9", "en"),
        ("fr", "en"),
        ("", "en"),
        ("d" * 5000, "en"),
        ("../../etc/passwd", "en"),
        ("*", "en"),
    ],
)
def test_a_page_is_in_the_language_that_the_browser_asks_for(client: Client, asked: str, expected: str):
    answer = client.get("/nothing/here", headers={"Accept-Language": asked})
    assert (language_of(answer), answer["Content-Language"]) == (expected, expected)
    assert {"Accept-Language", "Cookie"} <= {name.strip() for name in answer["Vary"].split(",")}


def test_what_is_kept_for_one_language_is_not_given_to_another(client: Client):
    """Also of an answer that has looked at no session."""
    answer = client.get("/favicon.ico")
    assert {"Accept-Language", "Cookie"} <= {name.strip() for name in answer["Vary"].split(",")}


def test_what_somebody_has_chosen_goes_before_what_his_browser_asks_for(browser: Client):
    assert language_of(browser.get("/password")) == "de"
    answer = browser.post("/language", {"language": "en", "next": "/password"})
    assert (answer.status_code, answer["Location"]) == (302, "/password")
    cookie = answer.cookies["croniq_language"]
    assert (cookie["httponly"], cookie["samesite"], cookie["max-age"]) == (True, "Lax", 31_536_000)
    assert language_of(browser.get("/password")) == "en"
    browser.post("/language", {"language": "xx"})  # no language of ours changes nothing
    assert language_of(browser.get("/password")) == "en"


@pytest.mark.parametrize("value", ["xx", "de\x00", "../de", "d" * 4000, "zh-hans"])
def test_a_cookie_that_names_no_language_is_no_choice(client: Client, value: str):
    client.cookies["croniq_language"] = value
    assert language_of(client.get("/nothing/here")) == "en"


def test_a_choice_is_made_by_a_form_of_ours_and_leads_nowhere_else(person: User):
    client = Client(enforce_csrf_checks=True)
    client.force_login(person)
    assert client.post("/language", {"language": "de"}).status_code == 403
    token = client.get("/password").context["csrf_token"]
    answer = client.post(
        "/language", {"language": "de", "next": "https://evil.example/x", "csrfmiddlewaretoken": str(token)}
    )
    assert answer["Location"] == "/"
    assert client.get("/language")["Location"] == "/"  # a link changes nothing


@pytest.mark.parametrize(
    "path", ["/v1/jobs", "/v1/openapi.yaml", "/v1/nothing", "/v1/work/poll", "/health", "/ready", "/version"]
)
def test_a_machine_is_answered_the_same_whatever_it_likes_best(db: None, client: Client, path: str):
    plain, german = client.get(path), client.get(path, headers=GERMAN)
    assert (german.status_code, german.content) == (plain.status_code, plain.content)
    assert "Accept-Language" not in german.get("Vary", "")


def test_the_sentences_of_a_refusal_of_the_api_are_english(browser: Client):
    """Those of Django and REST framework too, which know German."""
    body = {"job_key": "ops:x", "priority": "much", "is_active": "perhaps", "lease_seconds": [1]}
    answers = [
        browser.post("/v1/jobs", body, content_type="application/json", headers={"Accept-Language": language})
        for language in ("en", "de")
    ]
    assert [answer.status_code for answer in answers] == [answers[0].status_code] * 2
    assert 400 <= answers[0].status_code < 404
    assert answers[0].json() == answers[1].json()


def test_what_a_german_page_does_is_written_down_in_english(browser: Client):
    stored = []
    for language in ("en", "de"):
        job = JobFactory(job_key=f"ops:{language}")
        for what in ("pause", "resume", "run", "pause", "delete"):
            browser.post(f"/jobs/{job.job_key}/{what}", headers={"Accept-Language": language})
        rows = AuditEvent.objects.filter(target_id=job.job_key).order_by("pk")
        stored.append([(row.action, sorted(row.diff)) for row in rows])
        job.refresh_from_db()
        stored[-1].append((job.paused_reason, job.is_active))
    assert stored[0] == stored[1]
    assert len(stored[0]) > 3


def test_the_next_request_of_a_thread_has_nobodys_language(browser: Client):
    browser.get("/password")
    assert translation.get_language() == "en"


@pytest.mark.django_db(transaction=True)
def test_no_claim_asks_for_a_language(monkeypatch):
    asked = []
    whole = LocaleMiddleware.process_request
    monkeypatch.setattr(
        LocaleMiddleware,
        "process_request",
        lambda self, request: (asked.append(request.path), whole(self, request))[1],
    )
    with live_edge(hold_seconds=0) as server:
        poll = server.post("/v1/work/poll", {"runner_id": "r1", "capacity": 1}, key=server.key())
        assert poll.status_code < 500
        server.http.get("/v1/jobs", headers=GERMAN)
        server.http.get("/sign-in", headers=GERMAN)
    assert asked == ["/sign-in"]


def test_numbers_in_drawings_have_a_point_in_every_language():
    template = engines["django"].from_string('<rect x="{{ x }}" width="{{ n }}"/>')
    for language in ("en", "de"):
        with translation.override(language):
            assert template.render({"x": 12.5, "n": 123456}) == '<rect x="12.5" width="123456"/>'
