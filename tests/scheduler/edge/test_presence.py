"""Who was let in a moment ago and holds nothing is let in again without a look; what changes that is noticed."""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError, connection

from runners.models import Runner, RunnerInstance
from runners.services.audit import SYSTEM
from scheduler.api.work import claiming, desk
from scheduler.api.work.presence import Presence
from scheduler.domain.polls import OpenPoll, PollRequest
from scheduler.models import QueueEntry, Run
from scheduler.services.cancel import cancel_runs
from scheduler.services.claim import claim_due
from scheduler.services.identities import release_identity
from scheduler.services.poll import open_poll
from scheduler.services.wake import CHANNEL, Signal, deliver
from tests.factories import LaneFactory
from tests.scheduler.edge.helpers import FakeRunner, Gate, database_now, due_run, hold_polls, state_of, until_it_listens
from tests.support.polling import poll_until
from tests.support.server import live_edge

IDLE = PollRequest("r", "i", ("a",), ("t",), 2, free=2)


class Looks:
    """Counts the looks of a server that is told to trust one for as long as the test takes."""

    def __init__(self, server, monkeypatch, fresh_seconds: float = 60.0) -> None:
        until_it_listens(server)
        gate = Gate(desk.open_polls)
        monkeypatch.setattr(desk, "open_polls", gate.counted)
        server.application.edge.desk._presence._fresh_seconds = fresh_seconds
        self._gate = gate

    @property
    def count(self) -> int:
        return self._gate.calls


@pytest.mark.django_db(transaction=True)
def test_a_runner_that_ends_what_it_claims_is_let_in_without_a_look(monkeypatch, database):
    if database != "postgresql":
        pytest.skip("on SQLite each change of the file is heard as a change of everything, 20 times a second")
    runs = [due_run().run_id for _ in range(3)]
    with live_edge() as server:
        looks, runner = Looks(server, monkeypatch), FakeRunner(server, server.key())
        for _ in runs:
            (work,) = runner.work(max_inflight=1)
            assert runner.ack(work["execution_id"]).status_code == 200
        assert looks.count == 1
    assert set(Run.objects.filter(verdict="completed").values_list("pk", flat=True)) == set(runs)


@pytest.mark.django_db(transaction=True)
def test_what_was_claimed_and_not_acked_is_looked_for(monkeypatch):
    entry = due_run(max_losses=5)
    with live_edge() as server:
        looks, runner = Looks(server, monkeypatch), FakeRunner(server, server.key())
        for attempt in (1, 2, 3):  # as if no answer had been heard
            (work,) = runner.work()
            assert (work["execution_id"], work["attempt"]) == (str(entry.run_id), attempt)
        assert looks.count == 3


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_was_committed_and_then_failed_is_looked_for(monkeypatch):
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        Looks(server, monkeypatch)
        runner.poll(max_inflight=0)
        original = claiming.claim_round

        def fails_after(*arguments):
            original(*arguments)
            raise OperationalError("the connection is gone")

        monkeypatch.setattr(claiming, "claim_round", fails_after)
        assert runner.poll().status_code == 503
        assert state_of(entry.run_id) is QueueEntry.State.CLAIMED
        monkeypatch.setattr(claiming, "claim_round", original)
        (work,) = runner.work()
        assert work["attempt"] == 2


@pytest.mark.django_db(transaction=True)
def test_a_refused_ack_leaves_what_is_held_to_be_looked_for(monkeypatch):
    due_run()
    with live_edge() as server:
        looks, runner = Looks(server, monkeypatch), FakeRunner(server, server.key())
        (work,) = runner.work()
        assert runner.ack(work["execution_id"], attempt=2).status_code == 409
        assert [again["attempt"] for again in runner.work()] == [2]
        assert looks.count == 2


@pytest.mark.django_db(transaction=True)
def test_a_takeover_elsewhere_is_heard_of(monkeypatch):
    LaneFactory()
    with live_edge() as server:
        client = server.client()
        Looks(server, monkeypatch)
        runner = FakeRunner(server, server.key(client=client))
        assert runner.poll(max_inflight=0).status_code == 200
        principal = next(iter(server.application.edge.keys._known.values()))[1]
        open_poll(PollRequest(runner.runner_id, "another process", free=0, max_inflight=0), principal, database_now())
        answer = poll_until(
            lambda: (a := runner.poll(max_inflight=0)).status_code == 409 and a, what="it is told", deadline_s=5
        )
        assert answer.json()["error"] == "instance_deposed"


@pytest.mark.django_db(transaction=True)
def test_a_released_identity_is_heard_of(monkeypatch):
    with live_edge() as server:
        Looks(server, monkeypatch)
        mine, theirs = FakeRunner(server, server.key()), FakeRunner(server, server.key())
        assert mine.poll(max_inflight=0).status_code == 200
        release_identity(mine.runner_id, database_now(), SYSTEM)
        assert theirs.poll(max_inflight=0).status_code == 200
        answer = poll_until(
            lambda: (a := mine.poll(max_inflight=0)).status_code == 403 and a, what="it is told", deadline_s=5
        )
        assert answer.json()["error"] == "runner_owned"


