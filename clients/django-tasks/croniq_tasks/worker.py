"""The worker: a Croniq runner (the public SDK) that executes tasks in threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from croniq_runner import ExecutionContext, HandlerError, LogLevel, Runner, RunnerOptions
from django.db import connections
from django.utils import timezone

from croniq_tasks.backend import CroniqBackend, on_own_clock
from croniq_tasks.compat import (
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from croniq_tasks.current import CurrentRun, running
from croniq_tasks.envelope import ATTEMPT, FIELD, MOST_RESULT_CHARACTERS, Call, RefusedCall, result_line, storable, told

log = logging.getLogger(__name__)

_LEVELS = (
    (logging.ERROR, LogLevel.ERROR),
    (logging.WARNING, LogLevel.WARN),
    (logging.INFO, LogLevel.INFO),
    (0, LogLevel.DEBUG),
)
_LINE_SECONDS = 10.0
MOST_LOG_BYTES = 8 * 1024 * 1024
"""Of one attempt. Croniq keeps 10 MiB of a run, and the line with the result is its last."""
_LINE_BYTES = 300
"""What the fields of a line take, at most about."""
FULL = "The task has logged 8 MiB; what it logs after this is not kept."
_OF_THE_FRAMEWORK = ("django.tasks", "django_tasks")
"""They log that a task begins and ends, which the run says itself."""


@dataclass(slots=True)
class _Sink:
    loop: asyncio.AbstractEventLoop
    context: ExecutionContext
    used_bytes: int = 0
    is_full: bool = False


class RunLog(logging.Handler):
    """What a task logs becomes lines of its run's log. Records of other code pass by."""

    def __init__(self) -> None:
        super().__init__()
        self._sinks: dict[str, _Sink] = {}
        self._home: tuple[int, int] | None = None

    @contextlib.contextmanager
    def open_for(self, context: ExecutionContext):
        self._home = os.getpid(), threading.get_ident()
        self._sinks[context.execution_id] = _Sink(asyncio.get_running_loop(), context)
        try:
            yield
        finally:
            del self._sinks[context.execution_id]

    def handle(self, record: logging.LogRecord) -> bool:
        # Without the lock of a handler: a task that held it here would wait for the loop, and the loop, once it has
        # something to log itself, for the lock.
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        run = running.get()
        sink = self._sinks.get(run.execution_id) if run else None
        if sink is None or record.name in _OF_THE_FRAMEWORK:
            return
        process, thread = self._home
        # What sends the lines was begun by one and has its context, so what it logs looks like the task's; it would
        # wait for itself. A process that the task has forked has a copy of a loop that nobody runs.
        if process != os.getpid() or thread == threading.get_ident():
            return
        level = next(name for least, name in _LEVELS if record.levelno >= least)
        try:
            message = storable(self.format(record))
            sink.used_bytes += len(message.encode()) + _LINE_BYTES
            if sink.is_full:
                return
            if sink.used_bytes > MOST_LOG_BYTES:
                sink.is_full, message, level = True, FULL, LogLevel.WARN
            writing = asyncio.run_coroutine_threadsafe(_write(sink.context, message, level, record.name), sink.loop)
            # The writer's queue is bounded: a task that logs faster than the network waits here, in its own thread.
            writing.result(_LINE_SECONDS)
        except Exception:
            self.handleError(record)


async def _write(context: ExecutionContext, message: str, level: LogLevel, logger: str) -> None:
    await context.log_writer.write(message, level=level, fields={"logger": logger})


