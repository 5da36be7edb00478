"""The backend that a command is about."""

from __future__ import annotations

from django.core.management.base import CommandError

from croniq_tasks.backend import CroniqBackend
from croniq_tasks.compat import task_backends


def croniq_backend(alias: str) -> CroniqBackend:
    """Return the backend of that name in TASKS. Raises CommandError where there is none of Croniq's."""
    if alias not in list(task_backends):
        raise CommandError(f"TASKS has {', '.join(sorted(task_backends))}; not {alias}.")
    backend = task_backends[alias]
    if not isinstance(backend, CroniqBackend):
        raise CommandError(f"TASKS[{alias!r}] is no backend of Croniq's.")
    return backend
