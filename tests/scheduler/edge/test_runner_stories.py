"""Runners that restart, fight over a name, come in thousands: told through the edge, by a clock the test moves."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import OperationalError

from croniq_site.kernel.clock import DatabaseClock, ManualClock
from runners.models import ApiClient, AuditEvent, Runner, RunnerInstance
from scheduler.models import Attempt, QueueEntry, RunLog, Slot
from scheduler.queries.runners import runner_list
from scheduler.services import identity, poll
from tests.factories import ApiClientFactory
from tests.scheduler.conformance.snapshots import everything
from tests.scheduler.edge.helpers import FakeRunner, due_run
from tests.support.server import LiveEdge, live_edge

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Supervised:
    """A process that is started anew, with a new instance id, when three refusals in a row have ended it, as an SDK's
    runner under a supervisor is."""

    def __init__(self, server: LiveEdge, key: str, name: str) -> None:
        self._server, self._key, self._name = server, key, name
        self.starts, self.refusals = 0, 0
        self.answers: list[tuple[int, str]] = []
        self._start()

    def _start(self) -> None:
        self.starts, self.refusals = self.starts + 1, 0
        self._runner = FakeRunner(self._server, self._key, "shared", f"{self._name}-{self.starts}")

    def poll(self) -> int:
        answer = self._runner.poll(max_inflight=0)
        self.answers.append((answer.status_code, answer.json().get("error", "")))
        self.refusals = self.refusals + 1 if answer.status_code == 409 else 0
        if self.refusals == 3:
            self._start()
        return answer.status_code


def reports() -> int:
    return AuditEvent.objects.filter(action="runner.identity_flapping").count()


def is_flapping(at) -> bool:
    return runner_list(at, limit=1)[0].flapping


def test_two_live_processes_with_one_id_report_it_once_and_it_ends_by_itself(now):
    clock = ManualClock(now)
    with live_edge(clock=clock) as server:
        key = server.key()
        a, b = Supervised(server, key, "a"), Supervised(server, key, "b")
        while clock.now() < now + 3 * MINUTE:
            a.poll()
            b.poll()
            clock.tick(2 * SECOND)
            assert reports() == (1 if Runner.objects.get().takeovers >= 3 else 0)
        assert set(a.answers + b.answers) == {(200, ""), (409, "instance_deposed")}
        takeovers = Runner.objects.get().takeovers
        assert takeovers == a.starts + b.starts - 1
        assert takeovers > 10
        assert is_flapping(clock.now())
        # One of them is stopped: it ends by itself, ten minutes after the third takeover from the end.
        survivor = a if a.poll() == 200 else b
        for _ in range(20):
            assert survivor.poll() == 200
            clock.tick(30 * SECOND)
        assert not is_flapping(clock.now())
        assert reports() == 1
        assert AuditEvent.objects.filter(action="runner.takeover").count() == takeovers


def test_without_anybody_to_restart_it_the_deposed_process_stays_out(now):
    clock = ManualClock(now)
    with live_edge(clock=clock) as server:
        key = server.key()
        first, second = FakeRunner(server, key, instance_id="i1"), FakeRunner(server, key, instance_id="i2")
        assert first.poll(max_inflight=0).status_code == 200
        assert second.poll(max_inflight=0).status_code == 200
        for _ in range(90):
            clock.tick(2 * SECOND)
            assert first.poll(max_inflight=0).status_code == 409
            assert second.poll(max_inflight=0).status_code == 200
        assert Runner.objects.get().takeovers == 1
        assert reports() == 0


def test_five_restarts_a_day_report_nothing(now):
    clock = ManualClock(now)
    with live_edge(clock=clock) as server:
        key = server.key()
        for day in range(3):
            for restart in range(5):
                runner = FakeRunner(server, key, instance_id=f"{day}-{restart}")
                assert runner.poll(max_inflight=0).status_code == 200
                assert not is_flapping(clock.now())
                clock.tick(timedelta(hours=24) / 5)
        assert Runner.objects.get().takeovers == 14
        assert reports() == 0


def test_a_restart_while_holding_a_singleton_has_its_run_again_in_its_first_poll():
    with live_edge(hold_seconds=5.0) as server:
        key = server.key("admin")
        body = {"job_key": "demo:singleton", "max_concurrent": 1, "max_retries": 0}
        assert server.post("/v1/jobs", body, key=key).status_code == 201

        def triggered() -> str:
            return server.post("/v1/trigger", {"job_key": "demo:singleton"}, key=key).json()["execution_id"]

        first = triggered()
        before, after = (FakeRunner(server, key, instance_id=name) for name in ("before", "after"))
        assert [work["execution_id"] for work in before.work()] == [first]
        assert [(work["execution_id"], work["attempt"]) for work in after.work()] == [(first, 2)]
        lost = AuditEvent.objects.get(action="run.lost")
        takeover = AuditEvent.objects.get(action="runner.takeover")
        assert lost.created_at == takeover.created_at
        assert (lost.diff["cause"], takeover.diff["lost"]) == ("takeover", 1)
        assert Slot.objects.get().run_id == UUID(first)
        # One at a time it stays, also after the takeover: the second waits until the first has ended.
        second = triggered()
        assert after.poll(max_inflight=0, inflight=[first]).json()["work"] == []
        assert QueueEntry.objects.get(run_id=second).state == QueueEntry.State.GATED
        assert after.ack(first, attempt=2).status_code == 200
        assert [work["execution_id"] for work in after.work()] == [second]


def test_a_binding_that_cannot_be_read_is_503_without_work(monkeypatch):
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        assert len(runner.work(max_inflight=1)) == 1
        waiting = due_run()
        before = everything(), list(Runner.objects.values()), list(RunnerInstance.objects.values())

        def unreadable(*_, **__):
            raise OperationalError("the connection is gone")

        monkeypatch.setattr(poll, "_current_instances", unreadable)
        monkeypatch.setattr(identity, "owners_of", unreadable)
        for answer in (
            runner.poll(inflight=[str(entry.run_id)]),
            runner.ack(entry.run_id),
            runner.renew(entry.run_id),
            runner.say(entry.run_id, {"message": "m"}),
        ):
            assert answer.status_code == 503
            assert answer.json()["error"] == "unavailable"
        monkeypatch.undo()
        assert before == (everything(), list(Runner.objects.values()), list(RunnerInstance.objects.values()))
        assert not RunLog.objects.exists()
        assert waiting.run_id in {QueueEntry.objects.get(state=QueueEntry.State.READY).run_id}
        assert runner.ack(entry.run_id).status_code == 200


def test_a_foreign_key_changes_nothing_of_my_runner_however_long_it_polls(now):
    clock = ManualClock(now)
    due_run()
    with live_edge(clock=clock) as server:
        mine, foreign = FakeRunner(server, server.key()), FakeRunner(server, server.key("admin"), instance_id="theirs")
        (work,) = mine.work(capabilities=["python"], tags=["a=b"])
        before = [list(model.objects.values()) for model in (Runner, RunnerInstance, QueueEntry, Attempt)]
        for _ in range(10):
            clock.tick(7 * SECOND)
            answer = foreign.poll(inflight=[work["execution_id"]], capabilities=["other"], max_inflight=9)
            assert (answer.status_code, answer.json()["error"]) == (403, "runner_owned")
        assert before == [list(model.objects.values()) for model in (Runner, RunnerInstance, QueueEntry, Attempt)]
        events = AuditEvent.objects.filter(action="runner.identity_rejected", target_id="r1")
        assert events.count() == 10
        owner = Runner.objects.get().client
        assert events.first().actor_id == ApiClient.objects.exclude(pk=owner.pk).get().name


def test_five_thousand_one_day_runners_are_listed_in_pages_that_cost_the_same(django_assert_max_num_queries):
    now = DatabaseClock().now()
    client = ApiClientFactory()
    Runner.objects.bulk_create(
        [
            Runner(
                runner_id=f"ci-{n:05}",
                client=client,
                created_at=now - timedelta(days=1),
                last_poll_at=now - timedelta(seconds=n * 17),
            )
            for n in range(5000)
        ],
        batch_size=500,
    )
    RunnerInstance.objects.bulk_create(
        [
            RunnerInstance(runner=runner, instance_id="i", first_seen_at=now, last_poll_at=now)
            for runner in Runner.objects.all()
        ],
        batch_size=500,
    )
    with live_edge() as server:
        key = server.key("admin")
        assert len(server.get("/v1/runners", key=key).json()) <= 500
        seen, url = [], "/v1/runners?page_size=500"
        while url:
            page = server.get(url, key=key).json()
            assert len(page["results"]) <= 500
            seen += [row["runner_id"] for row in page["results"]]
            url = page["next"]
        assert seen == [f"ci-{n:05}" for n in range(5000)]
        health = server.get("/health").json()
        assert health["runners_online"] + health["runners_stale"] + health["runners_dead"] == 5000
        assert (health["runners_online"], health["runners_stale"]) in {(4, 14), (3, 14), (4, 13), (3, 15)}
    with django_assert_max_num_queries(2):
        assert len(runner_list(now, limit=500)) == 500
