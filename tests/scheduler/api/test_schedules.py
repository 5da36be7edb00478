"""/v1/schedules and /v1/calendars."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from calendars.models import Calendar
from scheduler.models import QueueEntry, Run, Trigger
from tests.factories import CalendarFactory, CalendarRuleFactory, JobFactory, TriggerFactory


def test_a_schedule_is_created_read_changed_and_deleted(api):
    JobFactory(job_key="a:b")
    CalendarFactory(name="office")
    client = api("schedules:read", "schedules:write")
    answer = client.post(
        "/v1/schedules",
        {
            "job_key": "a:b",
            "cron_expression": "30 9 * * MON-FRI",
            "timezone": "Europe/Vienna",
            "calendar": "office",
            "on_blocked": "defer",
            "not_before": "2026-04-01T00:00:00+02:00",
        },
    )
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert body == {
        "trigger_id": body["trigger_id"],
        "job_key": "a:b",
        "cron_expression": "30 9 * * MON-FRI",
        "every": None,
        "anchor": None,
        "run_at": None,
        "timezone": "Europe/Vienna",
        "calendar": "office",
        "on_blocked": "defer",
        "window": None,
        "not_before": "2026-03-31T22:00:00.000000Z",
        "not_after": None,
        "enabled": True,
        "managed_by": "api",
        "config_error": None,
        "created_at": "2026-03-02T12:00:00.000000Z",
        "updated_at": "2026-03-02T12:00:00.000000Z",
    }
    path = f"/v1/schedules/{body['trigger_id']}"
    assert client.get(path).json() == body
    changed = client.put(path, {"calendar": None, "enabled": False}).json()
    assert changed == body | {"calendar": None, "enabled": False}
    # What was read may be written back.
    again = client.put(path, changed | {"cron_expression": None, "every": "90s", "timezone": None})
    assert again.status_code == 200, again.content
    assert (again.json()["cron_expression"], again.json()["every"]) == (None, "90s")
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404


def test_an_interval_is_planned_from_its_creation_at_once(api, now):
    JobFactory(job_key="a:b")
    answer = api().post("/v1/schedules", {"job_key": "a:b", "every": "20m"})
    assert answer.status_code == 201
    assert answer.json()["anchor"] == "2026-03-02T12:00:00.000000Z"
    planned = Run.objects.order_by("scheduled_for").values_list("scheduled_for", flat=True)
    assert list(planned) == [now + timedelta(minutes=20 * k) for k in (1, 2, 3)]
    assert QueueEntry.objects.count() == 3


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "cron_expression"),
        ({"cron_expression": "61 * * * *"}, "cron_expression"),
        ({"cron_expression": "0 0 31 2 *"}, "cron_expression"),
        ({"cron_expression": 5}, "cron_expression"),
        ({"every": "0s"}, "every"),
        ({"every": "soon"}, "every"),
        ({"every": ["5m"]}, "every"),
        ({"every": "5m", "cron_expression": "* * * * *"}, "cron_expression|every"),
        ({"cron_expression": "* * * * *", "timezone": "Europe/Wien"}, "timezone"),
        ({"cron_expression": "* * * * *", "timezone": 7}, "timezone"),
        ({"every": "5m", "calendar": "no such"}, "calendar"),
        ({"every": "5m", "on_blocked": "explode"}, "on_blocked"),
        ({"every": "5m", "not_before": "tomorrow"}, "not_before"),
        ({"every": "5m", "not_after": "2020-01-01T00:00:00Z"}, "not_after"),
        ({"every": "5m", "enabled": "yes"}, "enabled"),
        ({"every": "5m", "wnidow": "x"}, "wnidow"),
        ({"run_at": "2020-01-01T00:00:00Z"}, "run_at"),
    ],
    ids=str,
)
def test_a_schedule_that_is_none_is_400_by_field_and_not_saved(api, fields, named):
    JobFactory(job_key="a:b")
    client = api()
    answer = client.post("/v1/schedules", {"job_key": "a:b", **fields})
    assert answer.status_code == 400, answer.content
    assert set(answer.json()["fields"]) & set(named.split("|"))
    assert not Trigger.objects.exists()
    if fields:
        trigger = TriggerFactory(job__job_key="c:d")
        before = Trigger.objects.filter(pk=trigger.pk).values().get()
        assert client.put(f"/v1/schedules/{trigger.pk}", fields).status_code in (200, 400)
        if fields.get("run_at") or "wnidow" in fields:
            assert Trigger.objects.filter(pk=trigger.pk).values().get() == before


def test_all_that_is_wrong_with_a_schedule_is_said_at_once(api):
    JobFactory(job_key="a:b")
    wrong = {
        "every": "0s",
        "anchor": "noon",
        "timezone": "Mars",
        "calendar": "nobody's",
        "on_blocked": "maybe",
        "window": "9",
        "not_before": "soon",
        "not_after": "later",
        "enabled": "yes",
        "wnidow": 1,
    }
    answer = api().post("/v1/schedules", {"job_key": "a:b", **wrong})
    assert (answer.status_code, set(answer.json()["fields"])) == (400, set(wrong))
    trigger = TriggerFactory(job__job_key="c:d")
    answer = api().put(f"/v1/schedules/{trigger.pk}", wrong)
    assert (answer.status_code, set(answer.json()["fields"])) == (400, set(wrong))
    assert not Trigger.objects.exclude(pk=trigger.pk).exists()


def test_the_job_of_a_schedule_must_be_there_and_stays(api):
    client = api()
    for job_key in (None, 5, "", "no:such", "a\x7fb"):
        answer = client.post("/v1/schedules", {"job_key": job_key, "every": "5m"})
        assert answer.status_code in (400, 404)
    trigger = TriggerFactory(job__job_key="a:b")
    JobFactory(job_key="c:d")
    answer = client.put(f"/v1/schedules/{trigger.pk}", {"job_key": "c:d"})
    assert answer.status_code == 400
    assert "job_key" in answer.json()["fields"]
    assert client.put(f"/v1/schedules/{trigger.pk}", {"job_key": "a:b"}).status_code == 200


@pytest.mark.parametrize("text", ["x", "%00", "1", "018f4e9c-8a1b-7c3d-9e2f-0123456789ab"])
def test_an_id_that_is_of_no_schedule_is_404(api, text):
    for method in ("get", "put", "delete"):
        assert getattr(api(), method)(f"/v1/schedules/{text}").status_code == 404


def test_the_list_is_by_job_filtered_and_paged(api):
    one, other = JobFactory(job_key="a:one"), JobFactory(job_key="a:other")
    triggers = [TriggerFactory(job=job, window_start=time(9), window_end=time(17)) for job in (other, one, one)]
    gone = TriggerFactory(job__deleted_at="2026-01-01T00:00:00Z")
    expected = [str(t.pk) for t in sorted(triggers, key=lambda t: (t.job.job_key, t.pk.hex))]
    client = api()

    def ids(rows: list[dict]) -> list[str]:
        return [row["trigger_id"] for row in rows]

    body = client.get("/v1/schedules").json()
    assert ids(body) == expected
    assert str(gone.pk) not in ids(body)
    assert body[0]["window"] == {"start": "09:00", "end": "17:00"}
    assert ids(client.get("/v1/schedules?job_key=a:other").json()) == expected[2:]
    page = client.get("/v1/schedules?page_size=1").json()
    seen = ids(page["results"])
    while page["next"]:
        page = client.get(page["next"]).json()
        seen += ids(page["results"])
    assert seen == expected


RULES = [
    {"effect": "include", "name": "weekdays", "weekdays": [1, 2, 3, 4, 5]},
    {"effect": "exclude", "name": "lunch", "window_start": "12:00", "window_end": "13:00"},
    {"effect": "exclude", "holiday_country": "AT"},
    {"effect": "exclude", "range_start": "2026-08-01", "range_end": "2026-08-15", "dates": []},
]


def test_a_calendar_is_created_read_written_back_and_deleted(api):
    client = api("calendars:read", "calendars:write")
    answer = client.post("/v1/calendars", {"name": "office", "timezone": "Europe/Vienna", "rules": RULES})
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert (body["name"], body["timezone"], body["tenant"]) == ("office", "Europe/Vienna", "default")
    assert [rule["effect"] for rule in body["rules"]] == ["include", "exclude", "exclude", "exclude"]
    assert body["rules"][1]["window_start"] == "12:00"
    assert body["rules"][3]["range_end"] == "2026-08-15"
    path = f"/v1/calendars/{body['id']}"
    assert client.get(path).json() == body
    written = client.put(path, body)
    assert written.status_code == 200, written.content
    assert written.json() == body
    assert client.put(path, {"description": "when we are there"}).json()["description"] == "when we are there"
    assert len(client.get(path).json()["rules"]) == 4
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_a_calendar_that_is_used_cannot_be_deleted(api):
    calendar = CalendarFactory()
    TriggerFactory(job__job_key="a:user", calendar=calendar)
    answer = api().delete(f"/v1/calendars/{calendar.pk}")
    assert answer.status_code == 409
    assert "a:user" in answer.json()["message"]
    assert Calendar.objects.exists()


def test_a_name_that_is_taken_is_409_and_nonsense_400_by_field(api):
    CalendarFactory(name="office")
    client = api()
    good = {"name": "office", "timezone": "UTC"}
    assert client.post("/v1/calendars", good).status_code == 409
    for field, value in {
        "name": "",
        "timezone": "Nowhere/At_All",
        "rules": "x",
        "description": 5,
        "colour": "blue",
        "tenant": "No!",
    }.items():
        answer = client.post("/v1/calendars", good | {field: value})
        assert answer.status_code == 400, field
        assert field in answer.json()["fields"]
    answer = client.post("/v1/calendars", {**good, "rules": [{"effect": "include", "weekdays": [9]}]})
    assert answer.status_code == 400
    assert "rules.0.weekdays" in answer.json()["fields"]


def test_calendars_of_another_tenant_are_not_there(api):
    calendar = CalendarFactory(tenant="acme", name="office")
    CalendarRuleFactory(calendar=calendar)
    other, own = api(tenant="other"), api(tenant="acme")
    for method in ("get", "put", "delete"):
        assert getattr(other, method)(f"/v1/calendars/{calendar.pk}").status_code == 404
    assert other.get("/v1/calendars").json() == []
    assert [row["name"] for row in own.get("/v1/calendars").json()] == ["office"]
    # Names are a tenant's own.
    made = other.post("/v1/calendars", {"name": "office", "timezone": "UTC"})
    assert made.status_code == 201
    assert made.json()["tenant"] == "other"
    assert other.post("/v1/calendars", {"name": "x", "timezone": "UTC", "tenant": "acme"}).status_code == 400


@pytest.mark.parametrize("text", ["x", "0", "%00", "9" * 40, "-1", "٣"])
def test_an_id_that_is_of_no_calendar_is_404(api, text):
    assert api().get(f"/v1/calendars/{text}").status_code == 404
