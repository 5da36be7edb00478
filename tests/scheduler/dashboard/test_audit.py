"""Who did what, filtered in the address and page by page."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.dashboard import audit
from tests.factories import AuditEventFactory, CalendarFactory, DeadLetterFactory, JobFactory, RunFactory
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def test_an_event_says_who_what_of_what_and_what_changed(viewer):
    JobFactory(job_key="ops:backup")
    AuditEventFactory(
        actor_type="user",
        actor_id="vera",
        action="job.updated",
        target_type="job",
        target_id="ops:backup",
        diff={"timeout": [300, 600], "description": ["", "new"], "why": "because", "tags": ["a", "b", "c"], "n": None},
    )
    page = Page(viewer.get("/audit"))
    assert "vera user job.updated job ops:backup" in page.text
    assert "timeout 300 became → 600" in page.text
    assert "description – became → new" in page.text
    assert "why because" in page.text
    assert 'tags ["a", "b", "c"]' in page.text
    assert "n –" in page.text
    assert page.links("/jobs/ops:backup")


def test_things_with_a_page_are_linked_and_others_are_named(viewer):
    run, letter, calendar = RunFactory(), DeadLetterFactory(), CalendarFactory()
    for kind, target in (("run", run.pk), ("dead_letter", letter.pk), ("calendar", calendar.pk), ("runner", "box 1")):
        AuditEventFactory(target_type=kind, target_id=str(target))
    for kind, target in (
        ("run", ""),
        ("run", "x"),
        ("dead_letter", "x"),
        ("calendar", "shop"),
        ("job", "a/b"),
        ("group", "g"),
    ):
        AuditEventFactory(target_type=kind, target_id=target)
    links = {values["href"] for values in Page(viewer.get("/audit")).all("a")}
    assert {f"/runs/{run.pk}", f"/letters/{letter.pk}", f"/calendars/{calendar.pk}", "/runs?runner=box+1"} <= links
    assert not [link for link in links if link.startswith(("/jobs/", "/runs/x", "/letters/x", "/calendars/s"))]


def test_a_big_difference_is_shown_in_part_and_counted(viewer):
    AuditEventFactory(diff={f"field-{n:02}": "x" * 1000 for n in range(23)})
    text = Page(viewer.get("/audit")).text
    assert "field-19" in text
    assert "field-20" not in text
    assert "and 3 more" in text
    assert "x" * 301 not in text


@pytest.mark.parametrize(
    "query",
    [
        "actor_type=user",
        "actor_id=vera",
        "action=job.updated",
        "target_type=job",
        "target_id=ops:backup",
        "since=2026-03-02T11:30",
        "since=2026-03-02T11:30:00Z&until=2026-03-02T13:00",
        "actor_type=user&action=job.updated",
    ],
)
def test_filters_stand_in_the_address(viewer, now, query):
    AuditEventFactory(
        actor_type="user", actor_id="vera", action="job.updated", target_type="job", target_id="ops:backup"
    )
    AuditEventFactory(created_at=now - HOUR, action="other.event")
    text = Page(viewer.get(f"/audit?{query}")).text
    assert "job.updated" in text
    assert "other.event" not in text


def test_older_events_follow_once_each_with_the_filter(viewer, now, monkeypatch):
    monkeypatch.setattr(audit, "PAGE_ROWS", 2)
    for n in range(5):
        AuditEventFactory(created_at=now - (n // 2) * HOUR, action="a.b", target_id=f"thing-{n}")
        AuditEventFactory(created_at=now - (n // 2) * HOUR, action="c.d", target_id=f"other-{n}")
    seen, path = "", "/audit?action=a.b"
    while path:
        page = Page(viewer.get(path))
        seen += page.text
        path = next(iter(values["href"] for values in page.all("a", rel="next")), "")
        AuditEventFactory(created_at=now, action="a.b", target_id="newer")
    assert [seen.count(f"thing-{n}") for n in range(5)] == [1] * 5
    assert "other-" not in seen


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=2026", "before=5", "before=x,5", "before=2026-03-02T12:00:00Z,x"]
)
def test_what_is_no_filter_is_400(viewer, query):
    assert viewer.get(f"/audit?{query}").status_code == 400


def test_an_empty_list_says_why(viewer):
    assert "Nothing has happened yet" in Page(viewer.get("/audit")).text
    assert "Nothing of the kind happened" in Page(viewer.get("/audit?action=x")).text
    assert "Nothing is older" in Page(viewer.get("/audit?before=2026-03-02T12:00:00Z,5")).text
