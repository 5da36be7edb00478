"""Polls that find work, wait for it, or are told why not."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from runners.services.audit import SYSTEM
from scheduler.api.work import desk
from scheduler.models import Attempt, QueueEntry, Run
from scheduler.services.cancel import cancel_runs
from scheduler.services.wake import wake
from tests.factories import JobFactory, LaneFactory, RunFactory
from tests.scheduler.edge.helpers import (
    FakeRunner,
    Gate,
    database_now,
    due_run,
    hold_polls,
    result,
    run_due_in,
    state_of,
)
from tests.support.polling import poll_until
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_assignment_has_the_fields_of_the_protocol():
    job = JobFactory(
        job_key="team:report",
        metadata={"region": "eu", "size": 1, "__hidden": "x"},
        action={"type": "command", "argv": ["true"]},
        timeout_seconds=90,
        lease_seconds=30,
    )
    run = RunFactory(job=job, metadata={"size": 2, "__runner_exec": {"type": "command", "argv": ["rm"]}})
    due_run(job=job, run=run)
    with live_edge() as server:
        (work,) = FakeRunner(server, server.key()).work()
    assert work == {
        "execution_id": str(run.pk),
        "job_key": "team:report",
        "fire_at": "2026-03-02T12:00:00.000000Z",
        "scheduled_for": run.scheduled_for.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "attempt": 1,
        "metadata": {"region": "eu", "size": 2, "__runner_exec": {"type": "command", "argv": ["true"]}},
        "timeout": "90s",
        "lease": 30.0,
    }


def test_a_handler_job_has_no_action_and_no_caller_can_give_it_one():
    run = RunFactory(metadata={"__runner_exec": {"type": "command", "argv": ["rm"]}})
    due_run(job=run.job, run=run)
    with live_edge() as server:
        (work,) = FakeRunner(server, server.key()).work()
    assert work["metadata"] == {}


def test_an_edited_action_reaches_the_claims_made_after_it():
    job = JobFactory(action={"type": "command", "argv": ["old"]})
    due_run(job=job)
    with live_edge(hold_seconds=0.1) as server:
        runner = FakeRunner(server, server.key())
        (first,) = runner.work()
        assert first["metadata"]["__runner_exec"]["argv"] == ["old"]
        job.action = {"type": "command", "argv": ["new"]}
        job.save()
        listed, tick = [first["execution_id"]], time.monotonic()
        while time.monotonic() < tick + 1.0:  # the time for which a job's row may be kept
            runner.poll(inflight=listed)
        due_run(job=job)
        (second,) = runner.work(inflight=listed)
        assert second["metadata"]["__runner_exec"]["argv"] == ["new"]


def test_without_free_capacity_the_answer_comes_at_once_and_empty():
    due_run()
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        assert runner.poll(max_inflight=0).json() == {"work": [], "cancel": []}
        assert QueueEntry.objects.get().state == QueueEntry.State.READY


def test_no_more_assignments_than_free_capacity():
    for _ in range(5):
        due_run()
    with live_edge(hold_seconds=0.2) as server:
        runner = FakeRunner(server, server.key())
        mine = runner.work(max_inflight=3, inflight=["some-other"])
        assert len(mine) == 2
        rest = runner.work(max_inflight=10, inflight=[work["execution_id"] for work in mine])
        assert len(rest) == 3


def test_a_poll_without_work_is_held_and_then_answered_empty():
    with live_edge(hold_seconds=0.4) as server:
        began = time.monotonic()
        answer = FakeRunner(server, server.key()).poll()
        assert answer.json() == {"work": [], "cancel": []}
        assert time.monotonic() - began >= 0.4


def test_a_poll_whose_time_is_up_before_it_was_asked_for_is_asked_for_all_the_same():
    entry = due_run()
    with live_edge(hold_seconds=0) as server:
        runner = FakeRunner(server, server.key())
        assert [work["execution_id"] for work in runner.work()] == [str(entry.run_id)]
        assert runner.work(inflight=[str(entry.run_id)]) == []


def test_work_that_falls_due_ends_the_wait_without_any_signal():
    entry = run_due_in(0.6)
    with live_edge(hold_seconds=30) as server:
        (work,) = FakeRunner(server, server.key()).work()
        assert work["execution_id"] == str(entry.run_id)
        claimed_at = QueueEntry.objects.get().claimed_at
        assert entry.available_at <= claimed_at < entry.available_at + timedelta(seconds=5)


def test_a_signal_ends_the_wait():
    lane = LaneFactory()
    with live_edge(hold_seconds=30) as server:
        held = FakeRunner(server, server.key()).hold()
        entry = due_run()
        wake([lane.pk])
        assert [work["execution_id"] for work in result(held).json()["work"]] == [str(entry.run_id)]


def test_a_lane_that_did_not_exist_when_the_poll_came_serves_it():
    with live_edge(hold_seconds=30) as server:
        held = FakeRunner(server, server.key()).hold(capabilities=["gpu"])
        lane = LaneFactory(require=["gpu"])
        entry = due_run(job=JobFactory(lane=lane))
        wake([lane.pk])
        assert [work["execution_id"] for work in result(held).json()["work"]] == [str(entry.run_id)]


def test_a_run_goes_only_to_a_runner_with_its_capabilities():
    due_run(job=JobFactory(lane=LaneFactory(require=["gpu", "linux"])))
    with live_edge(hold_seconds=0.2) as server:
        key = server.key()
        assert FakeRunner(server, key, "without").work(capabilities=["linux"]) == []
        assert len(FakeRunner(server, key, "with").work(capabilities=["linux", "gpu", "other"])) == 1


def test_a_pinned_run_goes_only_to_its_runner_whatever_others_claim_to_be():
    due_run(job=JobFactory(lane=LaneFactory(require=["runner:chosen"])))
    with live_edge(hold_seconds=0.2) as server:
        key = server.key()
        assert FakeRunner(server, key, "liar").work(capabilities=["runner:chosen"]) == []
        assert len(FakeRunner(server, key, "chosen").work()) == 1


def test_a_client_with_a_tenant_claims_only_its_tenants_runs():
    lane = LaneFactory(tenant="blue")
    due_run(job=JobFactory(lane=lane, tenant="blue"))
    with live_edge(hold_seconds=0.2) as server:
        assert FakeRunner(server, server.key(tenant="red"), "red").work() == []
        assert len(FakeRunner(server, server.key(tenant="blue"), "blue").work()) == 1
        due_run(job=JobFactory(lane=lane, tenant="blue"))
        assert len(FakeRunner(server, server.key(), "shared").work()) == 1


def test_the_higher_priority_goes_first():
    low, high = LaneFactory(priority=0), LaneFactory(priority=5)
    due_run(job=JobFactory(lane=low))
    urgent = due_run(job=JobFactory(lane=high))
    with live_edge() as server:
        (work,) = FakeRunner(server, server.key()).work(max_inflight=1)
        assert work["execution_id"] == str(urgent.run_id)


def test_the_leases_of_listed_runs_are_renewed():
    entry = due_run()
    with live_edge(hold_seconds=0.1) as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        QueueEntry.objects.update(lease_expires_at=database_now() + timedelta(seconds=3))
        assert runner.poll(inflight=[str(entry.run_id)]).json() == {"work": [], "cancel": []}
        assert QueueEntry.objects.get().lease_expires_at > database_now() + timedelta(seconds=50)


# Listed runs


def test_a_listed_run_that_is_due_empties_the_answer_but_not_before_the_ack_can_have_been_heard():
    entry = due_run()
    other = run_due_in(3600)
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        # Told once, so that the cancel of what it does not hold is no news when it counts.
        assert runner.poll(inflight=[str(entry.run_id)], max_inflight=1).json()["cancel"] == [str(entry.run_id)]
        began = time.monotonic()
        answer = runner.poll(inflight=[str(entry.run_id)], max_inflight=5)
        assert answer.json()["work"] == []
        assert time.monotonic() - began >= 0.1
        assert state_of(entry.run_id) is QueueEntry.State.READY
        assert [work["execution_id"] for work in runner.work()] == [str(entry.run_id)]
        assert state_of(other.run_id) is QueueEntry.State.READY


def test_a_listed_run_that_becomes_due_while_the_poll_is_held_ends_it_empty():
    entry = due_run()
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        held = runner.hold(inflight=[str(entry.run_id)])
        assert runner.ack(entry.run_id, "failure").status_code == 200
        retried = QueueEntry.objects.get()
        assert retried.state == QueueEntry.State.READY
        QueueEntry.objects.update(available_at=database_now() + timedelta(seconds=0.3))
        wake([entry.lane_id])
        assert result(held).json()["work"] == []
        (again,) = runner.work()
        assert (again["execution_id"], again["attempt"]) == (str(entry.run_id), 2)


def test_a_run_that_one_runner_lists_goes_to_another_that_does_not():
    entry = due_run()
    with live_edge(hold_seconds=30) as server:
        first = FakeRunner(server, server.key(), "first")
        first.poll(inflight=[str(entry.run_id)], max_inflight=1)
        second = FakeRunner(server, server.key(), "second")
        assert [work["execution_id"] for work in second.work()] == [str(entry.run_id)]


# Cancels


def test_what_is_listed_and_not_held_is_cancelled_whatever_it_is():
    finished = RunFactory(completed=True)
    with live_edge(hold_seconds=30) as server:
        listed = [str(finished.pk), "0197a000-0000-7000-8000-000000000000", "no-uuid", str(finished.pk).upper()]
        answer = FakeRunner(server, server.key()).poll(inflight=listed[:3])
        assert answer.status_code == 200
        assert sorted(answer.json()["cancel"]) == sorted(listed[:3])
        # The answer names a run as the runner named it.
        answer = FakeRunner(server, server.key(), "other").poll(inflight=listed[3:])
        assert answer.json()["cancel"] == listed[3:]


def test_a_new_cancel_ends_a_held_poll_once():
    entry = due_run()
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        listed = [str(entry.run_id)]
        held = runner.hold(inflight=listed)
        cancel_runs([entry.run_id], database_now(), SYSTEM)
        assert result(held).json() == {"work": [], "cancel": listed}
        hold_polls(server, 1.6)
        # Not acked yet and still listed: the next poll is held to its end, and there the cancel rides along again.
        began = time.monotonic()
        assert runner.poll(inflight=listed).json() == {"work": [], "cancel": listed}
        assert time.monotonic() - began >= 1.5


def test_a_known_cancel_rides_along_at_most_once_a_second():
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        unknown = ["0197a000-0000-7000-8000-000000000001"]
        began = time.monotonic()
        answers = []
        while time.monotonic() < began + 1.5:
            answers.append(runner.poll(inflight=unknown, max_inflight=1).json()["cancel"])
        assert answers[0] == unknown
        assert answers.count(unknown) == 2
        assert answers.count([]) == len(answers) - 2


def test_a_cancel_comes_with_the_work_that_is_there():
    due_run()
    with live_edge() as server:
        answer = FakeRunner(server, server.key()).poll(inflight=["gone"]).json()
        assert answer["cancel"] == ["gone"]
        assert len(answer["work"]) == 1


def test_the_cancel_of_a_run_that_was_claimed_anew_is_news_again():
    entry = due_run()
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        listed = [str(entry.run_id)]
        QueueEntry.objects.update(
            state=QueueEntry.State.READY,
            holder=None,
            claimed_at=None,
            lease_expires_at=None,
            deadline_at=None,
        )
        assert runner.poll(inflight=listed, max_inflight=1).json()["cancel"] == listed
        runner.work()
        assert runner.poll(inflight=listed, max_inflight=1).json()["cancel"] == []  # held again
        held = runner.hold(inflight=listed)
        cancel_runs([entry.run_id], database_now(), SYSTEM)
        assert result(held).json()["cancel"] == listed


@pytest.mark.parametrize(
    ("status", "max_retries"), [("success", 3), ("failure", 3), ("failure", 0)], ids=["success", "retry", "last"]
)
def test_the_runners_own_ack_does_not_end_its_held_poll(status, max_retries, monkeypatch):
    gate = Gate(desk._look)
    gate.open.set()
    monkeypatch.setattr(desk, "_look", gate.after)
    job = JobFactory(max_retries=max_retries, max_losses=0, retry_base_seconds=600)
    entry, other = due_run(job=job), due_run(job=job)
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        assert len(runner.work()) == 2
        held = runner.hold(inflight=[str(entry.run_id), str(other.run_id)], max_inflight=3)
        assert runner.ack(entry.run_id, status).status_code == 200
        gate.finished.clear()
        wake(None)
        assert gate.finished.wait(10)
        # Had the ack ended it, its answer would not know of what comes now.
        cancel_runs([other.run_id], database_now(), SYSTEM)
        assert result(held).json() == {"work": [], "cancel": [str(other.run_id)]}


def test_a_run_acked_while_a_poll_that_lists_it_is_held_is_not_cancelled_by_its_answer(monkeypatch):
    gate = Gate(desk._look)
    gate.open.set()
    monkeypatch.setattr(desk, "_look", gate.after)
    job = JobFactory(max_retries=0)
    entry = due_run(job=job)
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        held = runner.hold(inflight=[str(entry.run_id)], max_inflight=2)
        runner.ack(entry.run_id, "failure")
        gate.finished.clear()
        wake(None)
        assert gate.finished.wait(10)
        another = due_run(job=job)
        wake(None)
        answer = result(held).json()
        assert [work["execution_id"] for work in answer["work"]] == [str(another.run_id)]
        assert answer["cancel"] == []
        # A runner that lists it long after that has not heard of it.
        listed = [str(entry.run_id), str(another.run_id)]
        poll_until(
            lambda: runner.poll(inflight=listed, max_inflight=1).json()["cancel"] == listed[:1], what="it is told"
        )


def test_a_look_that_is_older_than_the_ack_does_not_make_it_a_cancel(monkeypatch):
    """The look reads the run as held, then the ack is accepted, then the look is judged, then another one comes."""
    entry, other = due_run(job=JobFactory(max_retries=0)), due_run()
    gate = Gate(desk._look)
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        assert len(runner.work()) == 2
        held = runner.hold(inflight=[str(entry.run_id), str(other.run_id)])
        monkeypatch.setattr(desk, "_look", gate.after)
        wake(None)
        assert gate.finished.wait(10)
        assert runner.ack(entry.run_id, "failure").status_code == 200
        gate.open.set()
        cancel_runs([other.run_id], database_now(), SYSTEM)
        assert result(held).json() == {"work": [], "cancel": [str(other.run_id)]}


def test_the_cancel_of_a_run_claimed_anew_after_its_own_ack_is_news():
    entry = due_run(job=JobFactory(max_retries=3))
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        runner.ack(entry.run_id, "failure")
        QueueEntry.objects.update(available_at=database_now())
        (again,) = runner.work()
        assert again["attempt"] == 2
        assert runner.ack(entry.run_id, "success", attempt=1).status_code == 409
        held = runner.hold(inflight=[str(entry.run_id)])
        cancel_runs([entry.run_id], database_now(), SYSTEM)
        assert result(held).json()["cancel"] == [str(entry.run_id)]


def test_a_timed_out_or_cancelled_run_that_is_no_longer_listed_is_waited_for_no_more():
    entry = due_run()
    with live_edge(hold_seconds=0.1) as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        cancel_runs([entry.run_id], database_now(), SYSTEM)
        assert state_of(entry.run_id) is QueueEntry.State.STOPPING
        runner.poll(inflight=[str(entry.run_id)])
        assert state_of(entry.run_id) is QueueEntry.State.STOPPING
        runner.poll()
        assert state_of(entry.run_id) is None


# Lost answers


def test_an_answer_that_was_lost_is_given_again_as_a_new_attempt():
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        assert runner.work()[0]["attempt"] == 1
        (again,) = runner.work()
        assert (again["execution_id"], again["attempt"]) == (str(entry.run_id), 2)
        lost = Attempt.objects.get()
        assert (lost.attempt, lost.outcome, lost.cause) == (1, "lost", "lost_answer")


def test_a_lost_answer_whose_attempts_are_used_up_is_buried_and_not_started():
    entry = due_run(job=JobFactory(max_retries=0, max_losses=0))
    with live_edge(hold_seconds=0.2) as server:
        runner = FakeRunner(server, server.key())
        assert len(runner.work()) == 1
        assert runner.work() == []
        assert state_of(entry.run_id) is None
        assert Run.objects.get().verdict == Run.Verdict.DEAD


def test_an_anonymous_instance_has_no_lost_answers():
    entry = due_run()
    with live_edge(hold_seconds=0.2) as server:
        runner = FakeRunner(server, server.key(), instance_id=None)
        assert len(runner.work()) == 1
        assert runner.work() == []
        assert QueueEntry.objects.get(run_id=entry.run_id).attempt == 1
