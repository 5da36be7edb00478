"""What travels: a call in a run's metadata, its result in a line of the run's log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.utils.module_loading import import_string

from croniq_tasks.compat import InvalidTask, Task, TaskError

FIELD = "django_task"
"""The key of the metadata, and of the fields of our log lines."""
ATTEMPT = "django_task_attempt"
MOST_RESULT_CHARACTERS = 60_000
"""Croniq cuts a log line at 64 KiB; what is longer belongs into a store of the project's own."""


class RefusedCall(Exception):
    """The metadata name no task that this process may run."""


@dataclass(frozen=True, slots=True)
class Call:
    """A task by the path of its function, with arguments as JSON has them."""

    path: str
    args: list[Any]
    kwargs: dict[str, Any]

    def metadata(self) -> dict[str, Any]:
        return {FIELD: {"path": self.path, "args": self.args, "kwargs": self.kwargs}}

    @classmethod
    def of(cls, metadata: Mapping[str, Any] | None) -> Call:
        """Raises RefusedCall where the metadata are none of ours."""
        found = (metadata or {}).get(FIELD)
        match found:
            case {"path": str(path), "args": list(args), "kwargs": dict(kwargs)}:
                return cls(path, args, kwargs)
        raise RefusedCall(f"The metadata of the run have no {FIELD!r} with path, args and kwargs.")

    def task(self, backend: str, queue: str | None = None, priority: int | None = None) -> Task:
        """Return the task that the path names as it was enqueued, whatever it is declared with: in ``backend``, with
        ``queue`` and ``priority`` (None: its own). Raises RefusedCall.

        Whoever may trigger a job chooses the path, so importing is the first thing to guard: only modules of installed
        apps are loaded, and only what is declared a task is called.
        """
        if not any(self.path.startswith(f"{config.name}.") for config in apps.get_app_configs()):
            raise RefusedCall(f"{self.path!r} is in none of the installed apps.")
        try:
            found = import_string(self.path)
        except ImportError as error:
            raise RefusedCall(f"{self.path!r} is not there: {error}") from error
        except (Exception, SystemExit) as error:
            raise RefusedCall(f"{self.path!r} cannot be imported: {told(error)}") from error
        if not isinstance(found, Task):
            raise RefusedCall(f"{self.path!r} is no task.")
        try:
            return found.using(backend=backend, queue_name=queue, priority=priority)
        except InvalidTask as error:
            raise RefusedCall(f"{self.path!r} is no task of the backend {backend!r}: {error}") from error


def storable(text: str) -> str:
    """The text as any database and any JSON can carry it: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def told(error: BaseException) -> str:
    """Say an exception in a line, also one that cannot say itself."""
    kind = type(error)
    try:
        text = str(error)
    except BaseException as fault:  # an exit here would be the worker's
        text = f"(its text could not be made: {type(fault).__qualname__})"
    return storable(f"{kind.__module__}.{kind.__qualname__}: {text}")[:MOST_RESULT_CHARACTERS]


def result_line(value: Any) -> str:
    """Return the message that carries a result. Raises ValueError for one that is too long for a line."""
    text = json.dumps(value)
    if len(text) > MOST_RESULT_CHARACTERS:
        raise ValueError(
            f"The task returned {len(text):,} characters of JSON; a result has at most {MOST_RESULT_CHARACTERS:,}. "
            "Store it and return where it is."
        )
    return text


def result_in(lines: Iterable[Mapping[str, Any]], attempt: int) -> Any:
    """Return what the attempt returned; None where its line is not there (any more).

    Croniq puts a line to the attempt that the runner has when it comes: what a worker says that another of its name has
    deposed would be the other's, so the line has its attempt itself.
    """
    of_attempt = {FIELD: "result", ATTEMPT: str(attempt)}
    for line in lines:
        if of_attempt.items() <= (line["fields"] or {}).items():
            return json.loads(line["message"])
    return None


def errors_in(lines: Iterable[Mapping[str, Any]]) -> list[TaskError]:
    """Return the exceptions that attempts ended with, as far as their lines are there."""
    return [
        TaskError(exception_class_path=line["fields"]["exception"], traceback=line["message"])
        for line in lines
        if (line["fields"] or {}).get(FIELD) == "error"
    ]
