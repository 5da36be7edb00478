"""A task in its thread: whatever it does, there is something to tell."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx
import pytest
from croniq_tasks.compat import TaskResult, TaskResultStatus, task_finished, task_started
from croniq_tasks.envelope import told
from croniq_tasks.identity import worker_name
from croniq_tasks.worker import Worker, _execute

from tests.clients import depot as tasks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def begun(task, *args: object) -> TaskResult:
    return TaskResult(
        task=task, id="x", status=TaskResultStatus.RUNNING, enqueued_at=NOW, started_at=NOW, last_attempted_at=NOW,
        finished_at=None, args=list(args), kwargs={}, backend="default", errors=[], worker_ids=["w"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "says"),
    [
        ("object", "builtins.TypeError", "Unsupported type"),
        ("long", "builtins.ValueError", "Store it and return where it is"),
        ("silent", "tests.clients.depot.Silent", "text could not be made: RuntimeError"),
        ("surrogate", "builtins.ValueError", "half ?"),
        ("exit", "builtins.SystemExit", "3"),
        ("unpicklable", "tests.clients.depot.broken.<locals>.Local", "<lambda>"),
    ],
)
def test_what_is_hard_to_tell_is_told(kind, path, says):
    result = begun(tasks.broken, kind)
    failed = _execute(object, result)
    assert (result.status, result.finished_at is not None) == (TaskResultStatus.FAILED, True)
    (error,) = result.errors
    assert error.exception_class_path == path
    assert told(failed).startswith(f"{path}: ")
    assert says in told(failed)
    (told(failed) + error.traceback).encode()  # which no half of a surrogate pair lets through


def test_a_receiver_that_fails_is_no_fault_of_the_task(caplog):
    def boom(**kwargs: object) -> None:
        raise LookupError("of a receiver")

    for signal in (task_started, task_finished):
        signal.connect(boom, dispatch_uid="boom")
    try:
        result = begun(tasks.send)
        assert _execute(object, result) is None
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(dispatch_uid="boom")
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "sent")
    assert [record.exc_info[0] for record in caplog.records if record.levelno == logging.ERROR] == [LookupError] * 2


def test_a_result_is_told_again_until_a_server_that_restarts_takes_it(depot, wire, monkeypatch):
    monkeypatch.setattr("croniq_tasks.api.RETRY_SECONDS", 0)
    worker = Worker(depot(allow_insecure_http=True), ["default"], concurrency=1, runner_id="w")
    wire.faults = [503, httpx.ReadError("cut"), 200]
    run = SimpleNamespace(execution_id="some-run", runner_id="w")
    asyncio.run(worker._tell(run, "info", "[1]", {"django_task": "result"}))
    assert wire.paths == ["POST /v1/work/some-run/events"] * 3
    fields = {"django_task": "result", "runner_id": "w"}
    assert [json.loads(body) for body in wire.bodies] == [[{"level": "info", "message": "[1]", "fields": fields}]] * 3


def test_workers_of_one_machine_have_names_of_their_own_and_keep_them(tmp_path, monkeypatch):
    monkeypatch.setenv("CRONIQ_RUNNER_DATA_DIR", str(tmp_path / "state"))
    with worker_name("shop") as first, worker_name("shop") as second, worker_name("depot/x") as other:
        assert len({first, second, other}) == 3
        assert (first[:5], other[:8]) == ("shop-", "depot/x-")
    with worker_name("shop") as again, worker_name("shop") as third:
        assert (again, third) == (first, second)
    (tmp_path / "file").touch()
    monkeypatch.setenv("CRONIQ_RUNNER_DATA_DIR", str(tmp_path / "file"))
    with worker_name("shop") as somehow:
        assert somehow not in (first, second)
