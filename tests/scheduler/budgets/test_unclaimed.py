"""A run that was admitted for a runner that is not there does not keep others from running."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import QueueEntry, Slot
from scheduler.services.admit import admit
from scheduler.services.waiting import pass_over_unclaimed
from scheduler.workers import reaper
from tests.factories import RunnerInstanceFactory
from tests.scheduler.budgets.world import (
    SECOND,
    State,
    ack,
    claim,
    group_of,
    limited_job,
    other_lane,
    state_of,
    states,
    waiting_run,
)

pytestmark = pytest.mark.django_db

HALF_MINUTE = timedelta(seconds=30)


@pytest.fixture
def world(now):
    """A group of one; an urgent job that needs a GPU nobody has, and plain ones that any runner takes."""
    group = group_of(1)
    gpu = limited_job(
        max_concurrent=None, concurrency_group=group, priority=9, lane=other_lane(9, require=["gpu"]), require=["gpu"]
    )
    plain = limited_job(max_concurrent=None, concurrency_group=group)
    return gpu, plain


def test_after_thirty_seconds_unclaimed_it_stands_behind_those_that_waited(now, world):
    gpu, plain = world
    holder = RunnerInstanceFactory()
    stuck = waiting_run(gpu, now)
    others = [waiting_run(plain, now + n * SECOND) for n in range(3)]
    admit(now)
    assert pass_over_unclaimed(now + HALF_MINUTE - SECOND) == 0
    at = now + HALF_MINUTE
    assert pass_over_unclaimed(at) == 1
    assert states([stuck, *others]) == [State.GATED, State.READY, State.GATED, State.GATED]
    assert [slot.run_id for slot in Slot.objects.all()] == [others[0]]
    # All that waited by then go first, whatever their priority; who falls due later does not.
    late = waiting_run(plain, at + SECOND)
    for expected in others:
        (held,) = claim(at, holder, lanes=[plain.lane])
        assert held.run_id == expected
        ack(held, holder, at + 2 * SECOND)
    assert states([stuck, late]) == [State.READY, State.GATED]
    # Its runner is there: it runs.
    (held,) = claim(at + 2 * SECOND, holder, lanes=[gpu.lane])
    assert held.run_id == stuck


def test_nothing_is_taken_while_nobody_waits(now, world):
    gpu, plain = world
    stuck = waiting_run(gpu, now)
    waiting_run(plain, now + timedelta(hours=1))
    admit(now)
    assert pass_over_unclaimed(now + 10 * HALF_MINUTE) == 0
    assert state_of(stuck) == State.READY


def test_a_claimed_run_is_never_passed_over(now, world):
    _, plain = world
    held = waiting_run(plain, now - SECOND)
    waiting_run(plain, now)
    admit(now)
    claim(now, RunnerInstanceFactory(), lanes=[plain.lane])
    assert pass_over_unclaimed(now + 2 * HALF_MINUTE) == 0
    assert state_of(held) == State.CLAIMED


def test_the_group_works_on_although_a_run_of_it_can_be_taken_by_nobody(now, world):
    gpu, plain = world
    holder = RunnerInstanceFactory()
    stuck = waiting_run(gpu, now)
    runs = [waiting_run(plain, now) for _ in range(6)]
    for second in range(0, 241, 5):
        at = now + second * SECOND
        reaper.run_once(at)
        for held in claim(at, holder, lanes=[plain.lane]):
            ack(held, holder, at)
    assert states(runs) == ["completed"] * 6
    assert QueueEntry.objects.get().run_id == stuck
