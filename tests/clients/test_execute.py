"""A task in its thread: whatever it does, there is something to tell."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from croniq_runner import ExecutionContext, HandlerError
from croniq_runner._options import LogWriterOptions
from croniq_tasks.compat import TaskResult, TaskResultStatus, task_finished, task_started
from croniq_tasks.envelope import MOST_RESULT_CHARACTERS, Call, RefusedCall, told
from croniq_tasks.identity import worker_name
from croniq_tasks.worker import Worker, _execute, _execute_apart
from django.db import connection

from tests import clients
from tests.clients import depot as tasks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SHOP = "shop", "https://croniq.example", "croniq_key"


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
        ("leaves", "tests.clients.depot.Silent", "text could not be made: SystemExit"),
        ("wordy", "builtins.ValueError", "x" * 10_000),
        ("surrogate", "builtins.ValueError", "half ?"),
        ("exit", "builtins.SystemExit", "3"),
        ("unpicklable", "tests.clients.depot.broken.<locals>.Local", "<lambda>"),
    ],
)
def test_what_is_hard_to_tell_is_told(caplog, kind, path, says):
    for framework in ("django.tasks", "django_tasks"):  # what it logs is hard to tell too, for pytest's own processes
        caplog.set_level(logging.CRITICAL + 1, framework)
    result = begun(tasks.broken, kind)
    failed = _execute(object, result)
    assert (result.status, result.finished_at is not None) == (TaskResultStatus.FAILED, True)
    (error,) = result.errors
    assert error.exception_class_path == path
    assert told(failed).startswith(f"{path}: ")
    assert says in told(failed)
    assert len(told(failed)) <= MOST_RESULT_CHARACTERS
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


@pytest.mark.django_db(transaction=True)  # or the test's own transaction has SQLite's lock
@pytest.mark.parametrize("what", ["transaction", "atomic", "autocommit", "closed", "nothing"])
def test_what_a_task_leaves_open_the_next_one_is_not_in(what):
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(_execute_apart, object, begun(tasks.leave, what)).result() is None
        after = begun(tasks.look)
        thread.submit(_execute_apart, object, after).result()
        thread.submit(lambda: connection.close()).result()
    assert (after.errors, after.return_value) == ([], True)


def test_who_hears_that_a_task_failed_finds_its_exception():
    found: list[object] = []

    def hear(task_result: TaskResult, **kwargs: object) -> None:
        found.append((task_result.status, task_result.finished_at is not None, sys.exc_info()[0]))

    task_finished.connect(hear)
    try:
        _execute(object, begun(tasks.broken, "exit"))
        _execute(object, begun(tasks.send))
    finally:
        task_finished.disconnect(hear)
    assert found == [(TaskResultStatus.FAILED, True, SystemExit), (TaskResultStatus.SUCCESSFUL, True, None)]


def test_a_result_is_told_again_until_a_server_that_restarts_takes_it(depot, wire, monkeypatch):
    monkeypatch.setattr("croniq_tasks.api.RETRY_SECONDS", 0)
    monkeypatch.setattr("croniq_tasks.api.PATIENCE_SECONDS", -1)  # which is of who enqueues
    worker = Worker(depot(allow_insecure_http=True), ["default"], concurrency=1, runner_id="w")
    wire.faults = [503, httpx.ReadError("cut"), {"accepted": 1}]
    run = SimpleNamespace(execution_id="some-run", runner_id="w", attempt=3)
    assert asyncio.run(worker._tell(run, "info", "[1]", {"django_task": "result"}))
    assert wire.paths == ["POST /v1/work/some-run/events"] * 3
    fields = {"django_task": "result", "runner_id": "w", "django_task_attempt": "3"}
    assert [json.loads(body) for body in wire.bodies] == [[{"level": "info", "message": "[1]", "fields": fields}]] * 3


def given(path: str, *args: object) -> ExecutionContext:
    return ExecutionContext(
        execution_id="some-run", job_key=f"depot:default:{path}", scheduled_for=NOW, attempt=1,
        metadata=Call(path, list(args), {}).metadata(), timeout=timedelta(minutes=5), runner_id="w", runner_tags=[],
        cancellation=asyncio.Event(), client=None, log_writer_options=LogWriterOptions(),
    )  # fmt: skip


def test_a_result_for_which_the_log_has_no_room_is_no_success(depot, wire):
    worker = Worker(depot(allow_insecure_http=True), ["default"], concurrency=1, runner_id="w")
    wire.faults = [{"accepted": 0}, {"accepted": 0}]
    asyncio.run(worker._handle(given("tests.clients.depot.report")))  # which returns nothing
    with pytest.raises(HandlerError, match="log of the run is full"):
        asyncio.run(worker._handle(given("tests.clients.depot.pack", 1)))


@pytest.fixture
def shelf(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder of modules of this package, which are forgotten afterwards."""
    monkeypatch.setattr(clients, "__path__", [*clients.__path__, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("tests.clients."):
            del sys.modules[name]


def test_of_a_long_traceback_the_end_is_kept(depot, wire):
    worker = Worker(depot(allow_insecure_http=True), ["default"], concurrency=1, runner_id="w")
    wire.faults = [{"accepted": 1}]
    with pytest.raises(HandlerError, match=r"builtins.ValueError: xxx"):
        asyncio.run(worker._handle(given("tests.clients.depot.broken", "wordy")))
    (line,) = json.loads(wire.bodies[-1])
    assert line["message"] == "x" * (MOST_RESULT_CHARACTERS - 1) + "\n"


def test_a_module_is_imported_in_the_thread_of_its_task(depot, wire, shelf):
    where = "import threading\nfrom django_tasks import task\nhere = threading.current_thread().name\n"
    (shelf / "things.py").write_text(f"{where}@task\ndef look():\n    return here\n")
    worker = Worker(depot(allow_insecure_http=True), ["default"], concurrency=1, runner_id="w")
    wire.faults = [{"accepted": 1}]
    asyncio.run(worker._handle(given("tests.clients.things.look")))
    assert json.loads(wire.bodies[-1])[0]["message"] == '"croniq-task_0"'


def test_a_module_that_fails_or_leaves_is_not_the_end_of_the_worker(depot, shelf):
    depot()
    for name, line in (("fails", "1 / 0"), ("leaves", "raise SystemExit(3)")):
        (shelf / f"{name}.py").write_text(f"{line}\n")
        with pytest.raises(RefusedCall, match=f"'tests.clients.{name}.look' cannot be imported: builtins"):
            Call(f"tests.clients.{name}.look", [], {}).task("default")


def test_workers_of_one_machine_have_names_of_their_own_and_keep_them(tmp_path, monkeypatch):
    monkeypatch.setenv("CRONIQ_RUNNER_DATA_DIR", str(tmp_path / "state"))
    with worker_name(*SHOP) as first, worker_name(*SHOP) as second, worker_name("depot/x", *SHOP[1:]) as other:
        assert len({first, second, other}) == 3
        assert (first[:5], other[:8]) == ("shop-", "depot/x-")
    with worker_name(*SHOP) as again, worker_name(*SHOP) as third:
        assert (again, third) == (first, second)
    (tmp_path / "file").touch()
    monkeypatch.setenv("CRONIQ_RUNNER_DATA_DIR", str(tmp_path / "file"))
    with worker_name(*SHOP) as somehow:
        assert somehow not in (first, second)


def test_another_server_or_client_knows_nothing_of_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("CRONIQ_RUNNER_DATA_DIR", str(tmp_path))
    prefix, url, key = SHOP
    names = set()
    for whose in (SHOP, (prefix, "https://other.example", key), (prefix, url, "croniq_other"), SHOP):
        with worker_name(*whose) as name:
            names.add(name)
    assert len(names) == 3


@pytest.mark.parametrize("broken", [b"", b"\xff\x00\n", b"shop-\x1b[2J"], ids=["empty", "binary", "escape"])
def test_a_name_that_was_broken_is_made_anew(tmp_path, monkeypatch, broken):
    monkeypatch.setenv("CRONIQ_RUNNER_DATA_DIR", str(tmp_path))
    with worker_name(*SHOP) as first:
        pass
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(broken)
    with worker_name(*SHOP) as second:
        assert second != first
        assert re.fullmatch("shop-[0-9a-f]{8}", second)
    with worker_name(*SHOP) as again:
        assert again == second


def test_who_has_no_home_has_a_name_for_now(monkeypatch):
    for variable in ("CRONIQ_RUNNER_DATA_DIR", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)  # of whom no list of users knows
    with worker_name(*SHOP) as name:
        assert name.startswith("shop-")
