"""Polls whose connection closes, that are followed by another, or whose server stops."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from runners.models import Runner
from scheduler.api.work import claiming
from scheduler.api.work.desk import Desk
from scheduler.api.work.http import has_closed
from scheduler.models import Attempt, QueueEntry
from scheduler.services.wake import wake
from tests.factories import JobFactory, LaneFactory
from tests.scheduler.edge.helpers import FakeRunner, Gate, due_run, hold_polls, result, state_of
from tests.support.collector import recorded_spans
from tests.support.polling import poll_until
from tests.support.server import LiveEdge, live_edge

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def spans():
    with recorded_spans() as recorded:
        yield recorded


def raw_poll(server: LiveEdge, runner: FakeRunner) -> socket.socket:
    """Send a poll over a connection of its own and return that without reading."""
    address = urlsplit(server.base_url)
    body = json.dumps(runner.body()).encode()
    head = (
        f"POST /v1/work/poll HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: ApiKey {runner.key}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection((address.hostname, address.port))
    connection.sendall(head.encode() + body)
    return connection


def test_a_poll_whose_connection_has_closed_takes_no_work():
    with live_edge(hold_seconds=30) as server:
        key, desk = server.key(), server.application.edge.desk
        lane = LaneFactory()
        connection = raw_poll(server, FakeRunner(server, key, "gone"))
        poll_until(lambda: desk.waiting == 1, what="the poll is being held")
        connection.close()
        poll_until(lambda: desk.waiting == 0, what="the server sees that it is gone")
        due_run()
        wake([lane.pk])
        (work,) = FakeRunner(server, key, "here").work()
        assert work["attempt"] == 1
        assert not Attempt.objects.exists()


def test_a_claim_whose_connection_closes_before_the_answer_goes_back_at_once(monkeypatch, spans):
    entry = due_run()
    gate = Gate(claiming.claim_round)
    with live_edge(hold_seconds=30) as server:
        monkeypatch.setattr(claiming, "claim_round", gate.after)
        key, edge = server.key(), server.application.edge
        connection = raw_poll(server, FakeRunner(server, key, "gone"))
        assert gate.finished.wait(10)
        assert state_of(entry.run_id) is QueueEntry.State.CLAIMED
        ((held, _),) = edge.desk._held.values()
        connection.close()

        async def has_heard_of_it():
            return has_closed(held.visit._receive)

        loop = held.answer.get_loop()
        poll_until(
            lambda: asyncio.run_coroutine_threadsafe(has_heard_of_it(), loop).result(10),
            what="the server hears that it is gone",
        )
        assert not held.visit.is_gone  # nobody watches a claim that is being made: its end looks
        gate.open.set()
        poll_until(lambda: state_of(entry.run_id) is QueueEntry.State.READY, what="the run is given back")
        # No loss, and the attempt was given back with it.
        assert QueueEntry.objects.get().attempt == 0
        assert not Attempt.objects.exists()
        assert spans.named("croniq.claim") == []  # it is as if it had never been
        (work,) = FakeRunner(server, key, "here").work()
        assert work["attempt"] == 1
        assert spans.one("croniq.claim").attributes["croniq.attempt"] == 1


def test_a_newer_poll_of_the_instance_ends_the_older_one_and_gets_the_work():
    with live_edge(hold_seconds=30) as server:
        key = server.key()
        lane = LaneFactory()
        older = FakeRunner(server, key).hold()
        newer = FakeRunner(server, key).start()
        assert result(older).json() == {"work": [], "cancel": []}
        poll_until(lambda: server.application.edge.desk.waiting == 1, what="the newer poll is being held")
        due_run()
        wake([lane.pk])
        assert len(result(newer).json()["work"]) == 1


def test_two_processes_with_one_instance_id_do_not_spin():
    with live_edge(hold_seconds=30) as server:
        key = server.key()
        older = FakeRunner(server, key)
        began = time.monotonic()
        held = older.hold()
        newer = FakeRunner(server, key).start()
        result(held)
        assert time.monotonic() - began >= 0.9
        server.application.edge.desk.stop()
        assert result(newer).status_code == 200


def test_what_was_claimed_for_the_older_poll_is_no_lost_answer(monkeypatch, database):
    entry = due_run()
    gate = Gate(claiming.claim_round)
    with live_edge(hold_seconds=30) as server:
        monkeypatch.setattr(claiming, "claim_round", gate.after)
        key, desk = server.key(), server.application.edge.desk
        older = FakeRunner(server, key).start()
        assert gate.finished.wait(10)
        (visit,) = desk._visits.values()
        newer = FakeRunner(server, key).start()
        poll_until(lambda: visit.is_superseded, what="the newer poll has arrived")
        if database == "postgresql":  # SQLite's one writer is at the claim: nobody is let in anyway
            # By the time that a third runner was let in, the newer poll would have been too.
            assert FakeRunner(server, key, "third").poll(max_inflight=0).status_code == 200
        # Claimed, and in no answer that was sent: the newer poll must not be let in before that is undone.
        assert not visit.settled.is_set()
        gate.open.set()
        (work,) = result(newer).json()["work"]
        assert (work["execution_id"], work["attempt"]) == (str(entry.run_id), 1)
        assert result(older).json() == {"work": [], "cancel": []}
        assert not Attempt.objects.exists()


def test_an_answer_that_cannot_be_written_down_gives_its_claims_back(monkeypatch):
    entry = due_run()
    with live_edge(hold_seconds=30) as server:

        def broken(*arguments):
            raise RuntimeError("no assignment today")

        monkeypatch.setattr(claiming, "assignments", broken)
        runner = FakeRunner(server, server.key())
        assert runner.poll().status_code == 500
        assert state_of(entry.run_id) is QueueEntry.State.READY
        assert QueueEntry.objects.get().attempt == 0
        monkeypatch.undo()
        (work,) = runner.work()
        assert work["attempt"] == 1


def test_a_server_that_stops_answers_every_waiting_poll():
    with live_edge(hold_seconds=30) as server:
        key = server.key()
        held = [FakeRunner(server, key, f"r{number}").hold() for number in range(5)]
        server.application.edge.desk.stop()
        for answer in map(result, held):
            assert (answer.status_code, answer.json()) == (200, {"work": [], "cancel": []})
            assert answer.headers["connection"] == "close"
        # Whoever still comes is answered at once, without work.
        due_run()
        assert FakeRunner(server, key).poll().json() == {"work": [], "cancel": []}
        assert QueueEntry.objects.get().state == QueueEntry.State.READY


def test_a_claim_under_way_when_the_server_stops_is_still_answered(monkeypatch):
    due_run()
    gate = Gate(claiming.claim_round)
    with live_edge(hold_seconds=30) as server:
        monkeypatch.setattr(claiming, "claim_round", gate.after)
        answer = FakeRunner(server, server.key()).start()
        assert gate.finished.wait(10)
        server.application.edge.desk.stop()
        gate.open.set()
        assert len(result(answer).json()["work"]) == 1


def test_polls_that_wait_at_the_same_lanes_share_one_claim(monkeypatch):
    gate = Gate(claiming.claim_batch)
    with live_edge(hold_seconds=30) as server:
        key = server.key()
        lane = LaneFactory()
        held = [FakeRunner(server, key, f"r{number}").hold() for number in range(20)]
        for _ in held:
            due_run()
        monkeypatch.setattr(claiming, "claim_batch", gate.counted)
        wake([lane.pk])
        works = [result(answer).json()["work"] for answer in held]
        ids = [work["execution_id"] for answered in works for work in answered]
        assert len(ids) == len(set(ids)) == 20
        # One for the signal, and one more where a look at the database's version said the same again.
        assert gate.calls <= 3


def test_one_due_run_among_many_waiting_polls_is_claimed_once():
    with live_edge(hold_seconds=30) as server:
        key = server.key()
        lane = LaneFactory()
        runners = [FakeRunner(server, key, f"r{number}") for number in range(10)]
        held = [runner.hold(max_inflight=1) for runner in runners]
        entry = due_run()
        wake([lane.pk])
        poll_until(lambda: any(answer.done() for answer in held), what="the run is handed out")
        for runner in runners:  # ends the others, and is told of the run where it is not held
            runner.poll(max_inflight=0, inflight=[str(entry.run_id)])
        works = [work for answer in held for work in result(answer).json()["work"]]
        assert [work["execution_id"] for work in works] == [str(entry.run_id)]


def test_nothing_is_left_of_polls_that_were_answered():
    LaneFactory()
    due_run()
    with live_edge(hold_seconds=0.2) as server:
        key, desk = server.key(), server.application.edge.desk
        for number in range(3):
            assert FakeRunner(server, key, f"r{number}").poll(capabilities=["gpu"]).status_code == 200
        hold_polls(server, 30)
        held = FakeRunner(server, key).hold(capabilities=["gpu"])
        added = LaneFactory(require=["gpu"])  # its signal takes the poll from one group to another
        due_run(job=JobFactory(lane=added))
        wake([added.pk])
        assert len(result(held).json()["work"]) == 1
        poll_until(lambda: not desk._groups, what="the groups are gone")
        assert not desk._held
        assert not desk._visits
        assert not desk._by_runner


def test_a_poll_of_a_process_that_is_gone_deposes_nobody(monkeypatch):
    """Its connection closed after its body was read and before its turn."""
    asked, gone, served = threading.Event(), threading.Event(), threading.Event()
    serve = Desk.serve

    async def when_it_is_gone(self, visit):
        if visit.request.instance_id == "ghost":
            asked.set()
            assert await asyncio.to_thread(gone.wait, 10)
            for _ in range(20):  # by then the loop has read that the connection is closed
                await asyncio.sleep(0)
        try:
            return await serve(self, visit)
        finally:
            served.set()

    with live_edge(hold_seconds=0.2) as server:
        key = server.key()
        living = FakeRunner(server, key, instance_id="living")
        assert living.poll().status_code == 200
        monkeypatch.setattr(Desk, "serve", when_it_is_gone)
        served.clear()
        with raw_poll(server, FakeRunner(server, key, instance_id="ghost")):
            assert asked.wait(10)
        gone.set()
        assert served.wait(10)
        assert living.poll().status_code == 200
    assert Runner.objects.get().takeovers == 0
