"""The run that the code is in."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """``scheduled_for``: the instant that the schedule meant (aware), the same in each attempt and replay; of a task
    that was enqueued, its ``run_after``, or when that was."""

    execution_id: str
    scheduled_for: datetime | None
    attempt: int


running: ContextVar[CurrentRun | None] = ContextVar("croniq_tasks_run", default=None)


def current_run() -> CurrentRun | None:
    """Return the run that executes the calling code, or None outside of one."""
    return running.get()
