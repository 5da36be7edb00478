"""Limited jobs at the edge: they start on time, and the next one begins with the ack of the one before."""

from __future__ import annotations

import math
import time
from datetime import timedelta

import pytest

from scheduler.api.work import claiming, gates
from scheduler.models import QueueEntry, Slot
from tests.factories import LaneFactory
from tests.scheduler.budgets.world import State, limited_job, waiting_run
from tests.scheduler.edge.helpers import FakeRunner, database_now, result
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_limited_run_that_falls_due_starts_without_any_signal_or_sweep():
    job = limited_job()
    due_at = database_now() + timedelta(seconds=0.6)
    run = waiting_run(job, due_at)
    with live_edge(hold_seconds=30) as server:
        (work,) = FakeRunner(server, server.key()).work()
        assert work["execution_id"] == str(run)
        claimed_at = QueueEntry.objects.get().claimed_at
        assert due_at <= claimed_at < due_at + timedelta(seconds=5)


def test_what_was_due_before_the_server_began_is_admitted_by_the_first_poll():
    run = waiting_run(limited_job(), database_now() - timedelta(minutes=1))
    with live_edge(hold_seconds=30) as server:
        (work,) = FakeRunner(server, server.key()).work()
        assert work["execution_id"] == str(run)


def test_the_ack_of_a_singleton_lets_a_held_poll_have_the_next_run_at_once():
    job = limited_job()
    at = database_now() - timedelta(minutes=1)
    runs = [waiting_run(job, at + timedelta(seconds=n)) for n in range(3)]
    with live_edge(hold_seconds=30) as server:
        key = server.key()
        one, other = FakeRunner(server, key, "r1"), FakeRunner(server, key, "r2")
        (work,) = one.work()
        assert work["execution_id"] == str(runs[0])
        held = other.hold()
        began = time.monotonic()
        assert one.ack(runs[0]).status_code == 200
        assert [work["execution_id"] for work in result(held).json()["work"]] == [str(runs[1])]
        assert time.monotonic() - began < 10, "the poll would have ended by itself after thirty"
        assert QueueEntry.objects.get(pk=runs[2]).state == State.GATED
        assert Slot.objects.count() == 1


def test_a_runner_that_polls_often_does_not_pay_for_limits_with_each_poll(monkeypatch):
    looks = []
    monkeypatch.setattr(claiming, "admit", lambda now, **lanes: looks.append(now) or 0)
    LaneFactory()
    with live_edge(hold_seconds=0.05) as server:
        runner = FakeRunner(server, server.key())
        began = time.monotonic()
        for _ in range(12):
            runner.poll()
        seconds = time.monotonic() - began
    assert 1 <= len(looks) <= 1 + seconds


def test_what_is_known_of_the_next_instant_is_never_forgotten_for_a_later_one(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(gates.time, "monotonic", lambda: clock[0])
    known, lanes = gates.Gates(), ((1,),)
    assert known.is_due(lanes), "nobody has looked yet"
    known.note(lanes, 103.0, admitted=True)
    known.note(lanes, math.inf, admitted=False)
    assert (known.is_due(lanes), known.seconds_left(lanes)) == (False, 3.0)
    known.rest(lanes)
    assert known.seconds_left(lanes) == gates.LOOK_AGAIN_SECONDS
    clock[0] = 101.0
    assert known.is_due(lanes)
    known.note(lanes, None, admitted=True)
    assert known.seconds_left(lanes) == gates.LOOK_AGAIN_SECONDS
    known.note(lanes, math.inf, admitted=True)
    assert known.seconds_left(lanes) == math.inf
