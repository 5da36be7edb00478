"""The pages of calendars: each day with its reason, and what fires on it."""

from __future__ import annotations

import re
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Permission, User

from calendars.models import Calendar, CalendarRule
from scheduler.dashboard import calendars
from scheduler.queries import forecast as forecasts
from scheduler.services.calendars import edit_calendar
from tests.browser.pages import month_with_past_days
from tests.factories import CalendarFactory, JobFactory, TriggerFactory
from tests.scheduler.dashboard.conftest import client_of
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
CRON = {"kind": "cron", "every": None, "anchor_at": None}
WEEK = {"effect": "include", "name": "working week", "weekdays": [1, 2, 3, 4, 5]}
HOURS = {"effect": "exclude", "name": "short Friday", "weekdays": [5], "window_start": "12:00", "window_end": "18:00"}


@pytest.fixture
def office(now) -> Calendar:
    rules = [WEEK, HOURS, {"effect": "exclude", "holiday_country": "AT"}]
    values = {"name": "office", "timezone": "Europe/Vienna", "description": "When we are there.", "rules": rules}
    return edit_calendar(values, now).calendar


def cells(page_text: str) -> dict[str, str]:
    """The text of each day of a month's page, by date."""
    found = {}
    for part in page_text.split('<td class="day')[1:]:
        day = re.search(r'datetime="([\d-]+)"', part)[1]
        cut = part.split("</td>")[0]
        found[day] = " ".join(re.sub(r"<[^>]+>", " ", cut[cut.index(">") + 1 :]).split())
    return found


def test_a_month_shows_each_day_with_its_state_and_what_decides(viewer, office):
    answer = viewer.get(f"/calendars/{office.pk}?month=2026-12")
    days = cells(answer.content.decode())
    assert len(days) == 31
    assert days["2026-12-03"] == "Thu 3 Open working week"
    assert days["2026-12-04"] == "Fri 4 Partly 00:00–12:00 18:00–24:00 short Friday"
    assert days["2026-12-05"] == "Sat 5 Closed outside of the open times"
    assert days["2026-12-08"] == "Tue 8 Closed Immaculate Conception"
    page = Page(answer)
    assert {f"/calendars/{office.pk}?month=2026-11", f"/calendars/{office.pk}?month=2027-01"} <= set(
        page.links("/calendars/")
    )
    assert "December 2026" in page.text


def test_under_each_day_are_the_fires_of_the_jobs_that_use_it(viewer, office):
    TriggerFactory(job__job_key="ops:report", calendar=office, cron_expression="30 13 * * *", **CRON)
    TriggerFactory(job__job_key="ops:other", cron_expression="30 13 * * *", **CRON)
    days = cells(viewer.get(f"/calendars/{office.pk}?month=2026-03").content.decode())
    assert days["2026-03-01"] == "Sun 1 Closed outside of the open times"  # past
    assert days["2026-03-02"] == "Mon 2 Open working week 1 fire ops:report 14:30"
    assert days["2026-03-06"].endswith("short Friday 1 blocked ops:report 14:30 blocked, to 9 Mar 14:30")
    assert days["2026-03-08"].endswith("1 blocked ops:report 14:30 blocked, to 9 Mar 14:30")
    assert days["2026-03-31"] == "Tue 31 Open working week 1 fire ops:report 15:30"


def test_schedules_beyond_the_bound_are_left_out_and_counted(viewer, office, monkeypatch):
    monkeypatch.setattr(forecasts, "MOST_OF_A_CALENDAR", 2)
    for number in range(5):
        TriggerFactory(job__job_key=f"ops:{number}", calendar=office, cron_expression="30 13 * * *", **CRON)
    page = Page(viewer.get(f"/calendars/{office.pk}/year?month=2026-12"))
    assert "3 of them are left out here" in page.text
    assert "Wed 9 Dec: open: working week; 2 fires" in [cell["title"] for cell in page.all("td") if "title" in cell]


def test_a_fire_at_midnight_belongs_to_the_day_that_begins(viewer, now):
    calendar = CalendarFactory(name="always")
    TriggerFactory(
        job__job_key="ops:midnight", calendar=calendar, every=timedelta(days=1), anchor_at=now.replace(hour=0)
    )
    days = cells(viewer.get(f"/calendars/{calendar.pk}").content.decode())
    assert "fire" not in days["2026-03-02"]
    assert days["2026-03-03"] == "Tue 3 Open 1 fire ops:midnight 00:00"


