"""A drained runner finishes what it holds and takes no more, whatever process of it polls, until it is resumed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection

from runners.domain.scopes import Principal
from runners.models import AuditEvent, Runner, RunnerInstance
from runners.services.audit import SYSTEM
from scheduler.api.work import claiming
from scheduler.api.work.presence import Presence
from scheduler.domain.polls import OpenPoll, PollRequest
from scheduler.models import Job, QueueEntry, Run
from scheduler.services.claim import claim_due
from scheduler.services.drain import drain_runner, resume_runner
from scheduler.services.poll import open_poll, see_again
from scheduler.services.wake import Signal, subscribe, wake
from tests.factories import JobFactory, LaneFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.edge.helpers import (
    DEADLINE_SECONDS,
    FakeRunner,
    Gate,
    database_now,
    due_run,
    hold_polls,
    result,
    state_of,
    until_it_listens,
)
from tests.scheduler.edge.test_sdk import run_until, sdk_runner
from tests.support.polling import poll_until
from tests.support.races import Session, in_thread, is_waiting_for_lock
from tests.support.server import LiveEdge, live_edge

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Iterator[LiveEdge]:
    with live_edge(hold_seconds=30) as server:
        until_it_listens(server)
        yield server


def drain(runner_id: str = "r1") -> None:
    assert in_thread(drain_runner, runner_id, database_now(), SYSTEM, reason="new disk").result(DEADLINE_SECONDS).is_new


def resume(runner_id: str = "r1") -> None:
    assert in_thread(resume_runner, runner_id, database_now(), SYSTEM).result(DEADLINE_SECONDS).is_new


def falls_due(job: Job | None = None) -> QueueEntry:
    entry = due_run(job=job or JobFactory())
    in_thread(wake, [entry.lane_id]).result(DEADLINE_SECONDS)
    return entry


def nobody_is_asked_for(server: LiveEdge) -> bool:
    return all(group is None for _, group in server.application.edge.desk._held.values())


def test_it_finishes_what_it_holds_and_the_next_run_goes_to_another(server):
    drained, other = FakeRunner(server, server.key()), FakeRunner(server, server.key(), "r2")
    first = falls_due()
    assert len(drained.work()) == 1
    drain()
    second = falls_due()
    hold_polls(server, 0.05)
    assert drained.work(inflight=[str(first.run_id)]) == []
    assert drained.renew(first.run_id).status_code == 200
    hold_polls(server, 30)
    assert [work["execution_id"] for work in other.work()] == [str(second.run_id)]
    assert drained.ack(first.run_id).status_code == 200
    assert Run.objects.get(pk=first.run_id).verdict == "completed"


def test_a_poll_that_waits_takes_nothing_from_then_on_and_at_once_when_it_is_resumed(server):
    job = JobFactory()
    held = FakeRunner(server, server.key()).hold()
    drain()
    poll_until(lambda: nobody_is_asked_for(server), what="the drain is heard of")
    entry = falls_due(job)
    assert FakeRunner(server, server.key(), "r2").poll(max_inflight=0).status_code == 200
    assert (held.done(), state_of(entry.run_id)) == (False, QueueEntry.State.READY)
    resume()
    assert [work["execution_id"] for work in result(held).json()["work"]] == [str(entry.run_id)]


def test_nobody_looks_for_work_for_it(server, monkeypatch):
    runner = FakeRunner(server, server.key())
    assert runner.poll(max_inflight=0).status_code == 200
    drain()
    falls_due()
    hold_polls(server, 0.05)
    claims = Gate(claiming.claim_round)
    monkeypatch.setattr(claiming, "claim_round", claims.counted)
    assert [runner.work() for _ in range(3)] == [[], [], []]
    assert claims.calls == 0
    resume()
    hold_polls(server, 30)
    assert len(runner.work()) == 1


def test_a_process_that_starts_anew_takes_none_either(server):
    key = server.key()
    assert FakeRunner(server, key).poll(max_inflight=0).status_code == 200
    drain()
    falls_due()
    hold_polls(server, 0.05)
    restarted = FakeRunner(server, key, instance_id="i2")
    assert restarted.work() == []
    assert list(RunnerInstance.objects.order_by("pk").values_list("instance_id", "is_drained")) == [
        ("i1", True),
        ("i2", True),
    ]
    resume()
    hold_polls(server, 30)
    assert len(restarted.work()) == 1


def test_the_sdk_gets_simply_no_work(server, caplog):
    job = JobFactory(job_key="test:drained")
    steps = iter(("drain", "work", "resume"))
    done = []

    async def handler(context):
        done.append(context.execution_id)

    def is_done() -> bool:
        waits = server.application.edge.desk.waiting
        if waits and (step := next(steps, None)) is not None:
            if step == "drain":
                drain("sdk")
                poll_until(lambda: nobody_is_asked_for(server), what="the drain is heard of")
            elif step == "work":
                falls_due(job)
            else:
                assert not done
                resume("sdk")
        return Run.objects.filter(verdict="completed").exists()

    runner = sdk_runner(server)
    runner.add_handler("test:drained", handler)
    run_until(runner, is_done, "the run is completed after the drain")
    assert len(done) == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_claim_while_its_runner_is_being_drained_gets_nothing(now):
    holder, lane = RunnerInstanceFactory(runner__runner_id="r1"), LaneFactory()
    entry = QueueEntryFactory(job__lane=lane)
    with Session() as first, Session() as second:
        first.begin()
        first.run(drain_runner, "r1", now, SYSTEM)
        claim = second.start(claim_due, now, 1, holder.pk, [lane.pk])
        first.commit()
        assert len(claim.result(DEADLINE_SECONDS)) == 0
    assert state_of(entry.run_id) == QueueEntry.State.READY


def test_a_drain_while_a_claim_is_under_way_comes_after_it(now):
    holder, lane = RunnerInstanceFactory(runner__runner_id="r1"), LaneFactory()
    entry = QueueEntryFactory(job__lane=lane)
    with Session() as first, Session() as second:
        first.begin()
        assert len(first.run(claim_due, now, 1, holder.pk, [lane.pk])) == 1
        draining = second.start(drain_runner, "r1", now, SYSTEM)
        first.commit()
        assert draining.result(DEADLINE_SECONDS).drained_at == now
    assert state_of(entry.run_id) == QueueEntry.State.CLAIMED
    QueueEntryFactory(job__lane=lane)
    assert len(claim_due(now, 1, holder.pk, [lane.pk])) == 0


def test_a_takeover_while_the_runner_is_being_drained_is_drained_too(server, now):
    key = server.key()
    assert FakeRunner(server, key).poll(max_inflight=0).status_code == 200
    with Session() as first:
        first.begin()
        first.run(drain_runner, "r1", now, SYSTEM)
        answer = FakeRunner(server, key, instance_id="i2").start(max_inflight=0)
        first.commit()
        assert result(answer).status_code == 200
    assert RunnerInstance.objects.get(deposed_at=None, instance_id="i2").is_drained


def test_a_takeover_that_waited_for_whoever_drains_the_runner_has_read_it_afterwards(now):
    client = RunnerInstanceFactory(runner__runner_id="r1").runner.client
    whose = Principal(client_id=client.pk, name=client.name, tenant=client.tenant, scopes=frozenset({"admin"}))
    with Session() as first, Session() as second:
        pid = second.backend_pid if connection.vendor == "postgresql" else 0
        first.begin()
        first.run(drain_runner, "r1", now, SYSTEM)
        opened = second.start(open_poll, PollRequest("r1", "i2"), whose, now)
        if pid:
            poll_until(lambda: is_waiting_for_lock(pid), what="the takeover waits for the drain")
        first.commit()
        assert opened.result(DEADLINE_SECONDS).is_drained


def test_of_two_who_drain_it_at_once_the_second_changes_the_reason_alone(now):
    RunnerInstanceFactory(runner__runner_id="r1")
    with Session() as first, Session() as second:
        pid = second.backend_pid if connection.vendor == "postgresql" else 0
        first.begin()
        assert first.run(drain_runner, "r1", now, SYSTEM, reason="new disk").is_new
        other = second.start(drain_runner, "r1", now + timedelta(hours=1), SYSTEM, reason="new host")
        if pid:
            poll_until(lambda: is_waiting_for_lock(pid), what="the second waits for the first")
        first.commit()
        assert result(other).drained_at == now
    events = AuditEvent.objects.filter(action="runner.drained").order_by("pk")
    assert events.last().diff == {"reason": ["new disk", "new host"]}


# What a server remembers


def test_a_drained_one_is_looked_at_each_time():
    presence, poll = Presence(), PollRequest("r1", "i1")
    presence.looked(1, poll, OpenPoll(7), time.monotonic())
    assert presence.let_in(1, poll) == OpenPoll(7)
    presence.looked(1, poll, OpenPoll(7, is_drained=True), time.monotonic())
    assert presence.let_in(1, poll) is None


def test_who_was_let_in_without_a_look_and_is_drained_or_deposed_needs_one(now):
    drained, other = RunnerInstanceFactory(is_drained=True), RunnerInstanceFactory()
    deposed = RunnerInstanceFactory(runner=other.runner, instance_id="before", deposed_at=now)
    polls = {one.pk: PollRequest(one.runner.runner_id, one.instance_id) for one in (drained, other, deposed)}
    assert see_again(polls, now + timedelta(seconds=5)) == {drained.pk, deposed.pk}


# The service


def test_again_changes_the_reason_alone(now):
    instance = RunnerInstanceFactory(runner__runner_id="r1")
    before = RunnerInstanceFactory(runner=instance.runner, instance_id="i0", deposed_at=now)
    first = drain_runner("r1", now, SYSTEM, reason=" new disk ")
    assert (first.drained_at, first.reason, first.is_new) == (now, "new disk", True)
    assert list(RunnerInstance.objects.filter(is_drained=True)) == [instance]
    assert not RunnerInstance.objects.get(pk=before.pk).is_drained  # it takes no more whatever becomes of the runner
    later = now + timedelta(hours=1)
    assert drain_runner("r1", later, SYSTEM, reason="new disk").is_new is False
    other = drain_runner("r1", later, SYSTEM, reason="new host")
    assert (other.drained_at, other.reason, other.is_new) == (now, "new host", True)
    assert Runner.objects.values_list("drained_at", "drain_reason").get() == (now, "new host")
    assert resume_runner("r1", later, SYSTEM).drained_at is None
    assert resume_runner("r1", later, SYSTEM).is_new is False
    instance.refresh_from_db()
    assert instance.is_drained is False
    assert Runner.objects.values_list("drained_at", "drain_reason").get() == (None, "")


def test_whoever_waits_is_told_of_both(now):
    instance = RunnerInstanceFactory(runner__runner_id="r1")
    heard: list[Signal] = []
    end = subscribe(heard.append)
    try:
        drain_runner("r1", now, SYSTEM)
        resume_runner("r1", now, SYSTEM)
    finally:
        end()
    assert heard == [Signal(holders=frozenset({instance.pk}))] * 2


def test_a_runner_that_is_not_there_or_is_anothers_is_none(now):
    RunnerInstanceFactory(runner__runner_id="r1", runner__client__tenant="acme")
    for act in (drain_runner, resume_runner):
        assert act(f"r{uuid4()}", now, SYSTEM) is None
        assert act("r1", now, SYSTEM, tenant="other") is None
    assert not Runner.objects.get().drained_at
