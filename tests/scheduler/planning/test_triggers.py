"""What a trigger may say, and what is refused by the name of the field."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from croniq_site.kernel.errors import InvalidInput, NotFound
from scheduler.models import Job, Trigger
from scheduler.queries.fires import next_fires
from scheduler.services.jobs import delete_job
from scheduler.services.triggers import delete_trigger, save_trigger
from tests.factories import CalendarFactory, CalendarRuleFactory
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger, principal

pytestmark = pytest.mark.django_db

CRON = {"cron_expression": "0 3 * * *"}

BAD = [
    ("cron_expression", {}),
    ("cron_expression", {"cron_expression": "* * * *"}),
    ("cron_expression", {"cron_expression": "0 0 30 2 *"}),
    ("cron_expression", {"cron_expression": "0-99999999999 * * * *"}),
    ("cron_expression", {"cron_expression": 5}),
    ("cron_expression", {"cron_expression": "@reboot"}),
    ("cron_expression", {"cron_expression": "\x00 * * * *"}),
    ("every", {"every": "0s"}),
    ("every", {"every": "0.5s"}),
    ("every", {"every": "-5m"}),
    ("every", {"every": "99999d"}),
    ("every", {"every": 5}),
    ("every", {"every": ["5m"]}),
    ("every", {**CRON, "every": "5m"}),
    ("anchor", {"every": "5m", "anchor": "yesterday"}),
    ("anchor", {"every": "5m", "anchor": "2026-01-01T00:00:00"}),
    ("run_at", {"run_at": "2026-03-02T11:59:59Z"}),
    ("run_at", {"run_at": "9999-12-31T23:59:59Z"}),
    ("run_at", {"run_at": "x" * 100}),
    ("run_at", {"run_at": 1}),
    ("timezone", {**CRON, "timezone": "Europe/Wien"}),
    ("timezone", {**CRON, "timezone": "../../etc/passwd"}),
    ("timezone", {**CRON, "timezone": 5}),
    ("calendar", {**CRON, "calendar": "nowhere"}),
    ("calendar", {**CRON, "calendar": "\x00"}),
    ("calendar", {**CRON, "calendar": {"name": "x"}}),
    ("calendar", {"cron_expression": "0 3 * * MON", "calendar": "weekends"}),
    ("on_blocked", {**CRON, "on_blocked": "explode"}),
    ("on_blocked", {**CRON, "on_blocked": 1}),
    ("window", {**CRON, "window": "09:00"}),
    ("window", {**CRON, "window": "09:00-09:00"}),
    ("window", {**CRON, "window": "25:00-26:00"}),
    ("window", {**CRON, "window": [1, 2]}),
    ("window", {**CRON, "window": {"start": "09:00"}}),
    ("window", {**CRON, "window": "09:00-17:00"}),
    ("not_after", {**CRON, "not_after": "2026-03-02T13:00:00Z"}),
    ("not_after", {**CRON, "not_before": "2026-05-01T00:00:00Z", "not_after": "2026-04-01T00:00:00Z"}),
    ("not_before", {**CRON, "not_before": "soon"}),
    ("enabled", {**CRON, "enabled": "yes"}),
    ("speed", {**CRON, "speed": 1}),
]


@pytest.mark.parametrize(("field", "fields"), BAD, ids=[f"{n}-{field}" for n, (field, _) in enumerate(BAD)])
def test_what_a_trigger_cannot_be_is_refused_by_the_name_of_the_field(now, field, fields):
    weekends = CalendarFactory(name="weekends")
    CalendarRuleFactory(calendar=weekends, weekdays=[6, 7])
    job = make_job(now)
    with pytest.raises(InvalidInput) as refused:
        save_trigger(job, fields, now, actor=ACTOR)
    assert list(refused.value.fields) == [field]
    assert not Trigger.objects.exists()


def test_every_field_is_kept(now):
    calendar = CalendarFactory(name="always")
    CalendarRuleFactory(calendar=calendar, weekdays=[1, 2, 3, 4, 5, 6, 7])
    job = make_job(now)
    make_trigger(
        job,
        now,
        every="90m",
        anchor="2026-03-01T00:07:00+01:00",
        timezone="Europe/Vienna",
        calendar="always",
        on_blocked="defer",
        window={"start": "22:00", "end": "06:00"},
        not_before="2026-04-01T00:00:00Z",
        not_after="2026-05-01T00:00:00Z",
    )
    trigger = Trigger.objects.get()
    assert (trigger.kind, trigger.every, trigger.cron_expression) == ("interval", timedelta(minutes=90), "")
    assert trigger.anchor_at == datetime(2026, 2, 28, 23, 7, tzinfo=UTC)
    assert (trigger.timezone, trigger.calendar, trigger.on_blocked) == ("Europe/Vienna", calendar, "defer")
    assert (trigger.window_start, trigger.window_end) == (time(22), time(6))
    assert (trigger.not_before.month, trigger.not_after.month, trigger.enabled) == (4, 5, True)


def test_a_blocked_once_is_deferred_unless_it_says_otherwise(now):
    job = make_job(now)
    assert make_trigger(job, now, run_at="2026-04-01T00:00:00Z").on_blocked == "defer"
    assert make_trigger(job, now, run_at="2026-04-01T00:00:00Z", on_blocked="advance").on_blocked == "advance"
    assert make_trigger(job, now, every="1h").on_blocked == "advance"


@pytest.mark.parametrize(
    ("policy", "first"),
    [("following", datetime(2026, 3, 9, 2, tzinfo=UTC)), ("preceding", datetime(2026, 3, 6, 2, tzinfo=UTC))],
)
@pytest.mark.parametrize(
    "schedule",
    [
        {"cron_expression": "0 3 * * SUN"},
        {"every": "7d", "anchor": "2026-03-08T02:00:00Z"},
        {"run_at": "2026-03-08T02:00:00Z"},
    ],
    ids=["cron", "interval", "once"],
)
def test_a_blocked_sunday_goes_to_monday_or_friday_at_its_local_time(now, schedule, policy, first):
    """On 29 March the clock of the trigger's zone goes forward; the calendar's zone is another."""
    workdays = CalendarFactory(name="workdays")
    CalendarRuleFactory(calendar=workdays, weekdays=[1, 2, 3, 4, 5])
    trigger = make_trigger(
        make_job(now), now, **schedule, timezone="Europe/Vienna", calendar="workdays", on_blocked=policy
    )
    found = next_fires(trigger, now, 5)
    assert found[0] == first
    if "cron_expression" in schedule:
        summer = first + timedelta(days=28, hours=-1)
        assert found[4] == summer
    if "run_at" in schedule:
        assert len(found) == 1


def test_a_trigger_may_become_of_another_kind(now):
    job = make_job(now)
    trigger = make_trigger(job, now, every="1h")
    save_trigger(job, {"cron_expression": "0 3 * * *", "every": None}, now, trigger=trigger)
    trigger.refresh_from_db()
    assert (trigger.kind, trigger.every, trigger.anchor_at) == ("cron", None, None)
    with pytest.raises(InvalidInput) as refused:
        save_trigger(job, {"cron_expression": None}, now, trigger=trigger)
    assert "cron_expression" in refused.value.fields


def test_a_trigger_without_a_zone_uses_the_configured_one(now, settings):
    settings.CRONIQ_TIME_ZONE = "Asia/Tokyo"
    trigger = make_trigger(make_job(now), now, **CRON)
    assert next_fires(trigger, now, 2) == [datetime(2026, 3, day, 18, tzinfo=UTC) for day in (2, 3)]


def test_h_spreads_jobs_by_their_keys(now):
    triggers = [make_trigger(make_job(now, f"demo:{n}"), now, cron_expression="H 3 * * *") for n in range(12)]
    assert len({next_fires(trigger, now, 1)[0] for trigger in triggers}) > 6


def test_a_trigger_that_is_gone_or_anothers_is_not_found(now):
    job = make_job(now)
    trigger = make_trigger(job, now, **CRON)
    with pytest.raises(NotFound):
        delete_trigger(trigger.pk, now, principal=principal("admin", tenant="acme"))
    delete_trigger(trigger.pk, now)
    for again in (
        lambda: delete_trigger(trigger.pk, now),
        lambda: save_trigger(job, {"every": "1h"}, now, trigger=trigger),
    ):
        with pytest.raises(NotFound):
            again()
    delete_job("demo:job", now, ACTOR)
    with pytest.raises(NotFound):
        save_trigger(Job.objects.get(), CRON, now)
