"""The history of edits on a job's page, and taking one back there."""

from __future__ import annotations

import pytest

from runners.models import AuditEvent
from runners.services.audit import Actor
from scheduler.models import Job
from scheduler.services.jobs import save_job
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
PAGE = "/jobs/ops:backup"
BOB = Actor("user", "bob")


@pytest.fixture
def edited(now) -> AuditEvent:
    save_job({"job_key": "ops:backup", "description": "<b>old</b>"}, now, BOB)
    save_job({"job_key": "ops:backup", "description": "new"}, now, BOB, partial=True)
    return AuditEvent.objects.get(action="job.updated")


def test_a_page_tells_what_was_edited_by_whom(operator, edited):
    page = Page(operator.get(PAGE))
    assert "History of edits" in page.text
    assert "bob" in page.text
    assert "<b>old</b> became" in page.text
    assert not page.all("b")
    # What began is not taken back by a button.
    assert [field["value"] for field in page.all("input", name="event_id")] == [str(edited.event_id)]


def test_whoever_only_looks_has_no_button(viewer, edited):
    page = Page(viewer.get(PAGE))
    assert "job.updated" in page.text
    assert not page.all("input", name="event_id")
    answer = viewer.post(f"{PAGE}/revert", {"event_id": str(edited.event_id)})
    assert answer.status_code == 403
    assert Job.objects.get().description == "new"


def test_an_edit_is_taken_back_and_one_that_was_edited_since_is_not(operator, edited, now):
    answer = operator.post(f"{PAGE}/revert", {"event_id": str(edited.event_id)}, follow=True)
    assert "Taken back" in Page(answer).text
    assert Job.objects.get().description == "<b>old</b>"
    answer = operator.post(f"{PAGE}/revert", {"event_id": str(edited.event_id)}, follow=True)
    assert "Edited since then: description" in Page(answer).text
    assert AuditEvent.objects.filter(action="job.reverted", actor_id="otto").count() == 1


def test_what_is_executed_is_not_taken_back_by_who_may_only_act(operator, admin_client, now):
    save_job({"job_key": "ops:backup", "action": {"type": "command", "shell": "date"}}, now, BOB)
    save_job({"job_key": "ops:backup", "action": None}, now, BOB, partial=True)
    form = {"event_id": str(AuditEvent.objects.get(action="job.updated").event_id)}
    assert operator.post(f"{PAGE}/revert", form).status_code == 403
    assert Job.objects.get().action == {}
    assert admin_client.post(f"{PAGE}/revert", form).status_code == 302
    assert Job.objects.get().action["shell"] == "date"


@pytest.mark.parametrize("event_id", ["", "x", "018f4e9c-8a1b-7c3d-9e2f-0123456789ab", "\x00"])
def test_an_edit_that_is_none_is_404(operator, edited, event_id):
    assert operator.post(f"{PAGE}/revert", {"event_id": event_id}).status_code == 404
    assert operator.post("/jobs/no:such/revert", {"event_id": str(edited.event_id)}).status_code == 404
