"""Threads for one event loop. `ThreadPoolExecutor` serves any thread, and pays for it with a lock, a condition and a
second future for every call; here the loop's thread alone says who does what."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Job = tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]


class Threads:
    """At most ``most`` threads, made when they are needed. Who was used last is used next: as few as will do, with
    their connections warm. All but `close` is called in the event loop's thread."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._waiting: deque[Job] = deque()

    def run(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Call in a thread; what waits for one is served in the order in which it came."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        job = future, call, arguments
        if self._idle:
            self._idle.pop().jobs.put(job)
        elif len(self._workers) < self._most:
            worker = _Worker(f"{self._name}_{len(self._workers)}", loop, self._done)
            self._workers.append(worker)
            worker.jobs.put(job)
        else:
            self._waiting.append(job)
        return future

    def _done(self, worker: _Worker, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        if self._waiting:
            worker.jobs.put(self._waiting.popleft())
        else:
            self._idle.append(worker)
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def close(self) -> None:
        """Drop what waits, finish what runs. Blocks; in another thread than the loop's."""
        while self._waiting:
            future, _, _ = self._waiting.popleft()
            future.get_loop().call_soon_threadsafe(future.cancel)
        for worker in self._workers:
            worker.jobs.put(None)
        for worker in self._workers:
            worker.thread.join()


class _Worker:
    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, done: Callable[..., None]) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._loop, self._done = loop, done
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            future, call, arguments = job
            value, error = None, None
            try:
                value = call(*arguments)
            except BaseException as failure:
                error = failure
            try:
                self._loop.call_soon_threadsafe(self._done, self, future, value, error)
            except RuntimeError:
                return  # the loop has ended: nobody waits
            del job, future, call, arguments, value, error  # an idle thread keeps nothing alive
