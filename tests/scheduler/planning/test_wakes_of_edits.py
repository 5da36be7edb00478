"""What an edit lets fall due elsewhere is said to who waits there."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta

import pytest

from scheduler.domain.work import Ack, AckStatus, LossCause
from scheduler.models import QueueEntry
from scheduler.queries.lanes import LaneDirectory
from scheduler.services.admit import admit
from scheduler.services.finish import finish, time_out
from scheduler.services.jobs import save_job
from scheduler.services.lanes import lane_for
from scheduler.services.materialize import materialize
from scheduler.services.pause import pause_job, resume_job
from scheduler.services.release import release
from scheduler.services.trigger_runs import trigger_run
from scheduler.services.wake import Signal, subscribe
from tests.factories import QueueEntryFactory
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger
from tests.support.races import Session

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


@contextmanager
def heard():
    signals: list[Signal] = []
    end = subscribe(signals.append)
    try:
        yield signals
    finally:
        end()


def test_runs_that_an_edit_moves_into_a_lane_that_is_there_wake_those_who_wait_at_it(now):
    there = make_job(now, "demo:other", priority=7).lane_id
    make_job(now)
    run_id = trigger_run("demo:job", now).run_id
    with heard() as signals:
        save_job({"job_key": "demo:job", "priority": 7}, now, ACTOR, partial=True)
    assert QueueEntry.objects.get(run_id=run_id).lane_id == there
    assert any(signal.lanes is None or there in signal.lanes for signal in signals)


def test_a_lane_that_is_committed_after_one_with_a_higher_id_is_learnt_of(database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer: ids are committed in their order")
    directory = LaneDirectory()
    with Session() as slow:
        slow.begin()
        late = slow.run(lane_for, "default", ["late"], [], 0)
        early = lane_for("default", ["early"], [], 0)
        assert late.pk < early.pk
        directory.refresh()
        assert (directory.knows([early.pk]), directory.knows([late.pk])) == (True, False)
        slow.commit()
        directory.refresh()
    assert directory.knows([late.pk])
    assert directory.lanes_for(["late"], "r1", None) == ((late.pk,),)


def test_what_a_materializer_plans_is_said_to_those_who_wait_for_it(clock):
    """A poll that waits has looked for what falls due next before these runs were there."""
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="1h")
    clock.tick(2 * HOUR)
    with heard() as signals:
        assert materialize(clock.now()).inserted
    assert any(signal.lanes is None or job.lane_id in signal.lanes for signal in signals)


def test_what_a_resume_lets_go_is_said_to_those_who_wait_for_it(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="30m")
    pause_job("demo:job", clock.now())
    with heard() as signals:
        resume_job("demo:job", clock.tick())
    assert any(signal.lanes is None or job.lane_id in signal.lanes for signal in signals)


def test_a_fire_that_is_caught_up_gets_the_slot_that_is_free_with_its_run(clock):
    """Nobody else looks: a server that knows of no limited run that falls due admits none."""
    job = make_job(clock.now(), max_concurrent=1, catch_up="latest")
    make_trigger(job, clock.now(), every="1h")
    QueueEntry.objects.all().delete()
    missed = clock.tick(3 * HOUR)
    materialize(missed)
    states = dict(QueueEntry.objects.filter(available_at__gte=missed).values_list("available_at", "state"))
    assert states == {missed: QueueEntry.State.READY, missed + HOUR: QueueEntry.State.GATED}


def test_a_tried_run_that_a_resume_lets_go_gets_the_slot_that_is_free(clock):
    job = make_job(clock.now(), max_concurrent=1)
    QueueEntryFactory(job=job, attempt=1, state=QueueEntry.State.GATED, waits_since=clock.now())
    pause_job("demo:job", clock.now())
    assert QueueEntry.objects.get().state == QueueEntry.State.HELD
    resume_job("demo:job", clock.tick())
    assert QueueEntry.objects.get().state == QueueEntry.State.READY


def test_an_admitted_run_is_said_to_those_who_wait_for_it(now):
    entry = QueueEntryFactory(job__max_concurrent=1, state=QueueEntry.State.GATED, waits_since=now)
    with heard() as signals:
        assert admit(now) == 1
    assert any(signal.lanes is None or entry.lane_id in signal.lanes for signal in signals)


@pytest.mark.parametrize("how", ["timed out", "lost"])
def test_a_runner_whose_attempt_is_over_is_told_though_it_says_nothing(now, how):
    """Its handler goes on until it hears of it, and a poll may be held for long."""
    entry = QueueEntryFactory(claimed=True)
    with heard() as signals:
        if how == "timed out":
            assert time_out(now + HOUR, 10) == 1
        else:
            assert release([(entry.run_id, entry.attempt)], now, LossCause.LEASE) == 1
    assert any(signal.holders is None or entry.holder_id in signal.holders for signal in signals)


@pytest.mark.parametrize("how", ["failed", "lost", "unheard"])
def test_a_run_that_waits_again_is_said_to_those_who_wait_at_its_lane(now, how):
    entry = QueueEntryFactory(claimed=True)
    claim = entry.run_id, entry.attempt
    with heard() as signals:
        if how == "failed":
            finish([Ack(*claim, entry.holder.runner.runner_id, AckStatus.FAILURE)], now)
        else:
            release([claim], now, LossCause.LEASE if how == "lost" else LossCause.DISCONNECTED)
    assert QueueEntry.objects.get().state == QueueEntry.State.READY
    assert any(signal.lanes is None or entry.lane_id in signal.lanes for signal in signals)
