"""What is told: runs that failed for good, a scheduler that is silent. Each cause once, however many find it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from runners.models import Heartbeat
from runners.services.audit import SYSTEM
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import Alert, AlertExemption, QueueEntry, Tally
from scheduler.services.alerts.causes import KEPT, drop_old_alerts
from scheduler.services.alerts.watch import watch
from scheduler.services.cancel import cancel_runs
from scheduler.services.finish import finish
from scheduler.services.release import bury
from scheduler.workers import reaper
from tests.factories import (
    AlertChannelFactory,
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    HeartbeatFactory,
    JobFactory,
    QueueEntryFactory,
    channel_of,
)
from tests.support.races import together

pytestmark = pytest.mark.django_db

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def fail(entry: QueueEntry, now) -> None:
    runner = entry.holder.runner.runner_id
    finish([Ack(entry.run_id, entry.attempt, runner, AckStatus.FAILURE, "exit code 3")], now)


def last_claim(job_key: str = "billing:month", **job) -> QueueEntry:
    return QueueEntryFactory(
        claimed=True, attempt=1, max_attempts=1, job=JobFactory(job_key=job_key, max_retries=0, **job)
    )


def told() -> list[tuple[str, str]]:
    return [(alert.event, alert.job_key) for alert in Alert.objects.order_by("created_at", "pk")]


@pytest.mark.parametrize("letters", [True, False])
def test_a_run_that_failed_for_good_is_told_with_what_it_died_of(now, letters):
    rule = AlertRuleFactory(job_glob="billing:*")
    entry = last_claim(dead_letter_enabled=letters)
    fail(entry, now)
    (alert,) = Alert.objects.all()
    assert (alert.rule, alert.channel, alert.event, alert.job_key) == (
        rule,
        channel_of(rule),
        "failed",
        "billing:month",
    )
    assert (alert.state, alert.next_at, alert.attempt) == ("waiting", now, 0)
    assert alert.detail == {
        "execution_id": str(entry.run_id),
        "scheduled_for": entry.run.scheduled_for.isoformat(),
        "reason": "retries_exhausted",
        "error": "exit code 3",
    }


def test_a_failure_that_is_retried_is_told_to_nobody(now):
    AlertRuleFactory()
    entry = QueueEntryFactory(claimed=True, attempt=1, max_attempts=3)
    fail(entry, now)
    assert told() == []


def test_a_run_that_somebody_cancels_has_not_failed(now):
    AlertRuleFactory()
    cancel_runs([QueueEntryFactory(claimed=True).run_id], now, SYSTEM)
    assert (told(), Tally.objects.exists()) == ([], False)


def test_what_is_buried_by_a_claim_or_the_reaper_is_told_too(now):
    AlertRuleFactory()
    entry = QueueEntryFactory(attempt=1, max_attempts=1, job__job_key="a:b")
    assert bury([entry.run_id], now)
    assert told() == [("failed", "a:b")]


@pytest.mark.parametrize(
    ("rule", "job"),
    [
        ({"job_glob": "mail:*"}, {}),
        ({"tenant": "other", "channel__tenant": "other"}, {}),
        ({"deleted_at": "2026-03-01T00:00:00Z"}, {}),
        ({"kind": "scheduler_silent"}, {}),
        ({}, {"deleted_at": "2026-03-01T00:00:00Z"}),
    ],
    ids=["another job", "another tenant", "a deleted rule", "another kind", "a deleted job"],
)
def test_nobody_is_told_of_what_is_not_his(now, rule, job):
    AlertRuleFactory(**rule)
    fail(last_claim(**job), now)
    assert told() == []


def test_a_rule_of_tags_is_about_jobs_with_any_of_them(now):
    AlertRuleFactory(tags=["money", "night"])
    fail(last_claim("a:night", tags=["night", "x"]), now)
    fail(last_claim("a:day", tags=["x"]), now)
    assert told() == [("failed", "a:night")]


def test_a_rule_tells_all_its_channels_once_each(now):
    channels = [AlertChannelFactory() for _ in range(2)]
    AlertRuleFactory(channel=channels)
    fail(last_claim(), now)
    assert {alert.channel for alert in Alert.objects.all()} == set(channels)
    assert told() == [("failed", "billing:month")] * 2


def test_each_rule_that_is_about_a_run_tells_of_it(now):
    AlertRuleFactory(job_glob="billing:*")
    AlertRuleFactory(job_glob="*:month")
    fail(last_claim(), now)
    assert told() == [("failed", "billing:month")] * 2


@pytest.mark.django_db(transaction=True)
def test_what_is_undone_is_not_told(now):
    AlertRuleFactory()
    entry = last_claim()
    with transaction.atomic():
        fail(entry, now)
        assert told() == [("failed", "billing:month")]
        transaction.set_rollback(True)
    assert told() == []


# Silence


def silent_rule(now, **fields):
    return AlertRuleFactory(kind="scheduler_silent", grace_seconds=60, created_at=now - timedelta(days=1), **fields)


def test_a_silence_is_told_once_after_its_grace_and_its_end_once(now):
    rule = silent_rule(now)
    beat = HeartbeatFactory(kind="materialize", beat_at=now, tick_at=now)
    watch(now + MINUTE)
    assert told() == []
    for minutes in (2, 3, 4):
        watch(now + minutes * MINUTE)
    assert told() == [("silent", "")]
    Heartbeat.objects.filter(pk=beat.pk).update(tick_at=now + 5 * MINUTE)
    for minutes in (5, 6):
        watch(now + minutes * MINUTE)
    assert told() == [("silent", ""), ("recovered", "")]
    silence, end = Alert.objects.filter(rule=rule).order_by("created_at")
    assert (silence.ended_at, silence.detail) == (now + 5 * MINUTE, {"since": now.isoformat()})
    assert end.detail == {"since": now.isoformat(), "of": "silent", "until": (now + 5 * MINUTE).isoformat()}
    # The next one is another one.
    watch(now + 9 * MINUTE)
    assert told() == [("silent", ""), ("recovered", ""), ("silent", "")]


def test_one_materializer_of_many_is_enough_and_other_processes_are_none(now):
    silent_rule(now)
    HeartbeatFactory(kind="materialize", tick_at=now - 9 * MINUTE)
    HeartbeatFactory(kind="materialize", tick_at=now)
    watch(now + SECOND)
    assert told() == []
    HeartbeatFactory(kind="reap", tick_at=now + 5 * MINUTE)
    watch(now + 5 * MINUTE)
    assert told() == [("silent", "")]


def test_a_materializer_that_hangs_is_silent_however_often_it_beats(now):
    silent_rule(now)
    HeartbeatFactory(kind="materialize", beat_at=now, tick_at=now - 2 * MINUTE)
    watch(now)
    assert told() == [("silent", "")]


def test_where_no_materializer_ever_was_the_grace_begins_with_the_rule(now):
    rule = AlertRuleFactory(kind="scheduler_silent", grace_seconds=60, created_at=now)
    watch(now + MINUTE)
    assert told() == []
    watch(now + 2 * MINUTE)
    assert [alert.rule for alert in Alert.objects.all()] == [rule]


@pytest.mark.django_db(transaction=True)
def test_many_reapers_that_find_a_silence_at_once_tell_it_once(now):
    silent_rule(now)
    HeartbeatFactory(kind="materialize", tick_at=now)
    together([lambda n=n: watch(now + 2 * MINUTE + n * SECOND) for n in range(4)])
    assert told() == [("silent", "")]
    Heartbeat.objects.update(tick_at=now + 3 * MINUTE)
    together([lambda n=n: watch(now + 3 * MINUTE + n * SECOND) for n in range(4)])
    assert told() == [("silent", ""), ("recovered", "")]


def test_the_reaper_watches(now):
    silent_rule(now)
    reaped = reaper.run_once(now)
    assert (reaped.done["alert_rules"], told()) == (1, [("silent", "")])


# Retention


def test_old_alerts_go_and_what_waits_or_goes_on_stays(now):
    old = now - KEPT - SECOND
    done = {"state": "delivered", "next_at": None, "finished_at": old}
    AlertFactory(created_at=old, **done)
    kept = [
        AlertFactory(created_at=old),
        AlertFactory(created_at=old, event="silent", **done),
        AlertFactory(created_at=now - KEPT, **done),
    ]
    assert (drop_old_alerts(now), drop_old_alerts(now)) == (1, 0)
    assert set(Alert.objects.all()) == set(kept)


def test_exemptions_that_have_long_been_over_go(now):
    AlertExemptionFactory(created_at=now - KEPT - 2 * MINUTE, until=now - KEPT - SECOND)
    kept = AlertExemptionFactory(created_at=now - KEPT - 2 * MINUTE, until=now - KEPT)
    assert (drop_old_alerts(now), drop_old_alerts(now)) == (1, 0)
    assert AlertExemption.objects.get() == kept
