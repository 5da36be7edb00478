"""What has outlived its time goes, oldest first and a batch at a time; what is still of use stays."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.contrib.sessions.models import Session as WebSession

from croniq_site.kernel.database import chunks
from runners.models import AuditEvent, Heartbeat, Runner, RunnerInstance
from scheduler.domain.work import Ack, AckAnswer, AckStatus
from scheduler.models import Alert, Attempt, IdempotencyKey, QueueEntry, Run, RunLog, SkippedSpan
from scheduler.queries.prunable import KINDS
from scheduler.services import retention
from scheduler.services.alerts.causes import drop_old_alerts
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.workers import reaper
from tests.factories import (
    AlertFactory,
    AttemptFactory,
    DeadLetterFactory,
    HeartbeatFactory,
    IdempotencyKeyFactory,
    JobFactory,
    LaneFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    RunnerFactory,
    RunnerInstanceFactory,
    SkippedSpanFactory,
    SlotFactory,
)
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock, together

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)


@pytest.fixture(autouse=True)
def _kept(settings):
    settings.CRONIQ_RUN_RETENTION_SECONDS = 90 * 86_400
    settings.CRONIQ_LOG_RETENTION_SECONDS = 30 * 86_400
    settings.CRONIQ_RUNNER_RETENTION_SECONDS = 30 * 86_400


def session(until):
    return WebSession.objects.create(session_key=f"key-{until.timestamp()}", session_data="", expire_date=until)


def old_run(at, **more):
    return RunFactory(
        **{"verdict": "completed", "attempt": 1, "scheduled_for": at, "claimed_at": at, "finished_at": at, **more}
    )


def test_a_run_goes_with_all_that_hangs_on_it_when_its_time_is_over(now):
    old = old_run(now)
    AttemptFactory(run=old)
    RunLogFactory(run=old)
    IdempotencyKeyFactory(run=old, job=old.job)
    assert retention.drop_old_runs(now + 90 * DAY) == 0
    assert retention.drop_old_runs(now + 90 * DAY + TICK) == 1
    assert not Run.objects.exists()
    assert not Attempt.objects.exists()
    assert not RunLog.objects.exists()


def test_runs_that_somebody_still_needs_stay(now):
    unfinished = QueueEntryFactory().run
    stopping = QueueEntryFactory(stopping=True).run
    lettered = DeadLetterFactory(expires_at=None).run
    slotted = old_run(now)
    SlotFactory(run=slotted)
    late = old_run(now, finished_at=now + 10 * DAY)
    original = old_run(now)
    replay = old_run(now + 10 * DAY, kind="replay", replay_of=original, job=original.job)
    assert retention.drop_old_runs(now + 91 * DAY) == 0
    kept = {run.pk for run in (unfinished, stopping, lettered, slotted, late, original, replay)}
    assert set(Run.objects.values_list("pk", flat=True)) == kept
    # When the replay goes, so may what it repeats.
    assert retention.drop_old_runs(now + 101 * DAY) == 2
    assert retention.drop_old_runs(now + 101 * DAY) == 1
    assert set(Run.objects.values_list("pk", flat=True)) == {
        run.pk for run in (unfinished, stopping, lettered, slotted)
    }


def test_a_fire_that_was_skipped_before_its_time_is_remembered_until_then(now):
    """Who forgets it plans it again, and runs what somebody said was not to run."""
    ahead = old_run(now + 365 * DAY, verdict="skipped", problem="skipped", attempt=0, claimed_at=None, finished_at=now)
    assert retention.drop_old_runs(now + 91 * DAY) == 0
    assert Run.objects.filter(pk=ahead.pk).exists()
    assert retention.drop_old_runs(ahead.scheduled_for + 90 * DAY + TICK) == 1


def test_a_skipped_run_that_is_revived_while_it_is_looked_for_stays(now, monkeypatch):
    revived = old_run(now, verdict="skipped", problem="skipped", attempt=0, claimed_at=None)

    def after_the_look(ids, size):
        Run.objects.filter(pk=revived.pk).update(verdict=None, problem=None, finished_at=None)
        QueueEntryFactory(run=revived, job=revived.job)
        return chunks(ids, size)

    monkeypatch.setattr(retention, "chunks", after_the_look)
    assert retention.drop_old_runs(now + 91 * DAY) == 0
    assert list(QueueEntry.objects.values_list("run_id", flat=True)) == [revived.pk]


def test_the_oldest_runs_go_first_and_no_transaction_deletes_more_lines_than_a_batch(now):
    job = JobFactory()
    runs = [old_run(now + n * timedelta(hours=1), job=job) for n in range(6)]
    for run in runs:
        for _ in range(3):
            RunLogFactory(run=run)
    late = now + 200 * DAY
    assert retention.drop_old_runs(late, 4) == 4
    assert (RunLog.objects.count(), Run.objects.count()) == (14, 6)
    counts = []
    while count := retention.drop_old_runs(late, 4):
        counts.append(count)
        left = [run.pk for run in runs if Run.objects.filter(pk=run.pk).exists()]
        assert left == [run.pk for run in runs][6 - len(left) :]
    assert not Run.objects.exists()
    assert max(counts) == 4


def test_lines_go_before_their_run(now):
    run = old_run(now)
    old, young = RunLogFactory(run=run, logged_at=now), RunLogFactory(run=run, logged_at=now + DAY)
    assert retention.drop_old_lines(now + 30 * DAY) == 0
    assert retention.drop_old_lines(now + 30 * DAY + TICK) == 1
    assert list(RunLog.objects.all()) == [young]
    assert old.pk < young.pk
    assert Run.objects.exists()


def test_lines_that_a_clock_ahead_of_its_time_has_stamped_keep_no_others(now):
    run = old_run(now)
    ahead = RunLogFactory(run=run, logged_at=now + 365 * DAY)
    RunLogFactory(run=run, logged_at=now)
    assert retention.drop_old_lines(now + 30 * DAY + TICK) == 1
    assert list(RunLog.objects.all()) == [ahead]
    assert retention.drop_old_lines(now + 395 * DAY + TICK) == 1


def test_alerts_that_a_clock_ahead_of_its_time_has_stamped_keep_no_others(now):
    said = {"state": "delivered", "next_at": None}
    ahead = AlertFactory(created_at=now + 365 * DAY, finished_at=now, ended_at=now, **said)
    AlertFactory(created_at=now - 31 * DAY, finished_at=now, ended_at=now, **said)
    assert drop_old_alerts(now, 1) == 1
    assert list(Alert.objects.all()) == [ahead]


def test_gaps_are_told_as_long_as_runs(now):
    SkippedSpanFactory(recorded_at=now)
    young = SkippedSpanFactory(recorded_at=now + DAY)
    assert retention.drop_old_spans(now + 90 * DAY) == 0
    assert retention.drop_old_spans(now + 90 * DAY + TICK) == 1
    assert list(SkippedSpan.objects.all()) == [young]


def test_sessions_go_when_they_are_over(now):
    for number in range(3):
        session(now + number * DAY)
    assert retention.drop_expired_sessions(now) == 0
    assert retention.drop_expired_sessions(now + DAY + TICK, 1) == 1
    assert retention.drop_expired_sessions(now + DAY + TICK) == 1
    assert WebSession.objects.get().expire_date == now + 2 * DAY


def test_a_clock_that_is_set_forward_throws_nothing_away_for_an_hour(now):
    """By it everything is old. A server that is away for a year looks the same."""
    HeartbeatFactory(kind="serve", beat_at=now)
    old_run(now)
    session(now + 7 * DAY)
    DeadLetterFactory(expires_at=now + 30 * DAY)
    year = now + 365 * DAY
    assert not any(reaper.run_once(year).done[kind] for kind in KINDS)
    HeartbeatFactory(kind="serve", beat_at=year)
    assert not any(reaper.run_once(year + timedelta(minutes=59)).done[kind] for kind in KINDS)
    done = reaper.run_once(year + timedelta(hours=1)).done
    assert (done["runs"], done["sessions"], done["dead_letters"]) == (2, 1, 1)


def test_a_restart_throws_away_at_once(now):
    HeartbeatFactory(kind="serve", beat_at=now + 100 * DAY - timedelta(hours=23))
    old_run(now)
    assert reaper.run_once(now + 100 * DAY).done["runs"] == 1


def test_for_ever_is_for_ever(now, settings):
    settings.CRONIQ_RUN_RETENTION_SECONDS = settings.CRONIQ_LOG_RETENTION_SECONDS = 0
    settings.CRONIQ_RUNNER_RETENTION_SECONDS = 0
    RunLogFactory(run=old_run(now))
    RunnerFactory(last_poll_at=now)
    done = reaper.run_once(now + 3650 * DAY).done
    assert not any(done.values())


def test_a_deposed_process_is_known_for_seven_days(now):
    runner = RunnerFactory()
    gone, holding = (RunnerInstanceFactory(runner=runner, deposed_at=now) for _ in range(2))
    current = RunnerInstanceFactory(runner=runner)
    QueueEntryFactory(stopping=True, holder=holding)
    assert retention.drop_deposed_instances(now + 7 * DAY) == 0
    assert retention.drop_deposed_instances(now + 7 * DAY + TICK) == 1
    assert set(RunnerInstance.objects.values_list("pk", flat=True)) == {holding.pk, current.pk}
    assert gone.pk not in RunnerInstance.objects.values_list("pk", flat=True)


def test_a_runner_that_is_long_dead_leaves_the_list_and_not_the_history_of_its_runs(now):
    dead = RunnerFactory(runner_id="ci-1", last_poll_at=now)
    RunnerInstanceFactory(runner=dead)
    alive = RunnerFactory(last_poll_at=now + DAY)
    holding = RunnerFactory(last_poll_at=now)
    QueueEntryFactory(claimed=True, holder=RunnerInstanceFactory(runner=holding))
    fought_over = RunnerFactory(last_poll_at=now)
    RunnerInstanceFactory(runner=fought_over, deposed_at=now + 29 * DAY)
    run = old_run(now, runner_id="ci-1")
    assert retention.drop_dead_runners(now + 30 * DAY) == 0
    assert retention.drop_dead_runners(now + 30 * DAY + TICK) == 1
    assert set(Runner.objects.values_list("pk", flat=True)) == {alive.pk, holding.pk, fought_over.pk}
    run.refresh_from_db()
    assert run.runner_id == "ci-1"
    event = AuditEvent.objects.get()
    assert (event.action, event.target_id) == ("runner.forgotten", "ci-1")


def test_thousands_of_one_day_runners_go_batch_by_batch(now):
    client = RunnerFactory().client
    Runner.objects.bulk_create(
        Runner(runner_id=f"day-{n:04}", client=client, created_at=now, last_poll_at=now) for n in range(1000)
    )
    late = now + 31 * DAY
    passes = 1
    while not reaper.run_once(late).is_done:
        passes += 1
    assert not Runner.objects.exists()
    assert passes == 1001 // 166 + 1


def test_the_last_sign_of_each_kind_is_kept(now):
    HeartbeatFactory(kind="serve", beat_at=now - 2 * DAY)
    HeartbeatFactory(kind="serve", beat_at=now - DAY)
    last = [HeartbeatFactory(kind=kind, beat_at=now) for kind in ("serve", "reap")]
    assert retention.drop_old_heartbeats(now + 6 * DAY - TICK) == 1
    assert retention.drop_old_heartbeats(now + 100 * DAY) == 1
    assert set(Heartbeat.objects.values_list("pk", flat=True)) == {beat.pk for beat in last}


def test_a_claimed_run_is_never_old(now):
    entry = QueueEntryFactory(claimed=True)
    assert retention.drop_old_runs(now + 3650 * DAY) == 0
    assert QueueEntry.objects.get() == entry


HELD = {
    "keys": (
        lambda now: IdempotencyKeyFactory(run=old_run(now), expires_at=now),
        lambda now: retention.drop_expired_keys(now),
    ),
    "letters": (
        lambda now: DeadLetterFactory(expires_at=now),
        lambda now: retention.drop_expired_letters(now),
    ),
    "lines": (
        lambda now: RunLogFactory(run=old_run(now), logged_at=now),
        lambda now: retention.drop_old_lines(now + 31 * DAY),
    ),
    "runs": (
        lambda now: old_run(now),
        lambda now: retention.drop_old_runs(now + 91 * DAY),
    ),
    "instances": (
        lambda now: RunnerInstanceFactory(deposed_at=now),
        lambda now: retention.drop_deposed_instances(now + 8 * DAY),
    ),
    "gaps": (
        lambda now: SkippedSpanFactory(recorded_at=now),
        lambda now: retention.drop_old_spans(now + 91 * DAY),
    ),
    "sessions": (
        lambda now: session(now),
        lambda now: retention.drop_expired_sessions(now + DAY),
    ),
    "heartbeats": (
        lambda now: HeartbeatFactory(kind="reap", beat_at=now),
        lambda now: retention.drop_old_heartbeats(now + 8 * DAY),
    ),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", HELD)
def test_what_somebody_has_in_hand_is_left_to_them_and_not_waited_for(now, database, what):
    """A chore that waited with rows of its own would meet another, or whoever deletes, in a circle."""
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    make, drop = HELD[what]
    rows = [make(now - n * TICK) for n in (3, 2, 1)]
    if what == "heartbeats":
        HeartbeatFactory(kind="reap", beat_at=now + 8 * DAY)  # the last of a kind is kept
    kind = type(rows[0])
    with Session() as person, Session() as chore:
        person.begin()
        person.run(lambda: list(kind.objects.select_for_update().filter(pk=rows[1].pk)))
        pid = chore.backend_pid
        dropped = chore.start(drop, now)
        poll_until(lambda: dropped.done() or is_waiting_for_lock(pid), what="the chore is done")
        assert dropped.done(), "it waits"
        person.rollback()
        assert dropped.result(DEADLINE_SECONDS) == 2
    assert kind.objects.filter(pk__in=[row.pk for row in rows]).get() == rows[1]
    assert drop(now) == 1


@pytest.mark.django_db(transaction=True)
def test_a_key_that_is_taken_for_a_new_run_in_the_moment_of_its_end_stands_for_that(now, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer: the chore looks when the other has ended")
    key = IdempotencyKeyFactory(run=old_run(now), expires_at=now)
    with Session() as person, Session() as chore:
        person.begin()
        person.run(lambda: IdempotencyKey.objects.filter(pk=key.pk).update(expires_at=now + DAY))
        assert chore.run(lambda: retention.drop_expired_keys(now + TICK)) == 0
        person.commit()
        assert chore.run(lambda: retention.drop_expired_keys(now + TICK)) == 0
    assert IdempotencyKey.objects.filter(pk=key.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_old_runs_go_while_others_are_claimed_and_acked_and_nothing_unfinished_goes(now):
    """Two reapers at all their chores beside four clients; every run that waits is claimed once and ended."""
    for number in range(40):
        run = old_run(now - 100 * DAY - number * TICK)
        AttemptFactory(run=run)
        RunLogFactory.create_batch(3, run=run, logged_at=now - 100 * DAY)
        IdempotencyKeyFactory(run=run, job=run.job, expires_at=now - 99 * DAY)
    lane = LaneFactory()
    waiting = [QueueEntryFactory(lane=lane, available_at=now - DAY).run_id for _ in range(40)]
    holders = [RunnerInstanceFactory() for _ in range(4)]

    def reap():
        while Run.objects.filter(scheduled_for__lt=now - 90 * DAY).exists():
            done = reaper.run_once(now, 25)
            assert not done.failed

    def work(holder):
        claimed = []
        while some := claim_due(now, 3, holder.pk, [lane.pk]):
            claimed += [one.run_id for one in some]
            acks = [Ack(one.run_id, one.attempt, holder.runner.runner_id, AckStatus.SUCCESS) for one in some]
            assert set(finish(acks, now)) == {AckAnswer.ACCEPTED}
        return claimed

    together([reap, reap, *(partial(work, holder) for holder in holders)])
    # A client that finds all that is left locked goes home before the last run is taken: what it left is there.
    claimed = work(holders[0])
    assert not QueueEntry.objects.exists()
    assert Run.objects.filter(pk__in=waiting, verdict="completed", attempt=1).count() == 40
    assert Run.objects.count() == 40
    assert len(claimed) <= 40
    assert not RunLog.objects.exists()
    assert not IdempotencyKey.objects.exists()
