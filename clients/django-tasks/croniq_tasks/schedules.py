"""Tasks that run by themselves: ``@scheduled("0 3 * * *")`` above ``@task``; `manage.py croniq_sync` tells Croniq."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from croniq_tasks.compat import Task, normalize_json
from croniq_tasks.envelope import Call

_T = TypeVar("_T", bound=Task)


@dataclass(frozen=True, slots=True)
class Schedule:
    """``job``: fields of the Croniq job, such as ``{"catch_up": "latest", "timeout": "1h"}``."""

    task: Task
    schedule: str
    name: str
    timezone: str | None
    calendar: str | None
    args: list[Any]
    kwargs: dict[str, Any]
    job: dict[str, Any] = field(default_factory=dict)

    @property
    def call(self) -> Call:
        return Call(self.task.module_path, self.args, self.kwargs)

    def registration(self, job_key: str, capability: str) -> dict[str, Any]:
        """The body of POST /v1/jobs/register."""
        body = {
            "job_key": job_key,
            "schedule": self.schedule,
            "capabilities": [capability],
            "timezone": self.timezone,
            "calendar": self.calendar,
        }
        return {name: value for name, value in body.items() if value is not None}


declared: dict[tuple[str, str], Schedule] = {}
"""By path and name, as the modules declare them."""


def scheduled(
    schedule: str,
    *,
    name: str = "default",
    timezone: str | None = None,
    calendar: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
) -> Callable[[_T], _T]:
    """Let Croniq run the task by ``schedule``: a cron expression or an interval such as ``5m``.

    ``timezone``: an IANA name, Croniq's default without; ``calendar``: one of Croniq's by name; ``args``, ``kwargs``:
    what it is called with, JSON; several schedules of one task have a ``name`` each. Raises ValueError for a name that
    the task has already, TypeError for what is no task.
    """

    def declare(task: _T) -> _T:
        if not isinstance(task, Task):
            raise TypeError("@scheduled stands above @task")
        key = task.module_path, name
        if key in declared:
            raise ValueError(f"{task.module_path} has a schedule {name!r} already; give this one a name of its own.")
        declared[key] = Schedule(
            task,
            schedule,
            name,
            timezone,
            calendar,
            normalize_json(list(args)),
            normalize_json(dict(kwargs or {})),
            dict(job or {}),
        )
        return task

    return declare
