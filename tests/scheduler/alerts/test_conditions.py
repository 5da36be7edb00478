"""What lasts: each kind of rule finds its beginning once and its end once, and tells both."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from runners.models import RunnerInstance
from runners.services.audit import SYSTEM
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import Alert, AlertRule, DeadLetter, Job, QueueEntry, Run, Trigger
from scheduler.queries import alert_conditions
from scheduler.services.alerts import watch as watching
from scheduler.services.alerts.watch import LOOK_EVERY, watch
from scheduler.services.finish import finish
from scheduler.services.letters import delete_letter
from tests.factories import (
    AlertChannelFactory,
    AlertFactory,
    AlertRuleFactory,
    DeadLetterFactory,
    JobFactory,
    LaneFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerFactory,
    RunnerInstanceFactory,
    TriggerFactory,
)
from tests.support.races import together

pytestmark = pytest.mark.django_db

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)


def rule_of(kind: str, now: datetime, **fields) -> AlertRule:
    return AlertRuleFactory(kind=kind, created_at=now - DAY, **fields)


def told() -> list[tuple[str, str]]:
    return [(alert.event, alert.job_key) for alert in Alert.objects.order_by("created_at", "pk")]


def last() -> Alert:
    return Alert.objects.latest("created_at", "pk")


def claimed(job_key: str, **fields) -> QueueEntry:
    return QueueEntryFactory(claimed=True, job__job_key=job_key, **fields)


def test_a_run_that_takes_longer_than_expected_is_told_while_it_runs_and_when_it_has_ended(now):
    rule_of("overran", now, job_glob="a:*", expected_within_seconds=600)
    entry = claimed("a:slow")
    claimed("b:slow")
    claimed("a:theirs", job__tenant="other")
    QueueEntryFactory(job__job_key="a:waits")
    QueueEntryFactory(job__job_key="a:stops", stopping=True)  # it is over
    watch(now + 10 * MINUTE)
    assert told() == []
    for minutes in (11, 12):
        watch(now + minutes * MINUTE)
    assert told() == [("overran", "a:slow")]
    assert last().detail["execution_id"] == str(entry.run_id)
    finish([Ack(entry.run_id, 1, entry.holder.runner.runner_id, AckStatus.SUCCESS, "")], now + 13 * MINUTE)
    for minutes in (13, 14):
        watch(now + minutes * MINUTE)
    assert told() == [("overran", "a:slow"), ("recovered", "a:slow")]
    assert (last().detail["of"], last().detail["execution_id"]) == ("overran", str(entry.run_id))


def test_a_due_run_that_nobody_takes_is_told_after_its_grace(now):
    rule_of("missed", now, grace_seconds=300)
    entry = QueueEntryFactory(job__job_key="a:late")
    QueueEntryFactory(job=entry.job, available_at=now + MINUTE)
    QueueEntryFactory(job__job_key="a:paused", job__paused_at=now)
    # Of a limited job nothing is late: it waits for its turn.
    QueueEntryFactory(job__job_key="a:gated", job__max_concurrent=1, state=QueueEntry.State.GATED)
    watch(now + 5 * MINUTE)
    assert told() == []
    for minutes in (6, 7):
        watch(now + minutes * MINUTE)
    # Two late fires are one cause: the job does not start in time.
    assert (told(), last().detail) == ([("missed", "a:late")], {"due_at": now.isoformat()})
    QueueEntry.objects.filter(job=entry.job).delete()
    watch(now + 8 * MINUTE)
    assert told() == [("missed", "a:late"), ("recovered", "a:late")]


def test_a_fire_that_nobody_planned_is_missed_too(now):
    rule_of("missed", now)
    trigger = TriggerFactory(job__job_key="a:unplanned")
    TriggerFactory(job__job_key="a:off", enabled=False)
    TriggerFactory(job__job_key="a:broken", config_error="its zone is none")
    watch(now + 2 * MINUTE)
    assert told() == []
    watch(now + 3 * MINUTE)
    assert (told(), last().detail) == ([("missed", "a:unplanned")], {"due_at": (now + MINUTE).isoformat()})
    Trigger.objects.filter(pk=trigger.pk).update(cursor_at=now + DAY, next_materialize_at=now + DAY)
    watch(now + 4 * MINUTE)
    assert told()[1:] == [("recovered", "a:unplanned")]


def test_letters_are_told_from_their_threshold_on_and_once_while_they_are_that_many(now):
    rule_of("dead_letters", now, threshold=2, job_glob="a:*")
    letters = [DeadLetterFactory(job=JobFactory(job_key="a:b"))]
    replayed = DeadLetterFactory(job=letters[0].job)
    RunFactory(job=replayed.job, kind="replay", replay_of=replayed.run)
    DeadLetterFactory(job=JobFactory(job_key="b:b"))
    watch(now)
    assert told() == []
    letters += [DeadLetterFactory(job=JobFactory(job_key="a:c"))]
    watch(now + MINUTE)
    assert last().detail == {"letters": 2, "jobs": {"a:b": 1, "a:c": 1}}
    DeadLetterFactory(job=JobFactory(job_key="a:d"))
    watch(now + 2 * MINUTE)
    assert told() == [("dead_letters", "")]
    for letter in letters:
        delete_letter(letter.pk, now, SYSTEM)
    watch(now + 3 * MINUTE)
    assert told() == [("dead_letters", ""), ("recovered", "")]
    assert DeadLetter.objects.count() == 3


def test_of_many_jobs_with_letters_those_with_most_are_named(now, monkeypatch):
    monkeypatch.setattr(alert_conditions, "MOST_NAMED", 1)
    rule_of("dead_letters", now)
    for key in ("a:b", "a:c", "a:c"):
        DeadLetterFactory(job=Job.objects.filter(job_key=key).first() or JobFactory(job_key=key))
    watch(now)
    assert last().detail == {"letters": 3, "jobs": {"a:c": 2}}


def test_a_runner_that_flaps_is_told_to_the_rules_of_its_tenant(now):
    rule_of("flapping", now)
    rule_of("flapping", now, tenant="other", channel__tenant="other")
    runner = RunnerFactory(runner_id="eve", client__tenant=None)
    for minute in range(3):
        RunnerInstanceFactory(runner=runner, deposed_at=now + minute * MINUTE)
    RunnerInstanceFactory(runner=runner, deposed_at=now - 60 * MINUTE)  # long ago
    for minutes in (3, 4):
        watch(now + minutes * MINUTE)
    assert [(alert.tenant, alert.event) for alert in Alert.objects.all()] == [("default", "flapping")]
    assert last().detail == {"runner_id": "eve", "takeovers": 3}
    assert RunnerInstance.objects.count() == 4
    watch(now + 11 * MINUTE)
    assert told() == [("flapping", ""), ("recovered", "")]


def test_a_capability_that_no_runner_has_is_told_after_its_grace(now):
    rule_of("no_runner", now, grace_seconds=300)
    lane = LaneFactory(require=["gpu"])
    JobFactory(job_key="a:gpu", lane=lane, require=["gpu"], created_at=now - DAY)
    JobFactory(job_key="a:off", lane=LaneFactory(require=["tpu"]), is_active=False, created_at=now - DAY)
    runner = RunnerFactory(capabilities=["gpu"], client__tenant=None, last_poll_at=now)
    RunnerFactory(capabilities=["gpu"], client__tenant="other", last_poll_at=now + DAY)
    watch(now + 5 * MINUTE)
    assert told() == []
    for minutes in (6, 7):
        watch(now + minutes * MINUTE)
    assert told() == [("no_runner", "")]
    assert last().detail == {"capability": "gpu", "since": now.isoformat(), "jobs": ["a:gpu"]}
    type(runner).objects.filter(pk=runner.pk).update(last_poll_at=now + 8 * MINUTE)
    watch(now + 8 * MINUTE)
    assert told() == [("no_runner", ""), ("recovered", "")]


def test_a_pin_is_a_capability_of_its_runner_alone(now):
    rule_of("no_runner", now)
    JobFactory(lane=LaneFactory(require=["runner:eve"]), created_at=now - DAY)
    RunnerFactory(runner_id="adam", capabilities=["runner:eve"], last_poll_at=now + 2 * MINUTE)
    watch(now + 2 * MINUTE)
    assert told() == [("no_runner", "")]
    RunnerFactory(runner_id="eve", last_poll_at=now + 3 * MINUTE)
    watch(now + 3 * MINUTE)
    assert told() == [("no_runner", ""), ("recovered", "")]


# A job that failed succeeds again


def failed(rule: AlertRule, job, now, **fields) -> Alert:
    detail = {"execution_id": "x", "scheduled_for": now.isoformat()}
    return AlertFactory(rule=rule, job_key=job.job_key, detail=detail, created_at=now, **fields)


def test_a_job_that_succeeds_again_is_told_once_however_often_it_failed(now):
    rule, job = rule_of("failed", now), JobFactory(job_key="a:b")
    for minute in range(3):
        failed(rule, job, now + minute * MINUTE)
    RunFactory(job=job, completed=True, scheduled_for=now - MINUTE, finished_at=now + 4 * MINUTE)
    # It fell due after the last failure, and had succeeded before that.
    RunFactory(job=job, completed=True, scheduled_for=now + 2 * MINUTE + SECOND, finished_at=now + MINUTE)
    watch(now + 4 * MINUTE)
    assert ("recovered", "a:b") not in told()
    run = RunFactory(job=job, completed=True, scheduled_for=now + 3 * MINUTE, finished_at=now + 4 * MINUTE)
    for minutes in (5, 6):
        watch(now + minutes * MINUTE)
    assert told() == [("failed", "a:b")] * 3 + [("recovered", "a:b")]
    assert last().detail["succeeded"] == str(run.pk)
    assert Run.objects.count() == 3


def test_a_replay_that_succeeds_ends_a_failure(now):
    rule, job = rule_of("failed", now), JobFactory(job_key="a:b")
    failed(rule, job, now)
    RunFactory(job=job, kind="replay", completed=True, scheduled_for=now, finished_at=now + MINUTE)
    watch(now + 2 * MINUTE)
    assert told() == [("failed", "a:b"), ("recovered", "a:b")]


@pytest.mark.parametrize("state", ["throttled", "snoozed", "dropped"])
def test_the_end_of_what_nobody_was_told_is_told_to_nobody(now, state):
    rule, job = rule_of("failed", now), JobFactory(job_key="a:b")
    failed(rule, job, now, state=state, next_at=None, finished_at=now)
    RunFactory(job=job, completed=True, scheduled_for=now + MINUTE, finished_at=now + MINUTE)
    watch(now + 2 * MINUTE)
    assert told() == [("failed", "a:b")]
    assert last().ended_at == now + 2 * MINUTE


def test_a_rule_may_tell_no_ends(now):
    rule_of("overran", now, expected_within_seconds=60, recovery=False)
    entry = claimed("a:b")
    watch(now + 2 * MINUTE)
    entry.delete()
    watch(now + 3 * MINUTE)
    assert (told(), last().ended_at) == ([("overran", "a:b")], now + 3 * MINUTE)


# The week


def test_the_week_is_told_on_monday_morning_once(now, settings):
    settings.CRONIQ_TIME_ZONE = "Europe/Vienna"
    monday = datetime.fromisoformat("2026-03-02T07:00:00+01:00")
    rule_of("weekly_digest", now - 7 * DAY)
    job = JobFactory(job_key="a:b")
    for scheduled_for in (monday - timedelta(hours=8), monday - timedelta(days=7, hours=7), monday - 3 * DAY):
        RunFactory(job=job, dead=True, scheduled_for=scheduled_for)
    for scheduled_for in (monday - timedelta(hours=7), monday - timedelta(days=7, hours=7, seconds=1)):  # not of it
        RunFactory(job=job, dead=True, scheduled_for=scheduled_for)
    RunFactory(job__tenant="other", job__job_key="x:y", dead=True, scheduled_for=monday - DAY)
    RunFactory(job=job, completed=True, scheduled_for=monday - DAY)
    watch(monday - SECOND)
    assert told() == []
    for minutes in (0, 1, 60 * 24 * 6):
        watch(monday + minutes * MINUTE)
    assert told() == [("digest", "")]
    detail = last().detail
    assert (detail["week"], detail["failing"]) == ("2026-W09", {"a:b": 3})
    assert detail["runs"] == {"completed": 1, "failed": 0, "dead": 3, "cancelled": 0, "skipped": 0}
    watch(monday + 7 * DAY)
    assert told() == [("digest", "")] * 2


def test_a_digest_rule_that_is_made_on_monday_begins_with_the_next_one(now):
    AlertRuleFactory(kind="weekly_digest", created_at=now)
    watch(now)
    assert told() == []


# However many look


@pytest.mark.django_db(transaction=True)
def test_what_begins_and_ends_is_told_once_to_each_channel_by_however_many(now):
    channels = [AlertChannelFactory() for _ in range(2)]
    rule_of("overran", now, expected_within_seconds=60, channel=channels)
    entry = claimed("a:b")
    together([lambda n=n: watch(now + 2 * MINUTE + n * LOOK_EVERY) for n in range(4)])
    entry.delete()
    together([lambda n=n: watch(now + 3 * MINUTE + n * LOOK_EVERY) for n in range(4)])
    assert sorted(told()) == [("overran", "a:b")] * 2 + [("recovered", "a:b")] * 2
    assert {alert.channel for alert in Alert.objects.filter(event="recovered")} == set(channels)


def test_a_rule_that_breaks_stops_only_itself(now, monkeypatch):
    broken = rule_of("overran", now, expected_within_seconds=60)
    rule_of("overran", now, expected_within_seconds=60)
    claimed("a:b")
    look = watching.look

    def breaks(rule, *args):
        if rule == broken:
            raise ValueError("its glob is none")
        return look(rule, *args)

    monkeypatch.setattr(watching, "look", breaks)
    watch(now + 2 * MINUTE)
    assert told() == [("overran", "a:b")]


def test_a_rule_is_looked_for_every_few_seconds_and_a_change_of_many_jobs_costs_no_more(
    now, django_assert_max_num_queries
):
    rule_of("missed", now)
    for _ in range(10):
        QueueEntryFactory()
    watch(now)
    with django_assert_max_num_queries(2):
        watch(now + LOOK_EVERY - SECOND)
    with django_assert_max_num_queries(16):
        watch(now + 2 * MINUTE)
    assert len(told()) == 10
