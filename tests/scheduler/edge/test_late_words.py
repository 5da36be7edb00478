"""Leases told as stories: what a runner says of a run counts while it holds it, and never afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError

from croniq_site.kernel import clock as clock_module
from croniq_site.kernel.clock import DatabaseClock, ManualClock
from runners.models import AuditEvent
from scheduler.models import Attempt, QueueEntry, Run, RunLog
from scheduler.services import finish as finish_module
from scheduler.services.release import reap_leases
from scheduler.sql import backend
from scheduler.workers import reaper
from tests.factories import JobFactory, LaneFactory
from tests.scheduler.conformance.snapshots import everything
from tests.scheduler.edge.helpers import FakeRunner, database_now, due_run, run_due_in, state_of
from tests.support.races import together
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)


def late_words() -> list[str]:
    events = AuditEvent.objects.filter(action="run.late_word").order_by("pk")
    return [event.diff["word"] for event in events]


def without_audit() -> dict[str, list[dict]]:
    rows = everything()
    del rows["AuditEvent"], rows["Tally"]
    return rows


@pytest.mark.parametrize("shared_key", [True, False], ids=["one client", "two clients"])
def test_the_words_of_an_owner_frozen_past_its_lease_count_for_nothing(now, shared_key):
    entry = due_run()
    clock = ManualClock(now)
    with live_edge(clock=clock) as server:
        key = server.key("admin")
        frozen = FakeRunner(server, key, "frozen")
        other = FakeRunner(server, key if shared_key else server.key(), "other")
        assert [work["attempt"] for work in frozen.work()] == [1]
        assert reap_leases(clock.tick(timedelta(hours=1))).lost == 1
        assert [work["attempt"] for work in other.work()] == [2]
        before = without_audit()
        answers = [frozen.renew(entry.run_id), frozen.renew(entry.run_id, attempt=1)]
        # As the SDK does, which names the runner in each line: it tells two runners of one client apart.
        lines = [{"message": f"line {n}", "fields": {"runner_id": "frozen"}} for n in range(3)]
        answers += [frozen.say(entry.run_id, line) for line in lines]
        answers += [frozen.ack(entry.run_id, status, attempt=1) for status in ("success", "failure")]
        assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [(409, "stale_claim")] * 7
        assert without_audit() == before
        assert (state_of(entry.run_id), QueueEntry.objects.get().holder.runner.runner_id) == (3, "other")
        assert late_words() == ["renew", "renew", "events", "events", "events", "ack", "ack"]
        assert other.say(entry.run_id, {"message": "mine"}).status_code == 200
        assert other.ack(entry.run_id, attempt=2).status_code == 200
        shown = server.get(f"/v1/executions/{entry.run_id}", key=key).json()
        assert (shown["state"], shown["runner_id"], shown["attempt"], shown["error"]) == ("completed", "other", 2, None)
        lines = server.get(f"/v1/executions/{entry.run_id}/logs", key=key).json()
        assert [line["message"] for line in lines] == ["mine"]


def test_a_late_word_says_who_said_what(now):
    entry = due_run(job__tenant="acme", job__job_key="acme:job")
    clock = ManualClock(now)
    with live_edge(clock=clock) as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        reap_leases(clock.tick(timedelta(hours=1)))
        runner.ack(entry.run_id, "failure")
    event = AuditEvent.objects.get(action="run.late_word")
    assert (event.actor_type, event.actor_id, event.tenant, event.target_id) == (
        "runner",
        "r1",
        "acme",
        str(entry.run_id),
    )
    assert event.diff == {"word": "ack", "job_key": "acme:job", "attempt": 1, "said": "failure"}


def test_an_ack_whose_answer_was_lost_is_repeated_at_will_and_counts_once():
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        answers = [runner.ack(entry.run_id), runner.ack(entry.run_id)]
        answers += together([lambda: runner.ack(entry.run_id)] * 2)
        assert [answer.status_code for answer in answers] == [200] * 4
        assert len({answer.text for answer in answers}) == 1
        ended_at = Run.objects.get().finished_at
        wrong = runner.ack(entry.run_id, "failure")
        assert (wrong.status_code, wrong.json()["error"]) == (409, "stale_claim")
        run = Run.objects.get()
        assert (run.verdict, run.attempt, run.finished_at) == ("completed", 1, ended_at)
        assert not Attempt.objects.exists()


def test_of_two_first_acks_at_one_moment_both_are_accepted_and_one_counts():
    entry = due_run(job__max_retries=3)
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        answers = together([lambda: runner.ack(entry.run_id, "failure")] * 2)
        assert [answer.status_code for answer in answers] == [200, 200]
        assert Attempt.objects.count() == 1
        assert state_of(entry.run_id) == QueueEntry.State.READY


@pytest.mark.parametrize("status", ["success", "failure"])
@pytest.mark.parametrize("is_written", [True, False], ids=["after it was written", "before it was written"])
def test_an_ack_that_the_database_failed_is_5xx_and_may_be_repeated(monkeypatch, status, is_written, database):
    entry = due_run()
    fails = [True]

    def broken(work):
        def call(*arguments):
            answer = work(*arguments) if is_written else None
            if fails:
                fails.clear()
                raise OperationalError("the connection is gone")
            return work(*arguments) if answer is None else answer

        return call

    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        if status == "success":
            monkeypatch.setattr(backend(), "complete", broken(backend().complete))
        else:
            monkeypatch.setattr(finish_module, "_fail", broken(finish_module._fail))
        before = everything()
        answer = runner.ack(entry.run_id, status)
        assert 500 <= answer.status_code < 600
        if database == "postgresql" and status == "success" and is_written:
            # There the one statement is the whole transaction: it was not undone, only its answer was lost.
            assert Run.objects.get().verdict == "completed"
        else:
            assert everything() == before
        assert runner.ack(entry.run_id, status).status_code == 200
        assert runner.ack(entry.run_id, status).status_code == 200
    assert Attempt.objects.count() == (0 if status == "success" else 1)
    assert Run.objects.get().verdict == ("completed" if status == "success" else None)


def test_an_ack_between_release_and_the_next_claim_is_refused_and_the_run_handed_out(now):
    entry = due_run()
    clock = ManualClock(now)
    with live_edge(clock=clock) as server:
        slow, next_one = FakeRunner(server, server.key()), FakeRunner(server, server.key(), "r2")
        slow.work()
        reap_leases(clock.tick(timedelta(hours=1)))
        for status in ("success", "failure"):
            answer = slow.ack(entry.run_id, status)
            assert (answer.status_code, answer.json()["error"]) == (409, "stale_claim")
        assert slow.renew(entry.run_id).status_code == 409
        assert [work["attempt"] for work in next_one.work()] == [2]


def test_renewing_one_run_does_not_keep_another(now):
    kept, lost = due_run(), due_run()
    clock = ManualClock(now)
    with live_edge(clock=clock) as server:
        runner = FakeRunner(server, server.key())
        assert len(runner.work()) == 2
        assert runner.renew(kept.run_id).status_code == 200
        clock.tick(50 * SECOND)
        assert runner.renew(kept.run_id).status_code == 200
        assert reap_leases(clock.tick(11 * SECOND)).lost == 1
    assert state_of(kept.run_id) == QueueEntry.State.CLAIMED
    assert state_of(lost.run_id) == QueueEntry.State.READY


def test_the_renew_of_a_deposed_process_keeps_nothing_of_its_successors(now):
    entry = due_run()
    clock = ManualClock(now)
    with live_edge(clock=clock) as server:
        key = server.key()
        old, new = FakeRunner(server, key, instance_id="old"), FakeRunner(server, key, instance_id="new")
        old.work()
        assert [work["attempt"] for work in new.work()] == [2]
        ends_at = QueueEntry.objects.get().lease_expires_at
        clock.tick(50 * SECOND)
        assert old.renew(entry.run_id, attempt=1).status_code == 409
        assert old.renew(entry.run_id).status_code == 200
        assert QueueEntry.objects.get().lease_expires_at == ends_at
        assert reap_leases(clock.tick(10 * SECOND)).lost == 1


@pytest.mark.parametrize("minutes", [10, -10])
def test_a_server_whose_own_clock_is_wrong_decides_by_the_databases(monkeypatch, minutes):
    """On SQLite the host's clock is the database's: then all there is goes by the wrong one, and nothing is wrong."""
    real = clock_module.datetime

    class Skewed(real):
        @classmethod
        def now(cls, tz=None):
            return real.now(tz) + timedelta(minutes=minutes)

    monkeypatch.setattr(clock_module, "datetime", Skewed)
    early = run_due_in(300)
    entry = due_run(available_at=database_now())
    with live_edge(hold_seconds=1.0) as server:
        runner = FakeRunner(server, server.key())
        assert [work["execution_id"] for work in runner.work()] == [str(entry.run_id)]
        assert runner.work(inflight=[str(entry.run_id)]) == []
        row = QueueEntry.objects.get(pk=entry.run_id)
        assert abs((row.claimed_at - DatabaseClock().now()).total_seconds()) < 60
        assert reaper.run_once(DatabaseClock().now()).done["leases"] == 0
        assert runner.renew(entry.run_id).status_code == 200
        assert runner.ack(entry.run_id).status_code == 200
    assert state_of(early.run_id) == QueueEntry.State.READY


def test_a_runner_without_gpu_gets_the_free_run_behind_five_hundred_others(now):
    job = JobFactory(lane=LaneFactory(require=["gpu"]))
    runs = [
        Run(id=f"00000000-0000-7000-8000-{n:012}", job=job, kind="triggered", scheduled_for=now, occurrence_at=now)
        for n in range(500)
    ]
    for run in runs:
        run.created_at = now
    Run.objects.bulk_create(runs)
    rules = {"max_attempts": 4, "max_losses": 2, "lease_seconds": 60, "timeout_seconds": 300}
    QueueEntry.objects.bulk_create(
        QueueEntry(run=run, job=job, lane=job.lane, available_at=now - timedelta(hours=1), **rules) for run in runs
    )
    free = due_run(available_at=now)
    with live_edge() as server:
        plain, gpu = FakeRunner(server, server.key()), FakeRunner(server, server.key(), "r2")
        assert [work["execution_id"] for work in plain.work(max_inflight=10)] == [str(free.run_id)]
        assert len(gpu.work(max_inflight=10, capabilities=["gpu"])) == 10
    assert not RunLog.objects.exists()
