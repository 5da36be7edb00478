"""Letters, missed fires, budgets, audit: everybody who is signed in may look, only the permission lets a person act."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from runners.models import AuditEvent
from scheduler.models import DeadLetter, Job, Run
from tests.factories import DeadLetterFactory, JobFactory, RunFactory
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

ID = "0195f9a0-0000-7000-8000-000000000000"
LOOKS = [
    "/letters",
    "/letters?fingerprint=x",
    "/letters/confirm?do=discard",
    "/missed",
    "/budgets",
    "/audit",
    "/overlap",
]
ACTIONS = [
    reverse(name, kwargs=parts)
    for name, parts in [
        ("letters-replay", {}),
        ("letters-discard", {}),
        ("letter-replay", {"letter_id": ID}),
        ("letter-discard", {"letter_id": ID}),
        ("letter-note", {"letter_id": ID}),
        ("missed-run", {"job_key": "ops:backup"}),
        ("missed-dismiss", {"job_key": "ops:backup"}),
    ]
]
FORM = {
    "until": "2026-03-02T13:00:00Z",
    "since": "2026-03-02T11:00:00Z",
    "seen_at": "2026-03-02T12:00:00Z",
    "expected": "1",
    "note": "seen",
}


@pytest.fixture
def rows(now):
    job = JobFactory(job_key="ops:backup")
    DeadLetterFactory(id=ID, job=job)
    RunFactory(job=job, scheduled_for=now - timedelta(hours=1), verdict="skipped", problem="skipped", finished_at=now)


def state() -> list:
    models = (Run, DeadLetter, Job, AuditEvent)
    return [list(model.objects.order_by("pk").values()) for model in models]


@pytest.mark.parametrize("path", [*LOOKS, f"/letters/{ID}", "/missed/ops:backup"])
def test_whoever_is_signed_in_may_look_and_others_are_sent_to_sign_in(viewer, client, rows, path):
    assert viewer.get(path).status_code == 200
    answer = client.get(path)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in?next=%2F")


@pytest.mark.parametrize("path", ACTIONS)
def test_an_action_needs_the_permission_a_post_and_a_form_of_ours(viewer, operator, client, rows, path):
    before = state()
    assert viewer.post(path, FORM).status_code == 403
    assert client.post(path, FORM)["Location"].startswith("/sign-in")
    assert operator.get(path).status_code in (404, 405)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    assert strict.post(path, FORM).status_code == 403
    assert state() == before


def test_what_may_not_be_pressed_is_not_shown(viewer, operator, rows):
    for path in (f"/letters/{ID}", "/missed", "/missed/ops:backup", "/letters/confirm?do=discard"):
        assert not [values for values in Page(viewer.get(path)).all("form") if values["action"] in ACTIONS]
        assert [values for values in Page(operator.get(path)).all("form") if values["action"] in ACTIONS]
    assert not Page(viewer.get("/letters?fingerprint=+")).links("/letters/confirm")


def test_what_a_run_had_of_its_own_is_shown_to_those_alone_who_may_edit_it(viewer, operator, now):
    letter = DeadLetterFactory(run__metadata={"customer": "Ada"})
    assert "Ada" in Page(operator.get(f"/letters/{letter.pk}")).text
    assert "Ada" not in Page(viewer.get(f"/letters/{letter.pk}")).text
