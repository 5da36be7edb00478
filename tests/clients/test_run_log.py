"""What a task logs, on its way into its run's log: nobody waits for himself."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx
import pytest
from croniq_runner import ExecutionContext, RunnerOptions
from croniq_runner._client import CroniqClient
from croniq_runner._options import LogWriterOptions
from croniq_tasks import worker
from croniq_tasks.current import CurrentRun, running

RUN = CurrentRun("some-run", None, 1)
log = logging.getLogger("shop.tasks")


class Lines:
    """Takes the posts of log lines."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.said += [line["message"] for line in httpx.Response(200, content=request.content).json()]
        return httpx.Response(200, json={"accepted": 1})


@pytest.fixture
def handler(monkeypatch) -> Iterator[worker.RunLog]:
    """On the logger of a task, and on that of what sends its lines, as the root's is on both."""
    monkeypatch.setattr(worker, "_LINE_SECONDS", 5)
    of_runs = worker.RunLog()
    for name in ("shop.tasks", "httpx"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.INFO)
        logging.getLogger(name).addHandler(of_runs)
    yield of_runs
    for name in ("shop.tasks", "httpx"):
        logging.getLogger(name).removeHandler(of_runs)


async def run_of(
    handler: worker.RunLog, task: Callable[[], None], lines: Lines, beside: Callable = lambda: None
) -> None:
    """Run ``task`` in a thread as a worker does, and ``beside`` in the loop meanwhile."""
    http = httpx.AsyncClient(base_url="http://localhost", transport=httpx.MockTransport(lines))
    context = ExecutionContext(
        execution_id="some-run", job_key="shop:report", scheduled_for=None, attempt=1, metadata={},
        timeout=timedelta(minutes=5), runner_id="w", runner_tags=[], cancellation=asyncio.Event(),
        client=CroniqClient(RunnerOptions(), http=http), log_writer_options=LogWriterOptions(),
    )  # fmt: skip
    with handler.open_for(context), ThreadPoolExecutor(1) as threads:
        inside = contextvars.copy_context()
        inside.run(running.set, RUN)
        doing = asyncio.get_running_loop().run_in_executor(threads, inside.run, task)
        if beside:
            beside()
        await doing
        await context.log_writer.aclose()
    await http.aclose()


def test_lines_come_in_order_and_what_sends_them_may_log_that_it_does(handler, capsys):
    lines = Lines()

    def task() -> None:
        for number in range(100):
            log.info("line %d", number)

    asyncio.run(run_of(handler, task, lines))
    assert lines.said == [f"line {number}" for number in range(100)]
    assert "Logging error" not in capsys.readouterr().err, "somebody waited in vain"


def test_the_loop_may_log_while_a_task_waits_for_it(handler, capsys):
    lines, in_the_handler = Lines(), threading.Event()

    class Told:
        def __str__(self) -> str:
            in_the_handler.set()
            return "told"

    def beside() -> None:
        assert in_the_handler.wait(60)
        log.warning("of the loop itself")

    asyncio.run(run_of(handler, lambda: log.info(Told()), lines, beside))
    assert lines.said == ["told"]
    assert "Logging error" not in capsys.readouterr().err, "each waited for the other"


def test_a_process_that_a_task_forks_logs_for_itself(handler):
    codes: list[int] = []

    def task() -> None:
        with warnings.catch_warnings(action="ignore"):  # of 3.12: that this process has threads
            child = os.fork()
        if child == 0:
            handler.handleError = lambda record: os._exit(1)
            worker._LINE_SECONDS = 0.1
            log.info("of the child")
            os._exit(0)
        codes.append(os.waitpid(child, 0)[1])

    lines = Lines()
    asyncio.run(run_of(handler, task, lines))
    assert (codes, lines.said) == ([0], [])


def test_a_log_without_end_leaves_its_run_room_for_the_result(handler, monkeypatch):
    monkeypatch.setattr(worker, "MOST_LOG_BYTES", 3 * (500 + worker._LINE_BYTES))
    lines = Lines()

    def task() -> None:
        for number in range(10):
            log.info("%d%s", number, "é" * 249 + "x")

    asyncio.run(run_of(handler, task, lines))
    assert [line[0] for line in lines.said] == ["0", "1", "2", "T"]
    assert lines.said[3] == worker.FULL
