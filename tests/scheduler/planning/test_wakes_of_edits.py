"""What an edit lets fall due elsewhere is said to who waits there."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from scheduler.models import QueueEntry
from scheduler.queries.lanes import LaneDirectory
from scheduler.services.jobs import save_job
from scheduler.services.lanes import lane_for
from scheduler.services.trigger_runs import trigger_run
from scheduler.services.wake import Signal, subscribe
from tests.scheduler.planning.support import ACTOR, make_job
from tests.support.races import Session

pytestmark = pytest.mark.django_db(transaction=True)


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
