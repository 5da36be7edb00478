"""The backend: ``TASKS = {"default": {"BACKEND": "croniq_tasks.backend.CroniqBackend", "OPTIONS": {…}}}``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from croniq_tasks.api import Api, CroniqRefused
from croniq_tasks.compat import (
    BaseTaskBackend,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
)
from croniq_tasks.envelope import Call, RefusedCall, errors_in, result_in
from croniq_tasks.jobs import Naming

_STATUS = {
    "queued": TaskResultStatus.READY,
    "claimed": TaskResultStatus.RUNNING,
    "completed": TaskResultStatus.SUCCESSFUL,
}
_LAST_LINES = 100
OPTIONS = {"url", "api_key", "prefix", "job", "allow_insecure_http"}


class EndedWithoutException(Exception):
    """The run ended otherwise than by its function: cancelled, timed out, its worker lost."""


class CroniqBackend(BaseTaskBackend):
    """Enqueues by triggering a Croniq job of the task's own, made on first use; the id of a result is the run's.

    Options: ``url`` and ``api_key`` (scopes jobs:trigger, jobs:write for jobs that are not there yet, executions:read
    and jobs:read for results), ``prefix`` (default "task"), ``job`` (fields of every job, such as
    ``{"timeout": "1h", "max_retries": 2}``).

    A task that is enqueued inside a transaction may start before its commit: `transaction.on_commit` is the way, as
    with every backend.
    """

    supports_async_task = True
    supports_defer = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        unknown = set(self.options) - OPTIONS
        missing = [name for name in ("url", "api_key") if not self.options.get(name)]
        if unknown or missing:
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]['OPTIONS'] has url and api_key, and of the rest only {', '.join(sorted(OPTIONS))}"
                + (f"; not {', '.join(sorted(unknown))}" if unknown else "")
                + (f"; {' and '.join(missing)} missing or empty." if missing else ".")
            )
        if not self.options["url"].startswith(("http://", "https://")):
            raise ImproperlyConfigured(f"TASKS[{alias!r}]['OPTIONS']['url'] begins with https:// (or http://).")
        self.naming = Naming(self.options.get("prefix", "task"))
        self.job_fields: dict[str, Any] = dict(self.options.get("job", {}))
        # A key that was read from a file ends with its line.
        self.api = Api(self.options["url"], self.options["api_key"].strip())

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        self.validate_task(task)
        call = Call(task.module_path, normalize_json(list(args)), normalize_json(dict(kwargs)))
        job_key = self.naming.job_key(task.queue_name, call.path, task.priority)
        run_at = task.run_after
        if run_at is not None and timezone.is_naive(run_at):
            run_at = timezone.make_aware(run_at)
        try:
            run_id = self.api.trigger(job_key, call.metadata(), run_at)
        except CroniqRefused as refusal:
            if refusal.status != 404:
                raise
            # The first of its kind. Twice the same job is one, so two that come here at once do no harm.
            self.api.post("/v1/jobs", self.naming.job(task.queue_name, call.path, self.job_fields, task.priority))
            run_id = self.api.trigger(job_key, call.metadata(), run_at)
        # Nothing is asked that may fail: the run is made, and who is told otherwise enqueues it once more.
        result = TaskResult(
            task=task,
            id=run_id,
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=call.args,
            kwargs=call.kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        task_enqueued.send_robust(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        try:
            # Who asks may have it from an address: nothing but an id may become a part of ours.
            path = f"/v1/executions/{UUID(str(result_id))}"
        except ValueError as error:
            raise TaskResultDoesNotExist(result_id) from error
        execution = self._found(result_id, path)
        # The call of a scheduled task is its job's.
        job_path = f"/v1/jobs/{quote(execution['job_key'], safe='')}"
        metadata = execution["metadata"] or self._found(result_id, job_path)["metadata"]
        try:
            call = Call.of(metadata)
            task = call.task(self.alias, *(self.naming.queue_and_priority(execution["job_key"]) or ()))
        except RefusedCall as refusal:
            raise TaskResultMismatch(str(refusal)) from refusal
        if task.run_after is None and execution["kind"] == "triggered":
            asked_for = datetime.fromisoformat(execution["scheduled_for"])
            if asked_for > datetime.fromisoformat(execution["created_at"]):
                task = task.using(run_after=on_own_clock(asked_for))
        has_ended = any(attempt["ended_at"] for attempt in execution["attempts"])
        return self._result(execution, task, call, self._last_lines(result_id) if has_ended else [])

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        for queue in sorted(self.queues):
            if ":" in queue or "/" in queue:
                yield checks.Error(
                    f"The queue {queue!r} cannot be a part of a job's key.",
                    hint="Name it without colons and slashes.",
                    id="croniq_tasks.E001",
                )
        if self.options["url"].startswith("http://") and not self.options.get("allow_insecure_http"):
            host = self.options["url"].removeprefix("http://").split("/")[0].split(":")[0]
            if host not in ("localhost", "127.0.0.1", "[::1]"):
                yield checks.Warning(
                    "The API key travels to Croniq in clear text.",
                    hint="Use https, or say allow_insecure_http where the network is trusted.",
                    id="croniq_tasks.W001",
                )

    def _found(self, run_id: str, path: str) -> dict[str, Any]:
        """Return what is there of the run. Raises TaskResultDoesNotExist where it is gone."""
        try:
            return self.api.get(path)
        except CroniqRefused as refusal:
            if refusal.status == 404:
                raise TaskResultDoesNotExist(run_id) from refusal
            raise

    def _last_lines(self, run_id: str) -> list[dict[str, Any]]:
        return self.api.get(f"/v1/executions/{run_id}/logs", last=_LAST_LINES)

    def _result(self, execution: Mapping[str, Any], task: Task, call: Call, lines: list[dict[str, Any]]) -> TaskResult:
        status = _STATUS.get(execution["state"], TaskResultStatus.FAILED)
        begun = [attempt for attempt in execution["attempts"] if attempt["claimed_at"]]
        errors = errors_in(lines)
        if status == TaskResultStatus.FAILED and not errors:
            path = f"{EndedWithoutException.__module__}.{EndedWithoutException.__qualname__}"
            told = execution["error"] or execution["reason"] or execution["state"]
            errors = [TaskError(exception_class_path=path, traceback=told)]
        result = TaskResult(
            task=task,
            id=execution["id"],
            status=status,
            enqueued_at=_instant(execution["created_at"]),
            started_at=_instant(begun[0]["claimed_at"]) if begun else None,
            last_attempted_at=_instant(begun[-1]["claimed_at"]) if begun else None,
            finished_at=_instant(execution["completed_at"]),
            args=call.args,
            kwargs=call.kwargs,
            backend=self.alias,
            errors=errors,
            worker_ids=[attempt["runner_id"] for attempt in begun],
        )
        if status == TaskResultStatus.SUCCESSFUL:
            object.__setattr__(result, "_return_value", result_in(lines, execution["attempt"]))
        return result


def on_own_clock(instant: datetime | None) -> datetime | None:
    """Return an aware instant as the project has its own: without USE_TZ they are naive, on the clock of its zone."""
    return instant if settings.USE_TZ or instant is None else timezone.make_naive(instant)


def _instant(text: str | None) -> datetime | None:
    return on_own_clock(datetime.fromisoformat(text)) if text else None
