"""What is over is told after its beginning, to whoever was told of that, and to nobody else."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from scheduler.domain.alerts import recovery_of
from scheduler.models import Alert, QueueEntry, Run
from scheduler.services.alerts.deliver import claim_alert, record_failure, record_success
from scheduler.services.alerts.watch import watch
from tests.factories import AlertExemptionFactory, AlertFactory, AlertRuleFactory, QueueEntryFactory, RunFactory

pytestmark = pytest.mark.django_db

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
KEY = "ops:backup"


def say_all(now: datetime) -> list[str]:
    said = []
    while (sending := claim_alert(now)) is not None:
        said.append(sending.message["event"])
        assert record_success(sending, now)
    return said


def failure(now) -> dict[str, str]:
    return {"execution_id": "x", "scheduled_for": now.isoformat()}


def succeeded(now) -> Run:
    return RunFactory(job__job_key=KEY, completed=True, scheduled_for=now + MINUTE, finished_at=now + MINUTE)


def begun_and_over(now) -> None:
    """A run takes too long, and has ended: nobody has sent anything yet."""
    AlertRuleFactory(kind="overran", expected_within_seconds=60)
    entry = QueueEntryFactory(claimed=True)
    watch(now + 2 * MINUTE)
    QueueEntry.objects.filter(pk=entry.pk).delete()


def test_an_end_waits_for_its_beginning_that_a_receiver_did_not_take(now):
    begun_and_over(now)
    refused = claim_alert(now + 2 * MINUTE)
    record_failure(refused, "503", now + 2 * MINUTE)
    watch(now + 2 * MINUTE + 5 * SECOND)
    assert say_all(now + 2 * MINUTE + 5 * SECOND) == []
    assert say_all(now + 3 * MINUTE) == ["overran", "recovered"]


def test_an_end_that_waits_is_looked_at_behind_its_beginning(now):
    """Not beside it: of two that are due at one instant the end could be the first one, and again, for ever."""
    begun = AlertFactory(next_at=now + SECOND)
    over = AlertFactory(rule=begun.rule, event="recovered", cause=recovery_of(begun.pk), next_at=now)
    assert claim_alert(now) is None
    over.refresh_from_db()
    assert begun.next_at < over.next_at < begun.next_at + SECOND


def test_an_end_waits_while_its_beginning_is_being_sent(now):
    begun_and_over(now)
    sending = claim_alert(now + 2 * MINUTE)
    watch(now + 3 * MINUTE)
    assert claim_alert(now + 3 * MINUTE) is None
    record_success(sending, now + 3 * MINUTE)
    assert say_all(now + 4 * MINUTE) == ["recovered"]


def test_what_was_over_before_anybody_sent_it_is_not_said_when_a_snooze_ends(now):
    begun_and_over(now)
    watch(now + 3 * MINUTE)
    AlertExemptionFactory(created_at=now + 3 * MINUTE, until=now + HOUR)
    assert say_all(now + 3 * MINUTE) == []
    assert say_all(now + HOUR) == []
    assert {alert.state for alert in Alert.objects.all()} == {"snoozed"}


def test_an_end_is_not_said_where_its_beginning_was_held_back_when_it_was_sent(now):
    rule = AlertRuleFactory(throttle_seconds=600)
    begun = [AlertFactory(rule=rule, job_key=KEY, next_at=now + at * SECOND, ended_at=now) for at in range(2)]
    for of in begun:
        fields = {"cause": recovery_of(of.pk), "detail": {"of": "failed"}, "ended_at": now}
        AlertFactory(rule=rule, job_key=KEY, event="recovered", next_at=now + 2 * SECOND, **fields)
    assert say_all(now + 2 * SECOND) == ["failed", "recovered"]
    states = Alert.objects.order_by("state", "event").values_list("state", "event")
    assert list(states) == [(state, event) for state in ("delivered", "throttled") for event in ("failed", "recovered")]


def test_the_end_of_failures_is_that_of_the_one_that_is_said(now):
    """Of two that wait the throttle holds back the second."""
    rule, run = AlertRuleFactory(throttle_seconds=600), succeeded(now)
    for at in range(2):
        AlertFactory(
            rule=rule, job_key=KEY, detail=failure(now), created_at=now + at * SECOND, next_at=now + at * SECOND
        )
    watch(now + 2 * MINUTE)
    assert say_all(now + 2 * MINUTE) == ["failed", "recovered"]
    assert Alert.objects.get(event="recovered").detail["succeeded"] == str(run.pk)


def test_the_end_of_what_was_told_is_told_when_a_rule_is_switched_on_again(now):
    AlertFactory(rule=AlertRuleFactory(), job_key=KEY, detail=failure(now))
    succeeded(now)
    assert say_all(now) == ["failed"]
    AlertExemptionFactory(effect="disable")
    watch(now + 2 * MINUTE)
    assert say_all(now + 2 * MINUTE) == []
    watch(now + HOUR)
    assert say_all(now + HOUR) == ["recovered"]


@pytest.mark.parametrize("most", [4, 2000])
def test_a_look_costs_as_much_as_jobs_fail_however_often_they_did(now, monkeypatch, most):
    monkeypatch.setattr("scheduler.services.alerts.watch.FAILURES_LOOKED_AT", most)
    rule = AlertRuleFactory()
    for at in range(12):
        state = {"state": "delivered", "attempt": 1} if at == 1 else {"state": "throttled"}
        instants = {"created_at": now + at * SECOND, "finished_at": now, "next_at": None}
        AlertFactory(rule=rule, job_key=KEY, detail=failure(now + at * SECOND), **instants, **state)
    for minute in range(2, 8):
        watch(now + minute * MINUTE)
    assert [alert.created_at for alert in Alert.objects.filter(ended_at__isnull=True).order_by("created_at")] == [
        now + SECOND,
        now + 11 * SECOND,
    ]
    succeeded(now)
    watch(now + 9 * MINUTE)
    assert say_all(now + 9 * MINUTE) == ["recovered"]
    assert not Alert.objects.filter(ended_at__isnull=True).exists()