class Worker:
    """Takes runs of the given queues until it is told to stop, then finishes what it has.

    What has not ended ``drain_seconds`` after that, or when it is told so again, is left to other workers: the process
    ends at once, with 1.
    """

    def __init__(
        self,
        backend: CroniqBackend,
        queues: Sequence[str],
        *,
        concurrency: int,
        runner_id: str,
        drain_seconds: float = 30.0,
    ) -> None:
        self._backend = backend
        self._drain_seconds = drain_seconds
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="croniq-task")
        self._log = RunLog()
        self._runner = Runner(
            RunnerOptions(
                server_url=backend.options["url"],
                api_key=backend.options["api_key"].strip(),
                runner_id=runner_id,
                capabilities=[backend.naming.capability(queue) for queue in queues],
                max_inflight=concurrency,
                # It would say of what still runs that it failed.
                drain_timeout_ms=int((drain_seconds + 3600) * 1000),
                allow_insecure_http=backend.options.get("allow_insecure_http", False),
            )
        )
        self._runner.set_default_handler(self._handle)

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT and drained. Raises the SDK's errors for what retrying cannot mend."""
        root = logging.getLogger()
        if not root.handlers and logging.lastResort is not None:
            # Where nothing is configured it is what tells of warnings, until any handler is there: then ours would hide
            # that the server is away.
            root.addHandler(logging.lastResort)
        root.addHandler(self._log)
        loop = asyncio.get_running_loop()
        polling = asyncio.current_task()
        is_stopping = False

        def stop() -> None:
            nonlocal is_stopping
            if is_stopping:
                self._give_up()
            is_stopping = True
            # The SDK drains when its run() is cancelled.
            polling.cancel()
            loop.call_later(self._drain_seconds, self._give_up)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner.run()
        finally:
            root.removeHandler(self._log)
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _give_up(self) -> None:
        """Nothing ends a thread but its process. Who takes the runs over learns it as of a worker that was killed."""
        log.error("Not ended in time, left to other workers: %s", ", ".join(self._runner.inflight))
        logging.shutdown()
        os._exit(1)

    async def _handle(self, context: ExecutionContext) -> None:
        try:
            call = Call.of(context.metadata)
            place = self._backend.naming.queue_and_priority(context.job_key) or ()
            # What a module does when it is imported is not for the loop: it may take long, or ask the database.
            task = await self._in_thread(call.task, self._backend.alias, *place)
        except RefusedCall as refusal:
            raise HandlerError(str(refusal)) from refusal
        result = self._begin(task, call, context)
        run = CurrentRun(context.execution_id, context.scheduled_for, context.attempt)
        with self._log.open_for(context):
            inside = contextvars.copy_context()
            inside.run(running.set, run)
            failed = await _to_its_end(self._in_thread(inside.run, _execute_apart, type(self._backend), result))
        # What the task has logged comes first.
        await context.log_writer.flush()
        if failed is None:
            value = result.return_value
            if not await self._tell(context, "info", result_line(value), {FIELD: "result"}) and value is not None:
                raise HandlerError("The log of the run is full, so what the task returned cannot be kept.")
            return
        error = result.errors[-1]
        kind = {FIELD: "error", "exception": error.exception_class_path}
        await self._tell(context, "error", error.traceback[-MOST_RESULT_CHARACTERS:], kind)
        raise HandlerError(told(failed)) from failed

    def _in_thread(self, fn: Callable[..., Any], *args: Any) -> asyncio.Future:
        return asyncio.get_running_loop().run_in_executor(self._threads, fn, *args)

    async def _tell(self, context: ExecutionContext, level: str, message: str, fields: dict[str, str]) -> bool:
        """Write the line that the result is read from; return False where the run's log is full. The SDK's writer drops
        what a server that restarts does not take; then a run without its result would be a success."""
        whose = {"runner_id": context.runner_id, ATTEMPT: str(context.attempt)}
        line = {"level": level, "message": message, "fields": {**fields, **whose}}
        path = f"/v1/work/{context.execution_id}/events"
        # For as long as it takes: a task that has done its work must not fail for an outage at its end.
        answer = await self._in_thread(partial(self._backend.api.post, path, [line], patience=math.inf))
        return answer["accepted"] == 1

    def _begin(self, task: Any, call: Call, context: ExecutionContext) -> TaskResult:
        now = timezone.now()
        return TaskResult(
            task=task,
            id=context.execution_id,
            status=TaskResultStatus.RUNNING,
            enqueued_at=on_own_clock(context.scheduled_for),
            started_at=now,
            last_attempted_at=now,
            finished_at=None,
            args=call.args,
            kwargs=call.kwargs,
            backend=self._backend.alias,
            errors=[],
            # Which workers had the earlier attempts is not told to this one; how many there were is.
            worker_ids=[context.runner_id] * context.attempt,
        )


async def _to_its_end(executed: asyncio.Future) -> BaseException | None:
    """Wait for the thread also when the run is cancelled: nothing ends a thread, and until it has ended its run must
    keep its lease and its place in the limits of the job."""
    cancelled = False
    while not executed.done():
        try:
            await asyncio.shield(executed)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return executed.result()


def _execute_apart(sender: type[CroniqBackend], result: TaskResult) -> BaseException | None:
    _leave_nothing_open()
    try:
        return _execute(sender, result)
    finally:
        _leave_nothing_open()


def _leave_nothing_open() -> None:
    """As Django's own `close_old_connections`, and more: threads live long, and in a transaction that one task has left
    open, with `CONN_MAX_AGE`, the writes of all that follow would be lost."""
    for connection in connections.all(initialized_only=True):
        try:
            connection.close_if_unusable_or_obsolete()
            connection.rollback()
        except Exception:  # an atomic block that nobody has left, or a driver's connection that somebody has closed
            with contextlib.suppress(Exception):
                connection.close()
            del connections[connection.alias]


def _execute(sender: type[CroniqBackend], result: TaskResult) -> BaseException | None:
    """Returns what the function raised; also what cannot be told as JSON is an error. What a
    receiver of the signals raises is logged and no fault of the task's."""
    failed: BaseException | None = None
    task_started.send_robust(sender=sender, task_result=result)
    try:
        first = [TaskContext(task_result=result)] if result.task.takes_context else []
        value = normalize_json(result.task.call(*first, *result.args, **result.kwargs))
        result_line(value)
        object.__setattr__(result, "_return_value", value)
    except BaseException as error:
        failed = error
        kind = type(error)
        described = TaskError(
            exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
            traceback=storable("".join(traceback.format_exception(error))),
        )
        result.errors.append(described)
        _finish(sender, result, TaskResultStatus.FAILED)  # here, where receivers find the exception in sys.exc_info()
    else:
        _finish(sender, result, TaskResultStatus.SUCCESSFUL)
    return failed


def _finish(sender: type[CroniqBackend], result: TaskResult, status: TaskResultStatus) -> None:
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "status", status)
    task_finished.send_robust(sender=sender, task_result=result)
