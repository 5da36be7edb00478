"""The worker: a Croniq runner (the public SDK) that executes tasks in threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import signal
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from croniq_runner import ExecutionContext, HandlerError, LogLevel, Runner, RunnerOptions, WorkEvent
from django.db import close_old_connections
from django.utils import timezone

from croniq_tasks.backend import CroniqBackend
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
from croniq_tasks.envelope import FIELD, MOST_RESULT_CHARACTERS, Call, RefusedCall, result_line

log = logging.getLogger(__name__)

_LEVELS = (
    (logging.ERROR, LogLevel.ERROR),
    (logging.WARNING, LogLevel.WARN),
    (logging.INFO, LogLevel.INFO),
    (0, LogLevel.DEBUG),
)
_LINE_SECONDS = 10.0


class RunLog(logging.Handler):
    """What a task logs becomes lines of its run's log. Records of other code pass by."""

    def __init__(self) -> None:
        super().__init__()
        self._sinks: dict[str, tuple[asyncio.AbstractEventLoop, ExecutionContext]] = {}

    @contextlib.contextmanager
    def open_for(self, context: ExecutionContext):
        self._sinks[context.execution_id] = asyncio.get_running_loop(), context
        try:
            yield
        finally:
            del self._sinks[context.execution_id]

    def emit(self, record: logging.LogRecord) -> None:
        run = running.get()
        sink = self._sinks.get(run.execution_id) if run else None
        if sink is None:
            return
        loop, context = sink
        level = next(name for least, name in _LEVELS if record.levelno >= least)
        # The writer's queue is bounded: a task that logs faster than the network waits here, in its own thread.
        writing = asyncio.run_coroutine_threadsafe(_write(context, self.format(record), level, record.name), loop)
        try:
            writing.result(_LINE_SECONDS)
        except Exception:
            self.handleError(record)


async def _write(context: ExecutionContext, message: str, level: LogLevel, logger: str) -> None:
    await context.log_writer.write(message, level=level, fields={"logger": logger})


class Worker:
    """Takes runs of the given queues until it is told to stop, then finishes what it has."""

    def __init__(
        self,
        backend: CroniqBackend,
        queues: Sequence[str],
        *,
        concurrency: int,
        runner_id: str | None = None,
        drain_seconds: float = 30.0,
    ) -> None:
        self._backend = backend
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="croniq-task")
        self._log = RunLog()
        self._runner = Runner(
            RunnerOptions(
                server_url=backend.options["url"],
                api_key=backend.options["api_key"],
                runner_id=runner_id,
                runner_id_prefix="django",
                capabilities=[backend.naming.capability(queue) for queue in queues],
                max_inflight=concurrency,
                drain_timeout_ms=int(drain_seconds * 1000),
                allow_insecure_http=backend.options.get("allow_insecure_http", False),
            )
        )
        self._runner.set_default_handler(self._handle)

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT and drained. Raises the SDK's errors for what retrying cannot mend."""
        logging.getLogger().addHandler(self._log)
        loop = asyncio.get_running_loop()
        polling = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            # The SDK drains when its run() is cancelled.
            loop.add_signal_handler(number, polling.cancel)
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner.run()
        finally:
            logging.getLogger().removeHandler(self._log)
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _handle(self, context: ExecutionContext) -> None:
        try:
            call = Call.of(context.metadata)
            task = call.task(self._backend.alias)
        except RefusedCall as refusal:
            raise HandlerError(str(refusal)) from refusal
        result = self._begin(task, call, context)
        run = CurrentRun(context.execution_id, context.scheduled_for, context.attempt)
        with self._log.open_for(context):
            inside = contextvars.copy_context()
            inside.run(running.set, run)
            executed = asyncio.get_running_loop().run_in_executor(
                self._threads, inside.run, _execute, type(self._backend), result
            )
            failed = await _to_its_end(executed)
        if failed is None:
            line = WorkEvent(level="info", message=result_line(result.return_value), fields={FIELD: "result"})
            await context.log_writer.write_event(line)
            return
        error = result.errors[-1]
        await context.log_writer.write_event(
            WorkEvent(
                level="error",
                message=error.traceback[-MOST_RESULT_CHARACTERS:],
                fields={FIELD: "error", "exception": error.exception_class_path},
            )
        )
        raise HandlerError(f"{error.exception_class_path}: {failed}") from failed

    def _begin(self, task: Any, call: Call, context: ExecutionContext) -> TaskResult:
        now = timezone.now()
        return TaskResult(
            task=task,
            id=context.execution_id,
            status=TaskResultStatus.RUNNING,
            enqueued_at=context.scheduled_for,
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


def _execute(sender: type[CroniqBackend], result: TaskResult) -> BaseException | None:
    """In a thread of its own. Returns what the function raised; also what cannot be told as JSON is an error."""
    close_old_connections()
    failed: BaseException | None = None
    try:
        task_started.send(sender=sender, task_result=result)
        first = [TaskContext(task_result=result)] if result.task.takes_context else []
        value = normalize_json(result.task.call(*first, *result.args, **result.kwargs))
        result_line(value)
        object.__setattr__(result, "_return_value", value)
        object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
    except BaseException as error:
        failed = error
        kind = type(error)
        told = TaskError(
            exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
            traceback="".join(traceback.format_exception(error)),
        )
        result.errors.append(told)
        object.__setattr__(result, "status", TaskResultStatus.FAILED)
    object.__setattr__(result, "finished_at", timezone.now())
    try:
        task_finished.send(sender=sender, task_result=result)
    finally:
        close_old_connections()
    return failed
