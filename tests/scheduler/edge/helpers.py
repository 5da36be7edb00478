"""Runners as the tests of the edge play them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
from django.db import connection

from croniq_site.kernel.clock import DatabaseClock
from scheduler.models import QueueEntry
from tests.factories import QueueEntryFactory
from tests.support.polling import poll_until
from tests.support.server import LiveEdge

DEADLINE_SECONDS = 15


class FakeRunner:
    """One runner process: it lists what it is told to list, and nothing else."""

    def __init__(self, server: LiveEdge, key: str, runner_id: str = "r1", instance_id: str | None = "i1") -> None:
        self.server, self.key, self.runner_id, self.instance_id = server, key, runner_id, instance_id
        self._threads = ThreadPoolExecutor(4)

    def body(self, **more: Any) -> dict[str, Any]:
        named = {} if self.instance_id is None else {"instance_id": self.instance_id}
        return {"runner_id": self.runner_id, **named, "capabilities": [], "max_inflight": 5, "inflight": [], **more}

    def poll(self, **more: Any) -> httpx.Response:
        return self.server.post("/v1/work/poll", self.body(**more), key=self.key)

    def work(self, **more: Any) -> list[dict[str, Any]]:
        """Poll and return the assignments."""
        answer = self.poll(**more)
        assert answer.status_code == 200, answer.text
        return answer.json()["work"]

    def hold(self, **more: Any) -> Future[httpx.Response]:
        """Poll in a thread and return once the server holds the poll."""
        before = self.server.application.edge.desk.waiting
        answer = self._threads.submit(self.poll, **more)
        poll_until(
            lambda: self.server.application.edge.desk.waiting > before or answer.done(), what="the poll is being held"
        )
        assert not answer.done(), answer.result().text
        return answer

    def start(self, **more: Any) -> Future[httpx.Response]:
        """Poll in a thread and return at once."""
        return self._threads.submit(self.poll, **more)

    def ack(self, run_id: object, status: str = "success", attempt: int = 1, **more: Any) -> httpx.Response:
        body = {"runner_id": self.runner_id, "execution_id": str(run_id), "status": status, "attempt": attempt, **more}
        return self.server.post("/v1/work/ack", body, key=self.key)

    def renew(self, run_id: object, **more: Any) -> httpx.Response:
        body = {"runner_id": self.runner_id, "execution_id": str(run_id), **more}
        return self.server.post("/v1/work/renew", body, key=self.key)

    def say(self, run_id: object, *lines: Any) -> httpx.Response:
        return self.server.post(f"/v1/work/{run_id}/events", list(lines), key=self.key)


def hold_polls(server: LiveEdge, seconds: float) -> None:
    """Hold the polls that come from now on so long."""
    server.application.edge.desk._hold_seconds = seconds


def until_it_listens(server: LiveEdge) -> None:
    """Wait until the server hears other processes: on PostgreSQL it begins that by forgetting all it knew."""
    if connection.vendor == "postgresql":
        poll_until(lambda: server.application.edge.desk._tells, what="the server listens")


def result(answer: Future[httpx.Response]) -> httpx.Response:
    return answer.result(DEADLINE_SECONDS)


def database_now() -> datetime:
    return DatabaseClock().now()


def due_run(**more: Any) -> QueueEntry:
    """Make a run that is due."""
    return QueueEntryFactory(**more)


def run_due_in(seconds: float, **more: Any) -> QueueEntry:
    return QueueEntryFactory(available_at=database_now() + timedelta(seconds=seconds), **more)


def state_of(run_id: UUID) -> QueueEntry.State | None:
    """Return the state of the run's entry, None where it is finished."""
    state = QueueEntry.objects.filter(run_id=run_id).values_list("state", flat=True).first()
    return None if state is None else QueueEntry.State(state)


class Gate:
    """Stops whoever calls the wrapped function: before it, or after it has done its work but before it returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.entered, self.finished, self.open = threading.Event(), threading.Event(), threading.Event()
        self.calls = 0

    def after(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        answer = self._function(*arguments, **named)
        self.finished.set()
        assert self.open.wait(DEADLINE_SECONDS), "nobody opened the gate"
        return answer

    def counted(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        return self._function(*arguments, **named)
