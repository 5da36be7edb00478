"""The unmodified public SDK against the edge."""

from __future__ import annotations

import asyncio

import pytest
from croniq_runner import HandlerError, Runner, RunnerOptions

from runners.services.audit import SYSTEM
from scheduler.models import Attempt, QueueEntry, Run, RunLog
from scheduler.services.cancel import cancel_runs
from scheduler.services.wake import wake
from tests.factories import JobFactory
from tests.scheduler.edge.helpers import database_now, due_run
from tests.support.polling import poll_until
from tests.support.races import in_thread
from tests.support.server import LiveEdge, live_edge

pytestmark = pytest.mark.django_db(transaction=True)


def sdk_runner(server: LiveEdge, **options) -> Runner:
    return Runner(RunnerOptions(server_url=server.base_url, runner_id="sdk", api_key=server.key(), **options))


def run_until(runner: Runner, condition, what: str) -> None:
    """Run the SDK's loop until `condition` holds, then let it drain."""

    async def story():
        running = asyncio.create_task(runner.run())
        try:
            await asyncio.to_thread(lambda: in_thread(poll_until, condition, 20, what=what).result(30))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())


def test_it_runs_jobs_and_its_lines_arrive_complete_and_in_order():
    runs = [due_run(job=JobFactory(job_key="test:chatty")) for _ in range(1)]

    async def chatty(context):
        for n in range(150):
            await context.log_writer.write(f"line {n}")

    with live_edge(hold_seconds=2) as server:
        runner = sdk_runner(server)
        runner.add_handler("test:chatty", chatty)
        run_until(runner, lambda: Run.objects.filter(verdict="completed").count() == len(runs), "the run is completed")
    assert [line.message for line in RunLog.objects.order_by("id")] == [f"line {n}" for n in range(150)]
    assert Run.objects.get().attempt == 1


def test_its_failures_are_retried_until_the_run_is_dead(caplog):
    due_run(job=JobFactory(job_key="test:broken", max_retries=1, retry_base_seconds=0.05, retry_jitter=0))

    async def broken(context):
        raise HandlerError("no")

    with live_edge(hold_seconds=5) as server:
        runner = sdk_runner(server, max_inflight=3)  # it polls while it works: that poll lists the run to its end
        runner.add_handler("test:broken", broken)
        with caplog.at_level("INFO"):
            run_until(runner, lambda: Run.objects.filter(verdict="dead").exists(), "the run is dead")
    assert "cancellation" not in caplog.text  # nobody cancelled anything
    assert (Run.objects.get().attempt, Run.objects.get().error) == (2, "no")
    assert Attempt.objects.get().outcome == "failed"


@pytest.mark.parametrize("max_inflight", [1, 3])
def test_a_cancel_reaches_its_handler(max_inflight):
    entry = due_run(job=JobFactory(job_key="test:slow"))
    cancelled = []

    def cancel():
        cancel_runs([entry.run_id], database_now(), SYSTEM)

    async def slow(context):
        try:
            await asyncio.to_thread(lambda: in_thread(cancel).result(10))  # while it runs
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with live_edge(hold_seconds=5) as server:
        runner = sdk_runner(server, max_inflight=max_inflight)
        runner.add_handler("test:slow", slow)
        run_until(runner, lambda: not QueueEntry.objects.exists(), "the handler has wound down")
    assert cancelled == [True]
    assert Run.objects.get().verdict == Run.Verdict.CANCELLED


def test_work_that_comes_while_it_waits_is_started():
    job = JobFactory(job_key="test:later")

    async def later(context):
        return None

    with live_edge(hold_seconds=30) as server:
        runner = sdk_runner(server)
        runner.add_handler("test:later", later)

        def is_done():
            if server.application.edge.desk.waiting and not Run.objects.exists():
                due_run(job=job)
                wake([job.lane_id])
            return Run.objects.filter(verdict="completed").exists()

        run_until(runner, is_done, "the run is completed")