@pytest.mark.django_db(transaction=True)
def test_an_instance_that_polled_another_server_is_looked_at(monkeypatch, database):
    if database != "postgresql":
        pytest.skip("a SQLite database has one server")
    with live_edge() as server:
        looks, runner = Looks(server, monkeypatch), FakeRunner(server, server.key())
        runner.poll(max_inflight=0)
        (holder_id,) = RunnerInstance.objects.values_list("pk", flat=True)
        with connection.cursor() as cursor:  # as another server says it
            cursor.execute(
                "SELECT pg_notify(%s, %s)", [CHANNEL, f"another|{Signal(moved=frozenset([holder_id])).as_text()}"]
            )
        poll_until(lambda: runner.poll(max_inflight=0) and looks.count == 2, what="it is looked at")


@pytest.mark.django_db(transaction=True)
def test_what_is_said_while_a_look_is_under_way_makes_it_worthless(monkeypatch):
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        gate = Gate(desk.open_polls)
        here = server.application.edge.desk
        here._presence._fresh_seconds = 60.0
        monkeypatch.setattr(desk, "open_polls", gate.after)
        answer = runner.start(max_inflight=0)
        assert gate.finished.wait(15)
        tells = here._tells
        deliver(Signal(holders=None))
        poll_until(lambda: here._tells > tells, what="the signal is heard")
        gate.open.set()
        assert answer.result(15).status_code == 200
        before = gate.calls
        assert runner.poll(max_inflight=0).status_code == 200
        assert gate.calls == before + 1


@pytest.mark.django_db(transaction=True)
def test_what_a_runner_says_of_itself_is_written_down_when_it_changes(monkeypatch):
    with live_edge() as server:
        looks, runner = Looks(server, monkeypatch), FakeRunner(server, server.key())
        runner.poll(max_inflight=0)
        runner.poll(max_inflight=0, capabilities=["python"])
        assert Runner.objects.get().capabilities == ["python"]
        runner.poll(max_inflight=0, capabilities=["python"], tags=["a=b"])
        assert Runner.objects.get().tags == ["a=b"]
        assert looks.count == 3


class Later:
    """A server whose looks count for an instant: who comes back is let in, and looked at a moment after that."""

    def __init__(self, server, monkeypatch) -> None:
        monkeypatch.setattr(desk, "FRESH_SECONDS", 0.05)
        self.looks = Looks(server, monkeypatch, fresh_seconds=0.0)
        self.runner = FakeRunner(server, server.key())
        hold_polls(server, 0.01)
        assert self.runner.poll(max_inflight=1).status_code == 200
        hold_polls(server, 30.0)


@pytest.fixture
def unheard(database):
    if database != "postgresql":
        pytest.skip("on SQLite each change of the file is heard as a change of everything, 20 times a second")


@pytest.mark.django_db(transaction=True)
def test_a_runner_that_comes_back_is_seen_without_waiting_for_it(monkeypatch, unheard):
    with live_edge() as server:
        later = Later(server, monkeypatch)
        past = database_now() - timedelta(minutes=1)
        RunnerInstance.objects.update(last_poll_at=past)
        Runner.objects.update(last_poll_at=past)
        hold_polls(server, 0.01)
        for _ in range(3):
            assert later.runner.poll(max_inflight=1).status_code == 200
        for model in (Runner, RunnerInstance):
            poll_until(lambda model=model: model.objects.get().last_poll_at > past, what="it was seen")
        assert later.looks.count == 1


@pytest.mark.django_db(transaction=True)
def test_the_look_that_comes_after_ends_the_poll_of_a_deposed_instance(monkeypatch, unheard):
    """Nothing is said of it here, as if the signal had been lost."""
    LaneFactory()
    with live_edge() as server:
        later = Later(server, monkeypatch)
        RunnerInstance.objects.update(deposed_at=database_now())
        answer = later.runner.start(max_inflight=1).result(15)
        assert answer.status_code == 409
        assert answer.json()["error"] == "instance_deposed"
        assert later.looks.count == 1
        assert later.runner.poll(max_inflight=1).status_code == 409
        assert later.looks.count == 2


@pytest.mark.django_db(transaction=True)
def test_the_look_that_comes_after_finds_an_answer_of_another_server_that_was_lost(monkeypatch, unheard):
    """Nothing is said of it here, as if the connection that listens had been cut."""
    with live_edge() as server:
        later = Later(server, monkeypatch)
        entry, holder = due_run(max_losses=5), RunnerInstance.objects.get()
        assert len(claim_due(database_now(), 1, holder.pk, [entry.lane_id]).claimed) == 1
        answer = later.runner.start(max_inflight=1).result(15)  # and not held for its half minute
        assert (answer.status_code, answer.json()["work"]) == (200, [])
        assert later.looks.count == 1
        assert [work["attempt"] for work in later.runner.work(max_inflight=1)] == [2]
        assert later.looks.count == 2


