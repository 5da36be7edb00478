"""The database's clock is set back by an hour: who is dead is found as fast as ever, and who lives is not told of."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.models import AuditEvent, Heartbeat
from scheduler.models import Alert, AlertChannel, Attempt, QueueEntry
from scheduler.queries.gauges import flapping_runners
from scheduler.queries.runners import runner_counts
from scheduler.queries.trouble import SILENT
from scheduler.services.clock_set_back import forget_the_future
from scheduler.services.renew import renew_held
from scheduler.workers import reaper
from tests.factories import (
    AlertChannelFactory,
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    HeartbeatFactory,
    JobFactory,
    LaneFactory,
    QueueEntryFactory,
    RunnerFactory,
    RunnerInstanceFactory,
)

pytestmark = pytest.mark.django_db

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def set_back(now):
    """By so much that everything below has been seen in an hour to come."""
    HeartbeatFactory(kind="reap", beat_at=now, tick_at=now)
    return now - HOUR


def beats(kind: str, at) -> None:
    """As a process that lives."""
    Heartbeat.objects.update_or_create(kind=kind, pid=7, defaults=_row(kind, at))


def _row(kind: str, at) -> dict:
    row = HeartbeatFactory.build(kind=kind, pid=7, beat_at=at, tick_at=at)
    return {name: getattr(row, name) for name in ("process_id", "host", "started_at", "beat_at", "tick_at")}


def told() -> list[str]:
    return [alert.event for alert in Alert.objects.order_by("created_at", "pk")]


@pytest.mark.parametrize("lives", [False, True])
def test_a_dead_scheduler_is_told_of_after_the_grace_and_one_that_lives_is_not(now, set_back, lives):
    AlertRuleFactory(kind="scheduler_silent", created_at=now - MINUTE, looked_at=now)
    HeartbeatFactory(kind="materialize", beat_at=now, tick_at=now)
    for seconds in (0, 30, 59, 66):
        if lives and seconds:
            beats("materialize", set_back + seconds * SECOND)
        reaper.run_once(set_back + seconds * SECOND)
        if seconds < 66:
            assert told() == []
    assert told() == ([] if lives else ["silent"])


def test_a_dead_runner_is_dead_and_what_it_held_is_lost_after_its_lease(now, set_back):
    rule = AlertRuleFactory(kind="no_runner", created_at=now - MINUTE)
    job = JobFactory(lane=LaneFactory(require=["gpu"]), require=["gpu"], created_at=now - 2 * HOUR)
    gone = RunnerFactory(last_poll_at=now, capabilities=["gpu"], client__tenant=None)
    holder = RunnerInstanceFactory(runner=gone, last_poll_at=now)
    entry = QueueEntryFactory(claimed=True, holder=holder, job=job)
    renewed = QueueEntryFactory(claimed=True, claimed_at=now - 2 * HOUR)
    lives = QueueEntryFactory(claimed=True)
    RunnerFactory(last_poll_at=now - 4 * MINUTE)  # it was so long before the clock was set back, too
    for seconds in (0, 30, 59, 61, 70):
        at = set_back + seconds * SECOND
        beats("serve", at)
        renew_held(lives.holder_id, [lives.run_id], at)
        reaper.run_once(at)
        if seconds == 0:
            assert runner_counts(at)["stale"] == 1
            entry.refresh_from_db()
            assert (entry.claimed_at, entry.deadline_at) == (at, at + timedelta(seconds=entry.timeout_seconds))
            assert renew_held(renewed.holder_id, [renewed.run_id], at) == {renewed.run_id}
        assert Attempt.objects.count() == (0 if seconds < 60 else 2)
    assert set(Attempt.objects.values_list("run_id", flat=True)) == {entry.run_id, renewed.run_id}
    assert QueueEntry.objects.get(pk=lives.pk).state == QueueEntry.State.CLAIMED
    assert runner_counts(at)["online"] == 0
    assert (told(), Alert.objects.get().rule) == (["no_runner"], rule)


def test_a_runner_that_was_taken_over_often_long_ago_does_not_flap(now, set_back):
    runner = RunnerFactory(last_poll_at=now)
    for minutes in (12, 24, 36):
        RunnerInstanceFactory(runner=runner, deposed_at=now - minutes * MINUTE)
    forget_the_future(set_back)
    assert flapping_runners(set_back) == []
    RunnerInstanceFactory.create_batch(2, runner=runner, deposed_at=set_back)
    assert flapping_runners(set_back) == []


def test_a_channel_is_tried_and_an_alert_is_sent_when_they_were_due(now, set_back):
    shut = AlertChannelFactory(failures=3, closed_until=now + 40 * SECOND, tried_at=now)
    rule = AlertRuleFactory(channel=shut)
    waiting = AlertFactory(rule=rule, next_at=now + 20 * SECOND, began_at=now)
    snoozed = AlertFactory(rule=rule, next_at=now + HOUR, held="snoozed")
    AlertExemptionFactory(rule=rule, created_at=now - HOUR, until=now + HOUR)
    forget_the_future(set_back)
    shut = AlertChannel.objects.get(pk=shut.pk)
    assert (shut.closed_until, shut.tried_at) == (set_back + 40 * SECOND, set_back)
    for alert in (waiting, snoozed):
        alert.refresh_from_db()
    assert (waiting.next_at, waiting.began_at) == (set_back + 20 * SECOND, set_back)
    assert snoozed.next_at == now + HOUR


def test_it_is_audited_once_and_less_than_one_server_sees_later_than_another_is_no_step(now):
    HeartbeatFactory(kind="serve", beat_at=now)
    runner = RunnerFactory(last_poll_at=now)
    assert forget_the_future(now - SILENT) == 0
    assert AuditEvent.objects.count() == 0
    assert [forget_the_future(now - HOUR), forget_the_future(now - HOUR)] == [1, 0]
    assert AuditEvent.objects.get().diff == {"seconds": 3600}
    runner.refresh_from_db()
    assert runner.last_poll_at == now - HOUR
