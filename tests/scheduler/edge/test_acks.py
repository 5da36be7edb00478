"""Acks, renewals and events over HTTP."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from croniq_site.kernel.text import CUT_MARK
from runners.services.audit import SYSTEM
from scheduler.api.work import ack
from scheduler.models import Attempt, QueueEntry, Run, RunLog
from scheduler.services.cancel import cancel_runs
from tests.factories import JobFactory, RunFactory
from tests.scheduler.edge.helpers import FakeRunner, database_now, due_run, state_of
from tests.support.polling import poll_until
from tests.support.races import in_thread
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)

NOBODYS = "0197a000-0000-7000-8000-000000000001"


def test_acks_are_answered_as_the_protocol_says():
    first, second, third = due_run(), due_run(), due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        assert len(runner.work()) == 3
        assert runner.ack(first.run_id, duration_ms=12).json() == {"status": "ok"}
        assert Run.objects.get(pk=first.run_id).duration_ms == 12
        assert runner.ack(first.run_id).status_code == 200  # the same again
        for refused in (
            runner.ack(first.run_id, "failure"),
            runner.ack(first.run_id, attempt=2),
            runner.ack(second.run_id, attempt=2),
            FakeRunner(server, runner.key, "r2").ack(second.run_id),
        ):
            assert (refused.status_code, refused.json()["error"]) == (409, "stale_claim")
        assert state_of(second.run_id) is QueueEntry.State.CLAIMED
        unknown = runner.ack(NOBODYS)
        assert (unknown.status_code, unknown.json()["error"]) == (404, "not_found")
        malformed = runner.ack("no-uuid")
        assert (malformed.status_code, list(malformed.json()["fields"])) == (400, ["execution_id"])
        cancel_runs([third.run_id], database_now(), SYSTEM)
        assert runner.ack(third.run_id, "failure", error="cancelled by server").status_code == 200
        assert state_of(third.run_id) is None
        assert Run.objects.get(pk=third.run_id).verdict == Run.Verdict.CANCELLED


def test_a_failure_with_any_error_is_kept_and_retried():
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        raw = (
            f'{{"runner_id": "r1", "execution_id": "{entry.run_id}", "status": "failure", "attempt": 1,'
            '"error": "a\\u0000b\\ud800c"}'
        )
        assert server.post("/v1/work/ack", content=raw.encode(), key=runner.key).status_code == 200
        assert Attempt.objects.get().error == "a\ufffdb\ufffdc"
        assert QueueEntry.objects.get().available_at > database_now()
        assert runner.ack(entry.run_id, "failure").status_code == 200  # the same again, after the requeue


def test_acks_that_wait_together_are_one_call(monkeypatch):
    entries = [due_run() for _ in range(6)]
    calls, is_open, entered = [], threading.Event(), threading.Event()

    def gated(acks, now, original=ack.finish):
        calls.append(len(acks))
        entered.set()
        assert is_open.wait(15)
        return original(acks, now)

    with live_edge() as server:
        server.application.edge.acks._finishes._free = 1
        runner = FakeRunner(server, server.key())
        runner.work(max_inflight=6)
        monkeypatch.setattr(ack, "finish", gated)
        first = in_thread(runner.ack, entries[0].run_id)
        assert entered.wait(15)
        rest = [in_thread(runner.ack, entry.run_id) for entry in entries[1:]]
        stale = in_thread(runner.ack, NOBODYS)
        poll_until(lambda: len(server.application.edge.acks._finishes._waiting) == 6, what="the others wait")
        is_open.set()
        assert first.result(15).status_code == 200
        assert [answer.result(15).status_code for answer in rest] == [200] * 5
        assert stale.result(15).status_code == 404
        assert calls == [1, 6]


def test_a_lease_is_renewed_by_whoever_has_the_run():
    entry = due_run(job=JobFactory(lease_seconds=60))
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        QueueEntry.objects.update(lease_expires_at=database_now() + timedelta(seconds=5))
        answer = runner.renew(entry.run_id)
        assert answer.status_code == 200
        expires_at = QueueEntry.objects.get().lease_expires_at
        assert answer.json() == {"lease_expires_at": expires_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        assert expires_at > database_now() + timedelta(seconds=50)
        assert runner.renew(entry.run_id, attempt=1).status_code == 200
        assert runner.renew(entry.run_id, attempt=2).status_code == 409
        assert FakeRunner(server, runner.key, "r2").renew(entry.run_id).status_code == 409
        assert runner.renew(NOBODYS).status_code == 404
        assert runner.renew("no-uuid").status_code == 400


def test_lines_are_kept_in_their_order():
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        for post in range(3):
            lines = [{"message": f"{post}-{n}", "level": "warn", "fields": {"runner_id": "r1"}} for n in range(50)]
            answer = runner.say(entry.run_id, *lines)
            assert (answer.status_code, answer.json()) == (200, {"accepted": 50})
        kept = RunLog.objects.order_by("id")
        assert [line.message for line in kept] == [f"{post}-{n}" for post in range(3) for n in range(50)]
        assert kept[0].level == "warn"
        assert kept[0].fields == {"runner_id": "r1"}


def test_lines_of_any_content_are_kept_cleaned():
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        raw = (
            b'[{"message": "a\\u0000\\ud800", "fields": {"k\\u0000": "\\udfff", "n": 123456789012345678901234567890}}]'
        )
        assert server.post(f"/v1/work/{entry.run_id}/events", content=raw, key=runner.key).status_code == 200
        line = RunLog.objects.get()
        assert line.message == "a\ufffd\ufffd"
        assert line.fields == {"k\ufffd": "\ufffd", "n": 123456789012345678901234567890}
        assert runner.say(entry.run_id, {"message": "x" * 200_000}).status_code == 200
        assert RunLog.objects.order_by("id").last().message.endswith(CUT_MARK)


def test_lines_are_fenced():
    entry, waiting, finished = due_run(), None, RunFactory(completed=True)
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        waiting = due_run()
        line = {"message": "m"}
        assert runner.say(NOBODYS, line).status_code == 404
        assert runner.say(waiting.run_id, line).status_code == 409
        assert runner.say(finished.pk, line).status_code == 409
        assert runner.say(entry.run_id, {"message": "m", "fields": {"runner_id": "r2"}}).status_code == 409
        assert runner.say(entry.run_id).status_code == 400
        assert not RunLog.objects.exists()
        cancel_runs([entry.run_id], database_now(), SYSTEM)
        assert runner.say(entry.run_id, line).status_code == 200  # winding down
