"""What the page's script is told when somebody has pressed a button: where it leads, or why not, and never both."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils.translation import override

from croniq_site.kernel.errors import Conflict
from scheduler.dashboard import jobs
from scheduler.dashboard.job_fields import LABELS
from scheduler.dashboard.refusals import in_words
from scheduler.models import Job, Run
from tests.factories import DeadLetterFactory, JobFactory, RunFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


def press(client: Client, name: str, fields: dict | None = None, **parts):
    return client.post(reverse(name, kwargs=parts), fields or {}, headers=HTMX)


def test_what_was_done_leads_on_by_a_header_that_a_script_sees(operator):
    JobFactory(job_key="ops:backup")
    answer = press(operator, "run-now", job_key="ops:backup")
    assert (answer.status_code, answer["HX-Redirect"]) == (200, f"/runs/{Run.objects.get().pk}")


@pytest.mark.parametrize(
    ("name", "fields", "status", "says"),
    [
        ("job-delete", {"typed": "no"}, 400, "Nothing was done: type ops:backup to say that you mean it."),
        ("job-delete", {"typed": "ops:backup"}, 409, "jobs file"),
        ("pause", {"until": "2020-01-01T00:00"}, 400, "This is past. Write a time after 2026-03-02 12:00:00 UTC"),
        ("skip-next", {}, 409, "fire"),
    ],
)
def test_a_refusal_is_a_sentence_beside_the_button(operator, name, fields, status, says):
    job = JobFactory(job_key="ops:backup", managed_by="file")
    answer = press(operator, name, fields, job_key="ops:backup")
    assert answer.status_code == status
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert says in answer.content.decode()
    assert "HX-Redirect" not in answer
    job.refresh_from_db()
    assert (job.deleted_at, job.paused_at) == (None, None)
    # Nothing of it waits for the next page.
    assert not Page(operator.get("/jobs")).all("p", class_="message-error")


def test_all_that_a_form_says_wrong_is_told_at_once_each_with_the_name_of_its_field(operator):
    JobFactory(job_key="ops:backup")
    fields = {"reason": "x" * 300, "until": "soon"}
    answer = press(operator, "pause", fields, job_key="ops:backup")
    assert answer["Croniq-Fields"] == "reason,until"
    assert answer.content.decode().splitlines() == [
        "“Reason” has 300 characters; 255 are allowed.",
        "Write a date and a time of day, such as 2026-12-24 18:00.",
    ]
    page = Page(operator.post("/jobs/ops:backup/pause", fields, HTTP_REFERER="http://testserver/jobs/ops:backup?a=1"))
    assert "Until : Write a date and a time" in page.text
    assert page.links("/jobs/ops:backup?a=1")
    for elsewhere in ("http://evil.example/jobs", "//evil.example", "http://testserver/jobs/ops:backup/pause", "x"):
        page = Page(operator.post("/jobs/ops:backup/pause", fields, HTTP_REFERER=elsewhere))
        assert "To the start page" in page.text, elsewhere


@pytest.mark.parametrize(
    ("sentence", "field", "words"),
    [
        ("max_retries is a whole number from 0 to 9.", "max_retries", "“Retries” is a whole number from 0 to 9."),
        ("The shortest possible lease is 5 seconds.", "lease", "The shortest possible “Lease” is 5 seconds."),
        ("A tag of the tags has a name.", "tags", "A tag of the tags has a name."),
        ("odd is a text.", "odd", "odd is a text."),
    ],
)
def test_a_field_is_called_by_its_label(sentence, field, words):
    assert in_words(sentence, field, LABELS) == words


def test_a_field_is_called_by_its_label_in_the_readers_language():
    with override("de"):
        sentence = in_words("pin is a number from 0 to 1.", "pin", LABELS)
        assert sentence == f"“{LABELS['pin']}” ist eine Zahl von 0 bis 1."


def test_without_a_script_a_conflict_is_a_message_and_no_success(operator, monkeypatch):
    def refused(*args, **kwargs):
        raise Conflict("Somebody else is at it.", code="busy")

    JobFactory(job_key="ops:backup")
    for name in ("pause", "resume"):
        monkeypatch.setattr(jobs, f"{name}_job", refused)
        page = Page(operator.post(reverse(name, kwargs={"job_key": "ops:backup"}), follow=True))
        assert "Somebody else is at it." in page.text
        assert not page.all("p", class_="message-success")


def test_whoever_may_not_is_told_so_there(viewer):
    JobFactory(job_key="ops:backup")
    answer = press(viewer, "pause", job_key="ops:backup")
    assert (answer.status_code, answer.content) == (403, b"You may look at this, not do it. Nothing was done.")
    assert Job.objects.get().paused_at is None


def test_whose_session_ended_is_told_so_and_not_led_away(operator):
    JobFactory(job_key="ops:backup")
    Session.objects.all().delete()
    answer = press(operator, "pause", job_key="ops:backup")
    assert (answer.status_code, answer.content) == (401, b"You are not signed in any more. Nothing was done.")
    assert "HX-Redirect" not in answer
    assert Job.objects.get().paused_at is None


def test_whose_session_ended_and_presses_without_a_script_signs_in(operator):
    User.objects.all().delete()
    assert operator.post("/jobs/ops:backup/pause")["Location"].startswith("/sign-in")


@pytest.mark.parametrize("path", ["/letters/{letter}", "/missed"])
def test_what_destroys_names_what_it_does_before(operator, now, path):
    letter = DeadLetterFactory()
    RunFactory(job=letter.job, verdict="skipped", problem="skipped", finished_at=now, reason="paused")
    page = Page(operator.get(path.format(letter=letter.pk)))
    for form in page.all("form", method="post"):
        if form["action"].endswith(("/discard", "/dismiss", "/cancel")):
            assert len(form["data-confirm"]) > 40
            break
    else:
        raise AssertionError("nothing destroys here")
