"""Those who ask for runs, through the edge and by the unmodified SDK; fairness and maintenance as runners see them."""

from __future__ import annotations

import asyncio

import pytest
from croniq_runner import TriggerClient, TriggerClientOptions

from runners.services.audit import Actor
from scheduler.models import QueueEntry, Run
from scheduler.services.maintenance import begin_maintenance, end_maintenance
from tests.factories import JobFactory, LaneFactory
from tests.scheduler.edge.helpers import FakeRunner, database_now, due_run
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)

ALICE = Actor("user", "alice")


def job_of(tenant: str, **more):
    return JobFactory(tenant=tenant, lane=LaneFactory(tenant=tenant), **more)


def test_twenty_equal_triggers_of_the_sdk_at_once_are_one_execution():
    JobFactory(job_key="test:once")

    async def story(server, key):
        options = TriggerClientOptions(server_url=server.base_url, api_key=key)
        async with TriggerClient(options) as client:
            return await asyncio.gather(*(client.trigger("test:once", idempotency_key="k") for _ in range(20)))

    with live_edge() as server:
        answers = asyncio.run(story(server, server.key("jobs:trigger")))
    (run,) = Run.objects.all()
    assert {answer.execution_id for answer in answers} == {str(run.pk)}
    assert sorted(answer.deduplicated for answer in answers) == [False] + [True] * 19
    assert {answer.queued for answer in answers} == {1}


def test_a_full_queue_is_429_with_retry_after_and_keeps_no_key():
    job = JobFactory(job_key="test:full", max_queue_depth=2)

    async def ask(server, key, count):
        options = TriggerClientOptions(server_url=server.base_url, api_key=key)
        async with TriggerClient(options) as client:
            wanted = (client.trigger("test:full", idempotency_key=f"k{n}") for n in range(count))
            return await asyncio.gather(*wanted, return_exceptions=True)

    with live_edge() as server:
        answers = asyncio.run(ask(server, server.key("jobs:trigger"), 6))
        taken = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert len(taken) == QueueEntry.objects.filter(job=job).count() == 2
        assert all("429" in str(answer) for answer in answers if isinstance(answer, BaseException))
        body = {"job_key": "test:full", "idempotency_key": "another"}
        refused = server.post("/v1/trigger", body, key=server.key("jobs:trigger"))
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert {"execution_id": "", "queued": 0, "deduplicated": False}.items() <= refused.json().items()
        QueueEntry.objects.all().delete()
        accepted = server.post("/v1/trigger", body, key=server.key("jobs:trigger"))
        assert accepted.json()["deduplicated"] is False


def test_a_runner_of_all_tenants_gets_b_within_two_polls_whatever_a_has_queued():
    busy, quiet = job_of("a", job_key="a:busy"), job_of("b", job_key="b:quiet")
    for _ in range(60):
        due_run(job=busy)
    with live_edge() as server:
        key = server.key()

        def poll(number: int, most: int = 1) -> list[str]:
            return [one["job_key"] for one in FakeRunner(server, key, f"r{number}").work(max_inflight=most)]

        assert [poll(n) for n in range(3)] == [["a:busy"]] * 3
        for _ in range(2):
            due_run(job=quiet)
        served = [poll(n)[0] for n in range(3, 7)]
        assert served == ["b:quiet", "a:busy"] * 2
        # Whoever asks for many gets them in the same shares.
        for _ in range(2):
            due_run(job=quiet)
        assert sorted(poll(7, most=4)) == ["a:busy"] * 2 + ["b:quiet"] * 2


def test_a_runner_of_one_tenant_gets_only_its_runs():
    for tenant in ("a", "b"):
        due_run(job=job_of(tenant, job_key=f"{tenant}:job"))
    with live_edge(hold_seconds=0.3) as server:
        runner = FakeRunner(server, server.key(tenant="b"))
        assert [one["job_key"] for one in runner.work(max_inflight=5)] == ["b:job"]
    assert list(QueueEntry.objects.filter(state=QueueEntry.State.READY).values_list("job__job_key", flat=True)) == [
        "a:job"
    ]


def test_while_maintenance_is_on_polls_get_nothing_and_after_it_what_waits():
    begin_maintenance(database_now(), ALICE, reason="new disks")
    entry = due_run(run__kind="triggered")
    with live_edge(hold_seconds=0.3) as server:
        runner = FakeRunner(server, server.key())
        assert runner.work() == []
        assert end_maintenance(database_now(), ALICE)
        (work,) = runner.work()
    assert work["execution_id"] == str(entry.run_id)
