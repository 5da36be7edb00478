"""An edit of a calendar in the admin is shown before it is made."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from calendars.models import Calendar, CalendarRule
from croniq_site.kernel.clock import ManualClock
from runners.models import AuditEvent
from scheduler.admin import calendars as module
from scheduler.models import Trigger
from scheduler.services.calendars import edit_calendar
from scheduler.services.materialize import materialize
from scheduler.services.replan import replan_job
from tests.calendars.test_admin import form
from tests.factories import JobFactory, TriggerFactory
from tests.scheduler.dashboard.conftest import client_of
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
KEY = "ops:<img src=x>"
EVERY_DAY = ["1", "2", "3", "4", "5", "6", "7"]


@pytest.fixture
def office(now, monkeypatch) -> Calendar:
    monkeypatch.setattr(module, "DatabaseClock", lambda: ManualClock(now))
    rules = [{"effect": "include", "weekdays": [1, 2, 3, 4, 5]}]
    calendar = edit_calendar({"name": "office", "timezone": "UTC", "rules": rules}, now).calendar
    cron = {"kind": "cron", "every": None, "anchor_at": None, "cron_expression": "0 9 * * *"}
    TriggerFactory(job__job_key=KEY, calendar=calendar, **cron)
    return calendar


def page_of(calendar: Calendar) -> str:
    return reverse("admin:calendars_calendar_change", args=[calendar.pk])


def filled(calendar: Calendar, weekdays: list[str], **more: str) -> dict[str, object]:
    rule = {"id": calendar.rules.get().pk, "calendar": calendar.pk, "weekdays": weekdays}
    return form(rule, initial=1, timezone="UTC", **more)


def test_a_preview_tells_which_fires_change_and_saves_nothing(admin_client, office):
    before = list(Calendar.objects.values()), list(CalendarRule.objects.values()), AuditEvent.objects.count()
    answer = admin_client.post(page_of(office), filled(office, ["2"], name="renamed") | {"_preview": "1"})
    assert answer.status_code == 200
    page = Page(answer)
    assert page.refused == []
    assert f"{KEY} 2026-03-03 09:00:00 UTC 2026-03-04 09:00:00 UTC" in page.text
    assert "2026-03-03 09:00:00 UTC 2026-03-10 09:00:00 UTC" in page.text
    assert not page.all("img", src="x")
    assert (list(Calendar.objects.values()), list(CalendarRule.objects.values()), AuditEvent.objects.count()) == before
    # What was filled in is still there to be saved.
    assert page.all("input", name="name", value="renamed")
    checked = [box["value"] for box in page.all("input", name="rules-0-weekdays") if "checked" in box]
    assert checked == ["2"]


def test_the_change_that_was_shown_is_then_saved(admin_client, office):
    answer = admin_client.post(page_of(office), filled(office, ["2"]))
    assert answer.status_code == 302
    assert office.rules.get().weekdays == [2]


def test_a_change_that_stops_a_job_warns_and_is_a_config_error_once_saved(admin_client, office, now):
    job = Trigger.objects.get().job
    text = Page(
        admin_client.post(page_of(office), filled(office, EVERY_DAY) | {"rules-0-effect": "exclude", "_preview": "1"})
    ).text
    assert "None: it would fire no more." in text
    assert (
        admin_client.post(page_of(office), filled(office, EVERY_DAY) | {"rules-0-effect": "exclude"}).status_code == 302
    )
    materialize(now + timedelta(minutes=1))
    assert "The calendar is closed" in Trigger.objects.get(job=job).config_error


def test_a_preview_of_nonsense_shows_the_refusal_and_tells_nothing(admin_client, office):
    text = Page(
        admin_client.post(page_of(office), filled(office, ["2"]) | {"timezone": "Europe/Berln", "_preview": "1"})
    ).text
    assert "Europe/Berlin" in text
    assert "What this change would do" not in text


def test_a_change_of_the_zone_is_compared_with_the_stored_one(admin_client, office):
    data = filled(office, ["1", "2", "3", "4", "5"]) | {"timezone": "Pacific/Auckland", "_preview": "1"}
    # Friday 15:00 UTC is Saturday there, and Sunday 15:00 Monday.
    Trigger.objects.update(cron_expression="0 15 * * *")
    text = Page(admin_client.post(page_of(office), data)).text
    assert "2026-03-06 15:00:00 UTC" in text
    assert "2026-03-08 15:00:00 UTC" in text


def test_without_a_difference_it_says_so(admin_client, office):
    text = Page(admin_client.post(page_of(office), filled(office, ["1", "2", "3", "4", "5"]) | {"_preview": "1"})).text
    assert "next fires change" in text
    assert "Unchanged: 1 schedule." in text


def test_the_form_leads_to_the_calendars_days_and_only_an_editor_may_ask(admin_client, office):
    assert f"/calendars/{office.pk}" in Page(admin_client.get(page_of(office))).links("/calendars/")
    user = User.objects.create_user("nora", password="a long secret", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_calendar"))
    client = client_of(user)
    assert b"_preview" not in client.get(page_of(office)).content
    assert client.post(page_of(office), filled(office, ["2"]) | {"_preview": "1"}).status_code == 403


def test_a_calendar_in_use_is_not_deleted_and_the_jobs_are_named(admin_client, office):
    path = reverse("admin:calendars_calendar_delete", args=[office.pk])
    text = Page(admin_client.post(path, {"post": "yes"}, follow=True)).text
    assert KEY in text
    listed = reverse("admin:calendars_calendar_changelist")
    chosen = {"action": "delete_selected", "_selected_action": [office.pk], "post": "yes"}
    text = Page(admin_client.post(listed, chosen, follow=True)).text
    assert KEY in text
    assert Calendar.objects.filter(pk=office.pk).exists()


def test_a_broken_calendar_stops_only_its_triggers_and_the_reason_is_on_the_job(operator_page, office, now):
    other = JobFactory(job_key="ops:fine")
    TriggerFactory(job=other, every=timedelta(minutes=10))
    replan_job(other, now)
    CalendarRule.objects.update(weekdays=["someday"])
    Trigger.objects.update(next_materialize_at=now)
    materialize(now)
    broken, fine = (Trigger.objects.get(job__job_key=key) for key in (KEY, "ops:fine"))
    assert "rule 1, weekdays" in broken.config_error
    assert fine.config_error == ""
    assert "rule 1, weekdays" in operator_page(broken.job.job_key)


@pytest.fixture
def operator_page(admin_client):
    return lambda job_key: Page(admin_client.get(reverse("job", kwargs={"job_key": job_key}))).text


def days_of(page: Page) -> dict[str, str]:
    return {values["title"]: values["class"] for values in page.all("td") if "title" in values}


def test_the_form_shows_the_coming_twelve_months(admin_client, office, now):
    rules = [
        {"effect": "include", "weekdays": [1, 2, 3, 4, 5]},
        {"effect": "exclude", "dates": ["2026-12-24"], "name": "Christmas Eve"},
    ]
    edit_calendar({"rules": rules}, now, calendar=office)
    page = Page(admin_client.get(page_of(office)))
    days = days_of(page)
    assert len(days) == 365
    assert "March 2026" in page.text
    assert "February 2027" in page.text
    (eve,) = [title for title in days if title.startswith("Thu 24 Dec")]
    assert "Christmas Eve" in eve
    assert days[eve] == "day-closed"


def test_beside_a_change_it_shows_what_is_saved(admin_client, office):
    changed = filled(office, ["6"]) | {"timezone": "Pacific/Kiritimati", "_preview": "1"}  # where it is tomorrow
    page = Page(admin_client.post(page_of(office), changed))
    (monday,) = [title for title in days_of(page) if title.startswith("Mon 9 Mar")]
    assert days_of(page)[monday] == "day-open busy"
    (today,) = [values for values in page.all("td") if "aria-current" in values]
    assert today["title"].startswith("Mon 2 Mar")


def test_a_calendar_that_cannot_be_read_says_so_in_its_form(admin_client, office):
    Calendar.objects.update(timezone="Mars/Olympus")
    page = Page(admin_client.get(page_of(office)))
    assert "This calendar cannot be read, and what uses it stands still." in page.text
    assert "Mars/Olympus" in page.text
