"""What a calendar does to days, and what an edit would do to fires, before it is made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from calendars.models import Calendar, CalendarRule
from croniq_site.kernel.errors import InvalidInput
from runners.models import AuditEvent
from scheduler.models import Run, Trigger
from scheduler.queries import what_if as module
from scheduler.queries.fires import next_fires
from scheduler.queries.what_if import what_if
from scheduler.services.calendars import edit_calendar
from tests.factories import CalendarFactory, CalendarRuleFactory, JobFactory, TriggerFactory

pytestmark = pytest.mark.django_db
WEEK = {"effect": "include", "name": "working week", "weekdays": [1, 2, 3, 4, 5]}


def at(day: int, hour: int = 9) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=UTC)


def daily(job_key: str, calendar: Calendar, **fields) -> Trigger:
    cron = {"kind": "cron", "every": None, "anchor_at": None, "cron_expression": "0 9 * * *"}
    return TriggerFactory(job__job_key=job_key, calendar=calendar, **cron | fields)


@pytest.fixture
def office(now) -> Calendar:
    return edit_calendar({"name": "office", "timezone": "UTC", "rules": [WEEK]}, now).calendar


def test_the_days_of_a_range(api, office):
    answer = api("calendars:read").get(f"/v1/calendars/{office.pk}/preview?from=2026-03-06&until=2026-03-07")
    assert answer.status_code == 200, answer.content
    assert answer.json() == {
        "calendar_id": office.pk,
        "timezone": "UTC",
        "days": [
            {
                "date": "2026-03-06",
                "state": "open",
                "windows": [{"start": "00:00", "end": "24:00"}],
                "reason": "working week",
            },
            {"date": "2026-03-07", "state": "closed", "windows": [], "reason": "outside of the open times"},
        ],
    }


def test_without_a_range_it_is_a_month_from_today_on(api, office):
    days = api().get(f"/v1/calendars/{office.pk}/preview").json()["days"]
    assert (days[0]["date"], days[-1]["date"]) == ("2026-03-02", "2026-04-01")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=2026-13-01", "from"),
        ("from=20260301", "from"),
        ("until=yesterday", "until"),
        ("from=2026-01-01&until=2027-06-01", "until"),
        ("from=2026-01-02&until=2026-01-01", "until"),
        ("from=0001-01-01", "from"),
        ("from=9999-12-31", "from"),
        ("until=9999-12-31", "until"),
    ],
)
def test_nonsense_is_refused_by_field(api, office, query, field):
    answer = api().get(f"/v1/calendars/{office.pk}/preview?{query}")
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


def test_a_calendar_whose_rows_are_nonsense_is_a_conflict_that_says_so(api, office):
    CalendarRule.objects.update(weekdays=["someday"])
    answer = api().get(f"/v1/calendars/{office.pk}/preview")
    assert (answer.status_code, answer.json()["error"]) == (409, "calendar_broken")
    assert "rule 1, weekdays" in answer.json()["message"]


def test_another_tenants_calendar_is_not_there(api, office):
    client = api(tenant="acme")
    assert client.get(f"/v1/calendars/{office.pk}/preview").status_code == 404
    assert client.post(f"/v1/calendars/{office.pk}/what-if", {}).status_code == 404


def test_an_edit_is_told_before_it_is_made_and_comes_true(api, office, now):
    trigger = daily("ops:report", office)
    daily("ops:late", office, cron_expression="0 3 1 6 *")
    values = {"rules": [WEEK, {"effect": "exclude", "name": "fair", "dates": ["2026-03-03", "2026-03-05"]}]}
    answer = api("calendars:write").post(f"/v1/calendars/{office.pk}/what-if", values)
    assert answer.status_code == 200, answer.content
    before = [at(day) for day in (3, 4, 5, 6, 9)]
    after = [at(day) for day in (4, 6, 9, 10, 11)]
    shown = {
        "job_key": "ops:report",
        "trigger_id": str(trigger.pk),
        "before": [f"{instant:%Y-%m-%dT%H:%M:%S}Z" for instant in before],
        "after": [f"{instant:%Y-%m-%dT%H:%M:%S}Z" for instant in after],
        "error": None,
    }
    told = answer.json()
    for item in told["changed"]:
        for side in ("before", "after"):
            item[side] = [text.replace(".000000", "").replace(".000", "") for text in item[side]]
    assert told == {"changed": [shown], "unchanged": 1, "schedules_left_out": 0}
    trigger = Trigger.objects.select_related("job", "calendar").get(pk=trigger.pk)
    assert next_fires(trigger, now) == before
    edit_calendar(values, now, calendar=office)
    assert next_fires(Trigger.objects.get(pk=trigger.pk), now) == after


def test_telling_writes_nothing(api, office):
    daily("ops:report", office)
    client = api()  # to issue its key is audited
    rows = [list(model.objects.order_by("pk").values()) for model in (Calendar, CalendarRule, Trigger, Run, AuditEvent)]
    client.post(f"/v1/calendars/{office.pk}/what-if", {"timezone": "Asia/Tokyo", "name": "x", "rules": []})
    assert rows == [
        list(model.objects.order_by("pk").values()) for model in (Calendar, CalendarRule, Trigger, Run, AuditEvent)
    ]


def test_what_a_save_would_refuse_is_refused_by_field(api, office):
    path = f"/v1/calendars/{office.pk}/what-if"
    for values, field in (
        ({"timezone": "Europe/Berln"}, "timezone"),
        ({"rules": [{"effect": "include", "weekdays": [9]}]}, "rules.0.weekdays"),
        ({"colour": "blue"}, "colour"),
    ):
        answer = api().post(path, values)
        assert answer.status_code == 400
        assert field in answer.json()["fields"]


def test_a_trigger_that_would_never_fire_again_is_told_and_so_is_one_that_a_broken_calendar_stops(office, now):
    daily("ops:report", office)
    (stopped,) = what_if(office, {"rules": [{"effect": "exclude", "weekdays": [1, 2, 3, 4, 5, 6, 7]}]}, now).changed
    assert stopped.stops
    assert stopped.after == ()
    CalendarRule.objects.update(weekdays=["someday"])
    (mended,) = what_if(office, {"rules": [WEEK]}, now, count=1).changed
    assert (mended.before, mended.after, mended.stops) == ((), (at(3),), False)
    assert "weekdays" in mended.error


def test_what_does_not_fire_is_not_told_of(office, now):
    daily("ops:off", office, enabled=False)
    daily("ops:inactive", office, job=JobFactory(is_active=False))
    daily("ops:gone", office, job=JobFactory(deleted_at=now))
    daily("ops:bad", office, cron_expression="61 * * * *")
    found = what_if(office, {"rules": []}, now)
    assert (found.changed, found.unchanged, found.left_out) == ((), 1, 0)
    with pytest.raises(InvalidInput):
        what_if(office, {"rules": [{"effect": "include"}]}, now)


def test_each_schedule_is_worked_out_once_and_their_number_is_bounded(office, now, monkeypatch):
    for number in range(6):
        daily(f"ops:same-{number}", office)
    for number in range(5):
        daily(f"ops:x-{number}", office, cron_expression=f"{number} 9 * * *")
    asked = []
    monkeypatch.setattr(module, "trigger_fires", lambda trigger, **how: asked.append(trigger) or [])
    monkeypatch.setattr(module, "MOST_WORKED_OUT", 3)
    found = what_if(office, {"rules": []}, now)
    assert len(asked) == 2 * 3  # "0 9" is the schedule of seven
    assert (found.unchanged, found.left_out) == (9, 2)
    monkeypatch.setattr(module, "MOST_TRIGGERS", 4)
    assert what_if(office, {"rules": []}, now).left_out == 7


def test_the_queries_do_not_depend_on_how_many_use_it(office, now):
    counts = []
    for more in (2, 20):
        for number in range(more):
            daily(f"ops:{more}-{number}", office, cron_expression=f"{number} 9 * * *", created_at=now - timedelta(1))
        with CaptureQueriesContext(connection) as queries:
            what_if(Calendar.objects.get(pk=office.pk), {"rules": []}, now)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 3


def test_the_days_cost_two_queries_whatever_the_rules(api):
    calendar = CalendarFactory()
    client = api()
    client.get("/v1/calendars")  # the key's first use is written down
    counts = []
    for more in (1, 20):
        for number in range(more):
            CalendarRuleFactory(calendar=calendar, effect="exclude", weekdays=[7], position=number)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/v1/calendars/{calendar.pk}/preview").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]