@pytest.mark.django_db(transaction=True)
def test_who_could_not_be_looked_at_is_no_longer_known(monkeypatch, unheard):
    with live_edge() as server:
        later = Later(server, monkeypatch)
        presence = server.application.edge.desk._presence

        def is_away(*_):
            raise OperationalError("the connection is gone")

        monkeypatch.setattr(desk, "see_again", is_away)
        hold_polls(server, 0.01)
        assert later.runner.poll(max_inflight=1).status_code == 200
        poll_until(lambda: not presence._seats, what="it is forgotten")
        assert later.runner.poll(max_inflight=1).status_code == 200
        assert later.looks.count == 2


@pytest.mark.django_db(transaction=True)
def test_a_cancelled_run_that_is_listed_no_more_is_wound_down_by_the_next_poll(monkeypatch):
    entry = due_run()
    with live_edge() as server:
        Looks(server, monkeypatch)
        runner = FakeRunner(server, server.key())
        assert len(runner.work(max_inflight=1)) == 1
        cancel_runs([entry.run_id], database_now(), SYSTEM)
        assert state_of(entry.run_id) is QueueEntry.State.STOPPING
        hold_polls(server, 0.05)
        runner.poll(max_inflight=1)
        assert state_of(entry.run_id) is None


# The cache by itself


def seated(**more) -> Presence:
    presence = Presence(**more)
    presence.looked(1, IDLE, OpenPoll(7), time.monotonic())
    return presence


def listing(request: PollRequest, **more) -> PollRequest:
    return PollRequest(request.runner_id, request.instance_id, request.capabilities, request.tags, 2, **more)


def test_it_is_for_the_same_instance_of_the_same_client_that_lists_nothing():
    presence = seated()
    assert presence.let_in(1, listing(IDLE)) == OpenPoll(7)
    assert presence.let_in(2, IDLE) is None
    assert presence.let_in(1, PollRequest("r", "another", ("a",), ("t",), 2)) is None
    assert presence.let_in(1, PollRequest("r", "i", ("a",), ("t",), 3)) is None
    run_id = uuid4()
    assert presence.let_in(1, listing(IDLE, listed={run_id: str(run_id)})) is None
    assert presence.let_in(1, listing(IDLE, unknown=("run-1",))) is None


def test_what_a_look_found_listed_is_held_until_it_is_acked():
    presence, run_id = Presence(), uuid4()
    presence.looked(1, listing(IDLE, listed={run_id: str(run_id)}), OpenPoll(7), time.monotonic())
    assert presence.let_in(1, IDLE) is None
    presence.acked(1, "r", run_id)
    assert presence.let_in(1, IDLE) == OpenPoll(7)
    presence.claimed(7, [run_id])
    assert presence.let_in(1, IDLE) is None


def test_after_a_second_a_look_is_due_and_after_a_minute_it_is_waited_for():
    fresh = seated()
    assert fresh.let_in(1, IDLE) == OpenPoll(7)
    assert not fresh.has_unseen
    known = seated(fresh_seconds=0.0)
    assert known.let_in(1, IDLE) == OpenPoll(7)
    assert known.take_unseen() == {7: IDLE}
    assert not known.has_unseen
    known._fresh_seconds = 60.0
    known.seen([7, 8], time.monotonic())
    assert known.let_in(1, IDLE) == OpenPoll(7)
    assert not known.has_unseen
    unknown = seated(fresh_seconds=0.0, known_seconds=0.0)
    assert unknown.let_in(1, IDLE) is None
    assert not unknown.has_unseen
    assert (Presence()._fresh_seconds, Presence()._known_seconds) == (1.0, 60.0)


def test_whoever_went_to_another_server_or_was_told_something_is_forgotten():
    for holders in ([7], None):
        presence = seated()
        presence.forget([8])
        assert presence.let_in(1, IDLE) is not None
        presence.forget(holders)
        assert presence.let_in(1, IDLE) is None
    presence = seated()
    presence.looked(1, IDLE, OpenPoll(9), time.monotonic())  # a new instance of the runner
    presence.forget([7])
    assert presence.let_in(1, IDLE) == OpenPoll(9)


def test_the_seats_are_bounded(monkeypatch):
    monkeypatch.setattr("scheduler.api.work.presence.MOST_SEATS", 3)
    presence = Presence()
    for n in range(10):
        presence.looked(1, PollRequest(f"r{n}"), OpenPoll(n), time.monotonic())
        assert len(presence._seats) <= 3
        assert presence._by_holder.keys() == {seat.holder_id for seat in presence._seats.values()}
