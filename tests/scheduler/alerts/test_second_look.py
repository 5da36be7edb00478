"""What keeps alerts within their bounds, and one of them from changing another: seen only where something is odd."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.clock import ManualClock
from scheduler.models import Alert, AlertRule
from scheduler.services.alerts.causes import ERROR_MOST, KEPT, FailedRun, drop_old_alerts, tell_of_failures
from scheduler.services.alerts.deliver import claim_alert, deliver_next, record_failure, record_success
from tests.factories import (
    AlertChannelFactory,
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    CalendarFactory,
    CalendarRuleFactory,
    RunFactory,
)

pytestmark = pytest.mark.django_db

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def said_at(now) -> list[Alert]:
    """Claim and deliver what is due."""
    said = []
    while (sending := claim_alert(now)) is not None:
        said.append(Alert.objects.get(pk=sending.alert_id))
        assert record_success(sending, now)
    return said


def over(state: str, now, **fields) -> dict[str, object]:
    return {"state": state, "next_at": None, "finished_at": now, "ended_at": now, **fields}


# How much of it is kept


def test_of_an_error_an_alert_has_so_much(now):
    AlertRuleFactory()
    run = RunFactory(job__job_key="a:b", dead=True)
    tell_of_failures([FailedRun(run.pk, run.scheduled_for, "a:b", "default", "x", "e" * (ERROR_MOST + 1))], now)
    assert Alert.objects.get().detail["error"] == "e" * ERROR_MOST


@pytest.mark.parametrize("attempt", [0, 11], ids=["tried again", "the last one"])
def test_of_why_it_did_not_arrive_the_log_keeps_so_much(now, attempt):
    alert = AlertFactory(attempt=attempt)
    assert record_failure(claim_alert(now), "e" * 501, now)
    alert.refresh_from_db()
    assert (alert.error, alert.next_at is None) == ("e" * 500, attempt == 11)


def test_old_alerts_that_wait_keep_no_older_one_from_going(now):
    old = now - KEPT - HOUR
    waits = AlertFactory(created_at=old)
    AlertFactory(created_at=old + SECOND, **over("delivered", old))
    assert drop_old_alerts(now, limit=1) == 1
    assert Alert.objects.get() == waits


# What one says of another


def test_a_fault_while_one_is_sent_is_an_attempt_that_failed(now):
    alert = AlertFactory(rule=AlertRuleFactory(channel__target="gopher://hooks.example.org/t0p"))
    assert deliver_next(ManualClock(now))
    alert.refresh_from_db()
    assert (alert.state, alert.attempt, alert.next_at > now) == ("waiting", 1, True)
    assert alert.error.startswith("it could not be sent (")
    assert "t0p" not in alert.error


def test_a_receiver_that_fails_moves_nothing_that_is_over_or_later_or_was_tried_before(now):
    rule = AlertRuleFactory()
    failing = AlertFactory(rule=rule)
    others = {
        AlertFactory(rule=rule, **over("throttled", now)).pk: None,
        AlertFactory(rule=rule, next_at=now + HOUR, held="snoozed").pk: now + HOUR,
        AlertFactory(rule=rule, attempt=1, next_at=now + SECOND).pk: now + SECOND,
    }
    sending = claim_alert(now)
    assert sending.alert_id == failing.pk
    assert record_failure(sending, "500", now)
    assert dict(Alert.objects.filter(pk__in=others).values_list("pk", "next_at")) == others


def test_a_throttle_is_of_each_channel(now):
    channels = [AlertChannelFactory() for _ in range(2)]
    rule = AlertRuleFactory(throttle_seconds=600, channel=channels)
    for channel in channels:
        AlertFactory(rule=rule, channel=channel)
    assert {alert.channel for alert in said_at(now)} == set(channels)


@pytest.mark.parametrize(
    "before",
    [{"event": "recovered", "state": "delivered", "detail": {"of": "failed"}}, {"state": "failed"}],
    ids=["an end", "what never arrived"],
)
def test_what_nobody_was_told_of_a_failure_throttles_none(now, before):
    rule = AlertRuleFactory(throttle_seconds=600)
    AlertFactory(
        rule=rule,
        attempt=1,
        began_at=now - MINUTE,
        **over(before["state"], now),
        **{name: value for name, value in before.items() if name != "state"},
    )
    alert = AlertFactory(rule=rule)
    assert said_at(now) == [alert]


def test_a_calendar_that_is_broken_keeps_nothing_quiet(now):
    calendar = CalendarFactory()
    CalendarRuleFactory(calendar=calendar, effect="exclude", holiday_country="XX")
    alert = AlertFactory(rule=AlertRuleFactory(calendar=calendar))
    assert said_at(now) == [alert]


def test_what_was_held_back_and_dropped_is_not_shown_as_held(now):
    alert = AlertFactory(rule=AlertRuleFactory(kind="overran"), event="overran", cause="overran:x:1")
    AlertExemptionFactory()
    assert said_at(now) == []
    AlertRule.objects.update(deleted_at=now)
    assert said_at(now + HOUR) == []
    alert.refresh_from_db()
    assert (alert.state, alert.held) == ("dropped", "")
