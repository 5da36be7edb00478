"""The public SDK, unmodified, in a thread of the test with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from croniq_runner import Runner, RunnerOptions

from tests.e2e.installation import PATIENCE_SECONDS


class RunningSdk:
    """A `croniq_runner.Runner` at work. ``ended`` is the future of its `run()`."""

    def __init__(self, runner: Runner, loop: asyncio.AbstractEventLoop, task: asyncio.Task, ended: Future) -> None:
        self.runner, self.loop, self.task, self.ended = runner, loop, task, ended

    def cancel(self) -> None:
        """End it as a program does that is told to stop: its `run()` is cancelled and drains."""
        with suppress(RuntimeError):  # it has ended by itself, and its loop with it
            self.loop.call_soon_threadsafe(self.task.cancel)


@contextmanager
def running_sdk(set_up: Callable[[Runner], Any], **options: Any):
    """Run the SDK with the handlers that ``set_up`` adds until the block ends; then drain."""
    ready: Future[RunningSdk] = Future()
    ended: Future[BaseException | None] = Future()

    async def main() -> None:
        runner = Runner(RunnerOptions(**options))
        set_up(runner)
        task = asyncio.create_task(runner.run())
        ready.set_result(RunningSdk(runner, asyncio.get_running_loop(), task, ended))
        try:
            await task
            ended.set_result(None)
        except asyncio.CancelledError:
            ended.set_result(None)
        except Exception as error:
            ended.set_result(error)

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    sdk = ready.result(PATIENCE_SECONDS)
    try:
        yield sdk
    finally:
        sdk.cancel()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the SDK did not end"