def test_a_month_without_an_address_is_this_one_and_today_is_marked(viewer, office):
    page = Page(viewer.get(f"/calendars/{office.pk}"))
    assert "March 2026" in page.text
    assert len(page.all("td", aria_current="date")) == 1


def test_twelve_months_with_titles_and_what_closes_days(viewer, office):
    TriggerFactory(job__job_key="ops:report", calendar=office, cron_expression="30 13 * * *", **CRON)
    page = Page(viewer.get(f"/calendars/{office.pk}/year?month=2026-12"))
    assert len(page.all("table", class_="small-month")) == 12
    titles = [cell["title"] for cell in page.all("td") if "title" in cell]
    assert len(titles) == 365
    assert "Tue 8 Dec: closed: Immaculate Conception; 1 blocked" in titles
    assert "Wed 9 Dec: open: working week; 1 fire" in titles
    assert "Easter Monday Mon 29 Mar 2027" in page.text
    assert "short Friday Fri 4 Dec 2026" in page.text


@pytest.mark.parametrize("path", ["", "/year"])
@pytest.mark.parametrize(
    ("month", "status"),
    [
        ("2026-13", 400),
        ("1970-01", 400),
        ("9999-01", 400),
        ("x", 400),
        ("2026-1", 400),
        ("2197-12", 200),
        ("1971-01", 200),
    ],
)
def test_a_month_that_is_none_is_refused(viewer, office, path, month, status):
    assert viewer.get(f"/calendars/{office.pk}{path}?month={month}").status_code == status


@pytest.mark.parametrize("number", ["0", "999", "9" * 30])
def test_a_calendar_that_is_not_there_is_404(viewer, number):
    assert viewer.get(f"/calendars/{number}").status_code == 404
    assert viewer.get(f"/calendars/{number}/year").status_code == 404


def test_a_calendar_whose_rows_are_nonsense_is_a_page_that_says_so(viewer, office):
    CalendarRule.objects.filter(effect="include").update(weekdays=["someday"])
    for path in ("", "/year", "?month=2026-12"):
        answer = viewer.get(f"/calendars/{office.pk}{path}")
        assert answer.status_code == 200
        assert "what uses it stands still" in Page(answer).text
        assert "rule 1, weekdays" in Page(answer).text
    assert "Config error" in Page(viewer.get("/calendars")).text


def test_the_list_says_how_each_stands_today_and_how_many_jobs_use_it(viewer, office, now):
    job = JobFactory()
    TriggerFactory(job=job, calendar=office)
    TriggerFactory(job=job, calendar=office)
    TriggerFactory(job=JobFactory(deleted_at=now), calendar=office)
    CalendarFactory(name="unused", tenant="acme")
    text = Page(viewer.get("/calendars")).text
    assert "office When we are there. Europe/Vienna Open working week 3 1" in text
    assert "unused acme UTC Open 0 0" in text


def test_a_long_list_goes_on_where_it_ended(viewer, monkeypatch):
    monkeypatch.setattr(calendars, "PAGE_ROWS", 2)
    for name in ("e", "d, 5", "c", "b", "a"):
        CalendarFactory(name=name)
    seen, path = [], "/calendars"
    while path:
        page = Page(viewer.get(path))
        seen += page.links("/calendars/")
        path = next(iter(page.links("/calendars?after=")), "")
    names = dict(Calendar.objects.values_list("pk", "name"))
    assert [names[int(link.rsplit("/")[-1])] for link in seen] == ["a", "b", "c", "d, 5", "e"]
    assert viewer.get("/calendars?after=x,y").status_code == 400


def test_only_those_who_may_edit_are_led_to_the_form(viewer, admin_client, office):
    assert "/admin/calendars" not in viewer.get(f"/calendars/{office.pk}").content.decode()
    user = User.objects.create_user("nora", password="a long secret")
    user.user_permissions.add(Permission.objects.get(codename="change_calendar"))
    assert "/admin/calendars" not in client_of(user).get(f"/calendars/{office.pk}").content.decode()
    edit = f"/admin/calendars/calendar/{office.pk}/change/"
    assert edit in Page(admin_client.get(f"/calendars/{office.pk}")).links("/admin/")


def test_the_browser_sees_days_that_are_over_on_any_day_of_the_year(now):
    """What its tests look at: on the first of a month that month has none, and nobody would see them unreadable."""
    for day in range(366):
        at = now + timedelta(days=day)
        month = month_with_past_days(at.date())
        for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
            today = at.astimezone(ZoneInfo(zone)).date()
            assert f"{month}-01" < f"{today:%Y-%m-%d}"
            assert (today.replace(day=1) - date.fromisoformat(f"{month}-01")).days <= 31
