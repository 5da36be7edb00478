"""Snoozes, rules that are switched off, other values, days that a calendar closes: what is not said, or is later."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from calendars.domain.closed_days import closed_until
from calendars.queries.specs import calendar_spec
from runners.services.audit import SYSTEM
from scheduler.models import Alert
from scheduler.services.alerts.causes import FailedRun, tell_of_failures
from scheduler.services.alerts.deliver import claim_alert, record_success
from scheduler.services.alerts.exemptions import end_exemption
from scheduler.services.alerts.watch import watch
from tests.factories import (
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    CalendarFactory,
    CalendarRuleFactory,
    QueueEntryFactory,
    RunFactory,
)
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def say_all(now: datetime) -> list[str]:
    """Claim and deliver what is due; return the events."""
    said = []
    while (sending := claim_alert(now)) is not None:
        said.append(sending.message["event"])
        assert record_success(sending, now)
    return said


def states() -> list[str]:
    return [alert.held or alert.state for alert in Alert.objects.order_by("created_at", "pk")]


def test_a_failure_that_is_snoozed_is_in_the_log_and_never_said(now):
    rule = AlertRuleFactory()
    AlertExemptionFactory()
    AlertFactory(rule=rule)
    assert (say_all(now), states()) == ([], ["snoozed"])
    assert say_all(now + DAY) == []
    AlertFactory(rule=rule, next_at=now + HOUR)
    assert say_all(now + HOUR) == ["failed"]


def test_what_lasts_longer_than_a_snooze_is_said_then(now):
    rule = AlertRuleFactory(kind="overran")
    AlertExemptionFactory(rule=rule)
    alert = AlertFactory(rule=rule, event="overran", cause="overran:x:1")
    assert (say_all(now), states()) == ([], ["snoozed"])
    alert.refresh_from_db()
    assert (alert.state, alert.next_at) == ("waiting", now + HOUR)
    assert say_all(now + HOUR) == ["overran"]
    assert states() == ["delivered"]


def test_what_ends_within_a_snooze_is_not_said_and_neither_is_its_end(now):
    AlertRuleFactory(kind="overran", expected_within_seconds=60)
    entry = QueueEntryFactory(claimed=True)
    AlertExemptionFactory()
    watch(now + 2 * MINUTE)
    assert say_all(now + 2 * MINUTE) == []
    entry.delete()
    watch(now + 3 * MINUTE)
    assert say_all(now + DAY) == []
    assert [(alert.state, alert.ended_at) for alert in Alert.objects.all()] == [("snoozed", now + 3 * MINUTE)]


def test_who_was_told_before_a_snooze_is_told_the_end_after_it(now):
    AlertRuleFactory(kind="overran", expected_within_seconds=60)
    entry = QueueEntryFactory(claimed=True)
    watch(now + 2 * MINUTE)
    assert say_all(now + 2 * MINUTE) == ["overran"]
    AlertExemptionFactory(created_at=now + 3 * MINUTE, until=now + HOUR)
    entry.delete()
    watch(now + 4 * MINUTE)
    assert say_all(now + 4 * MINUTE) == []
    assert say_all(now + HOUR) == ["recovered"]


@pytest.mark.parametrize(
    "fields",
    [
        {"job_glob": "other:*"},
        {"tenant": "other"},
        {"ended_at": "2026-03-02T11:59:00Z"},
        {"until": "2026-03-02T12:00:00Z", "created_at": "2026-03-02T11:00:00Z"},
        {"effect": "disable"},
    ],
    ids=["another job", "another tenant", "ended", "over", "another effect"],
)
def test_a_snooze_is_of_what_it_says(now, fields):
    AlertExemptionFactory(**fields)
    AlertFactory()
    assert say_all(now) == ["failed"]


def test_a_snooze_of_one_rule_is_of_no_other(now):
    snoozed, other = AlertRuleFactory(), AlertRuleFactory()
    AlertExemptionFactory(rule=snoozed)
    AlertFactory(rule=snoozed)
    AlertFactory(rule=other)
    assert (say_all(now), sorted(states())) == (["failed"], ["delivered", "snoozed"])


def test_a_snooze_that_is_ended_lets_out_at_once_what_it_held(now):
    rule = AlertRuleFactory(kind="overran")
    snooze = AlertExemptionFactory()
    AlertFactory(rule=rule, event="overran", cause="overran:x:1")
    assert say_all(now) == []
    end_exemption(snooze.pk, now + MINUTE, SYSTEM, None)
    assert say_all(now + MINUTE) == ["overran"]


def test_the_end_of_a_snooze_hurries_nothing_else(now):
    """What is tried again in a while is not tried at once, and of another tenant nothing is touched."""
    failed = AlertFactory(attempt=1, next_at=now + HOUR)
    theirs = AlertFactory(tenant="other", held="snoozed", next_at=now + HOUR)
    end_exemption(AlertExemptionFactory().pk, now, SYSTEM, None)
    assert set(Alert.objects.values_list("pk", "next_at")) == {(pk, now + HOUR) for pk in (failed.pk, theirs.pk)}


@pytest.mark.django_db(transaction=True)
def test_what_is_over_at_the_moment_in_which_a_snooze_ends_is_not_said(now, database):
    if database != "postgresql":
        pytest.skip("one writer at a time on SQLite")
    AlertRuleFactory(kind="overran", expected_within_seconds=60)
    entry = QueueEntryFactory(claimed=True)
    AlertExemptionFactory()
    watch(now + 2 * MINUTE)
    assert say_all(now + 2 * MINUTE) == []
    entry.delete()
    with Session() as first, Session() as second:
        pid = second.backend_pid
        first.begin()
        first.run(watch, now + HOUR)
        late = second.start(claim_alert, now + HOUR)
        poll_until(lambda: is_waiting_for_lock(pid), what="the sender waits for who finds that it is over")
        first.commit()
        assert late.result(DEADLINE_SECONDS) is None
    assert [(alert.state, alert.attempt) for alert in Alert.objects.all()] == [("snoozed", 0)]


def test_a_rule_that_is_switched_off_looks_for_nothing_and_goes_on_afterwards(now):
    rule = AlertRuleFactory(kind="overran", expected_within_seconds=60)
    failures = AlertRuleFactory(job_glob="demo:*")
    AlertExemptionFactory(effect="disable", job_glob="demo:*")
    QueueEntryFactory(claimed=True, job__job_key="demo:slow")
    run = RunFactory(job__job_key="demo:dead", dead=True)
    dead = FailedRun(run.pk, run.scheduled_for, "demo:dead", "default", "x", "x")
    tell_of_failures([dead], now + 2 * MINUTE)
    watch(now + 2 * MINUTE)
    assert not Alert.objects.exists()
    tell_of_failures([dead], now + HOUR)
    watch(now + HOUR)
    assert {alert.rule for alert in Alert.objects.all()} == {rule, failures}


def test_an_override_is_in_the_place_of_what_the_rule_says_for_its_jobs(now):
    AlertRuleFactory(kind="missed", grace_seconds=60)
    AlertExemptionFactory(effect="override", job_glob="a:*", grace_seconds=600)
    AlertExemptionFactory(effect="override", job_glob="c:*", grace_seconds=10)
    for job_key in ("a:x", "b:x", "c:x"):
        QueueEntryFactory(job__job_key=job_key)
    watch(now + timedelta(seconds=30))
    assert [alert.job_key for alert in Alert.objects.order_by("pk")] == ["c:x"]
    watch(now + 2 * MINUTE)
    assert sorted(alert.job_key for alert in Alert.objects.all()) == ["b:x", "c:x"]
    watch(now + 11 * MINUTE)
    assert sorted(alert.job_key for alert in Alert.objects.all()) == ["a:x", "b:x", "c:x"]


def test_an_override_of_the_throttle_holds_back_what_the_rule_would_say(now):
    rule = AlertRuleFactory(throttle_seconds=60)
    AlertFactory(rule=rule)
    say_all(now)
    AlertExemptionFactory(effect="override", throttle_seconds=3600)
    AlertFactory(rule=rule, next_at=now + 10 * MINUTE)
    assert (say_all(now + 10 * MINUTE), sorted(states())) == ([], ["delivered", "throttled"])
    AlertExemptionFactory(effect="override", throttle_seconds=0)
    for _ in range(2):
        AlertFactory(rule=rule, next_at=now + 11 * MINUTE)
    say_all(now + 11 * MINUTE)
    assert sorted(states()) == ["delivered"] * 3 + ["throttled"]


@pytest.mark.parametrize("event", ["recovered", "digest", "test"])
def test_a_throttle_holds_back_no_end_and_no_digest(now, event):
    rule = AlertRuleFactory(throttle_seconds=3600)
    AlertFactory(rule=rule)
    AlertFactory(rule=rule, event=event, cause=f"{event}:{uuid4()}", detail={"of": "failed"}, next_at=now + MINUTE)
    AlertFactory(rule=rule, next_at=now + 2 * HOUR)
    assert [say_all(now), say_all(now + MINUTE), say_all(now + 2 * HOUR)] == [["failed"], [event], ["failed"]]


# Quiet days


def office(timezone: str = "UTC") -> CalendarFactory:
    calendar = CalendarFactory(timezone=timezone)
    CalendarRuleFactory(
        calendar=calendar, effect="include", weekdays=[1, 2, 3, 4, 5], window_start="09:00", window_end="17:00"
    )
    return calendar


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-03-06T23:30:00+00:00", None),  # a Friday night: the day is open, though this hour is not
        ("2026-03-07T00:00:00+00:00", "2026-03-09T00:00:00+00:00"),
        ("2026-03-08T23:59:59+00:00", "2026-03-09T00:00:00+00:00"),
        ("2026-03-09T00:00:00+00:00", None),
    ],
)
def test_the_days_that_a_calendar_closes(at, until):
    found = closed_until(calendar_spec(office()), datetime.fromisoformat(at))
    assert found == (until and datetime.fromisoformat(until))


def test_a_day_is_one_of_the_calendars_zone():
    spec = calendar_spec(office("Pacific/Auckland"))
    friday = datetime.fromisoformat("2026-03-06T12:00:00+00:00")  # it is Saturday there
    assert closed_until(spec, friday) == datetime.fromisoformat("2026-03-08T11:00:00+00:00")


def test_a_calendar_that_never_opens_keeps_quiet_day_by_day(now):
    calendar = CalendarFactory()
    CalendarRuleFactory(calendar=calendar, effect="exclude", weekdays=[1, 2, 3, 4, 5, 6, 7])
    assert closed_until(calendar_spec(calendar), now) == now + DAY


def test_on_days_that_its_calendar_closes_a_rule_is_quiet(now):
    saturday, monday = now + 5 * DAY, (now + 7 * DAY).replace(hour=0)
    rule = AlertRuleFactory(calendar=office())
    AlertFactory(rule=rule, next_at=saturday)
    AlertFactory(rule=rule, event="overran", cause="overran:x:1", next_at=saturday)
    AlertFactory(next_at=saturday)
    assert say_all(saturday) == ["failed"]
    assert sorted(states()) == ["delivered", "quiet", "quiet"]
    assert say_all(monday - MINUTE) == []
    assert say_all(monday) == ["overran"]
