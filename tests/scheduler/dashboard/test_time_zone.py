"""The zone that a person has chosen: on every page, without a script, and his alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from croniq_site.kernel.errors import NotFound
from runners.models import AuditEvent, Preferences
from runners.services.audit import SYSTEM
from scheduler.models import Run
from scheduler.services.preferences import choose_time_zone
from tests.factories import JobFactory, PreferencesFactory, RunFactory, TriggerFactory
from tests.scheduler.dashboard.conftest import client_of, person
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

NIGHT = (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC))


def choose(client, zone: str):
    return client.post("/time-zone", {"time_zone": zone}, follow=True)


def test_what_one_has_chosen_is_on_all_pages_at_once(viewer):
    RunFactory(completed=True, scheduled_for=datetime(2026, 3, 2, 11, 0, tzinfo=UTC))
    assert "Times are UTC" in Page(viewer.get("/runs")).text
    page = Page(choose(viewer, "Asia/Kathmandu"))
    assert "Times are in Asia/Kathmandu now." in page.text
    page = Page(viewer.get("/runs"))
    assert "2026-03-02 16:45:00 +05:45" in page.text
    assert page.text.endswith("Times are in Asia/Kathmandu")
    [html] = page.all("html")
    assert html["data-time-zone"] == "Asia/Kathmandu"  # the script tells it in the same zone
    assert "2026-03-02 11:00:00 UTC" in Page(client_of(person("vito", "viewer")).get("/runs")).text


def test_empty_is_as_the_browser_says(viewer):
    choose(viewer, "Asia/Kathmandu")
    choose(viewer, "")
    page = Page(viewer.get("/runs"))
    assert page.text.endswith("Times are UTC")
    assert "data-time-zone" not in page.all("html")[0]


def test_what_is_no_zone_is_refused_with_the_nearest_and_nothing_changes(viewer):
    choose(viewer, "Asia/Kathmandu")
    for wrong in ("Europe/Viena", "+02:00", "\x00", "x" * 200, "../etc/passwd"):
        answer = viewer.post("/time-zone", {"time_zone": wrong})
        assert answer.status_code == 400
        assert Page(answer).all("p", id="time-zone-wrong")
    assert "Europe/Vienna" in Page(viewer.post("/time-zone", {"time_zone": "Europe/Viena"})).text
    assert Preferences.objects.get().time_zone == "Asia/Kathmandu"


def test_a_choice_is_told_in_the_audit_once(viewer):
    choose(viewer, "Asia/Kathmandu")
    choose(viewer, "Asia/Kathmandu")
    [event] = AuditEvent.objects.all()
    assert (event.action, event.target_id, event.actor_id) == ("user.updated", "vera", "vera")
    assert event.diff == {"time_zone": ["", "Asia/Kathmandu"]}


def test_who_is_deleted_in_this_moment_chooses_nothing(now):
    user = person("vera", "viewer")
    pk = user.pk
    user.delete()
    with pytest.raises(NotFound):
        choose_time_zone(pk, "Asia/Kathmandu", now, SYSTEM)
    assert not Preferences.objects.exists()
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize("zone", ["", "Asia/Kathmandu"])
def test_it_costs_a_page_no_query(viewer, zone):
    choose(viewer, zone)
    with CaptureQueriesContext(connection) as asked:
        viewer.get("/runs")
    [query] = [query["sql"] for query in asked if "runners_preferences" in query["sql"]]
    assert 'FROM "auth_user"' in query  # it comes with the user, whom the session names


@pytest.mark.parametrize("zone", ["", "Europe/Berlin", "America/New_York"])
def test_two_runs_of_one_autumn_night_are_told_apart(viewer, clock, zone):
    """DB-05: a job in Berlin whose clock shows 02:30 twice."""
    job = TriggerFactory(job=JobFactory(job_key="ops:nightly"), timezone="Europe/Berlin").job
    clock.set(datetime(2026, 10, 26, tzinfo=UTC))
    for at in NIGHT:
        RunFactory(job=job, completed=True, scheduled_for=at)
    choose(viewer, zone)
    for path in ("/runs", "/jobs/ops:nightly"):
        page = Page(viewer.get(path))
        shown = [values for values in page.all("time") if values["datetime"].startswith("2026-10-25T0")]
        assert {values["datetime"] for values in shown} == {
            "2026-10-25T00:30:00.000000Z",
            "2026-10-25T01:30:00.000000Z",
        }
        # On hover the clock of the job, whoever looks.
        on_hover = " ".join(values["title"] for values in shown)
        assert "2026-10-25 02:30:00 +02:00 Europe/Berlin" in on_hover
        assert "2026-10-25 02:30:00 +01:00 Europe/Berlin" in on_hover
        texts = {
            "": ("2026-10-25 00:30:00 UTC", "2026-10-25 01:30:00 UTC"),
            "Europe/Berlin": ("2026-10-25 02:30:00 +02:00", "2026-10-25 02:30:00 +01:00"),
            "America/New_York": ("2026-10-24 20:30:00 -04:00", "2026-10-24 21:30:00 -04:00"),
        }
        assert all(text in page.text for text in texts[zone]), path
    run = Run.objects.order_by("scheduled_for").first()
    titles = [values["title"] for values in Page(viewer.get(f"/runs/{run.pk}")).all("time")]
    assert any("02:30:00 +02:00 Europe/Berlin" in title for title in titles)
    assert not any("America/New_York" in title for title in titles)  # the script adds the viewer's


def test_a_user_is_deleted_with_what_he_has_chosen(admin_client):
    row = PreferencesFactory()
    assert admin_client.post(f"/admin/auth/user/{row.user_id}/delete/", {"post": "yes"}).status_code == 302
    assert not User.objects.filter(pk=row.user_id).exists()
    assert not Preferences.objects.exists()
