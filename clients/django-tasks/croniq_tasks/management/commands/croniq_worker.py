"""`manage.py croniq_worker`: run tasks."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from typing import Any

from croniq_runner import AuthFailedError, PollInstanceConflictError, RunnerOwnershipDeniedError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from croniq_tasks.backend import CroniqBackend
from croniq_tasks.identity import worker_name
from croniq_tasks.management.backends import croniq_backend
from croniq_tasks.worker import Worker


class Command(BaseCommand):
    help = "Run tasks that Croniq hands out, until SIGTERM or SIGINT; what has begun is finished."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="its name in TASKS")
        parser.add_argument(
            "--queue", action="append", dest="queues", help="several times; default: all of the backend"
        )
        parser.add_argument("--concurrency", type=int, default=4, help="tasks at a time, each in a thread")
        parser.add_argument("--runner-id", help="default: the first that no other worker of this machine and user has")
        parser.add_argument(
            "--drain-timeout",
            type=float,
            default=30.0,
            help="seconds that running tasks are waited for; then the process ends and others run them again",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = croniq_backend(options["backend"])
        queues = options["queues"] or sorted(backend.queues)
        unknown = sorted(set(queues) - backend.queues) if backend.queues else []
        if not queues:
            raise CommandError(
                "The backend takes every queue (QUEUES is empty), so --queue says of which tasks are run."
            )
        if unknown:
            raise CommandError(f"Queues of the backend: {', '.join(sorted(backend.queues))}; not {', '.join(unknown)}.")
        if options["concurrency"] < 1:
            raise CommandError("--concurrency is at least 1.")
        if not 0 <= options["drain_timeout"] < math.inf:
            raise CommandError("--drain-timeout is 0 or more.")
        whose = backend.naming.prefix, backend.options["url"], backend.options["api_key"]
        own = options["runner_id"] or os.environ.get("RUNNER_ID")
        with contextlib.nullcontext(own) if own else worker_name(*whose) as name:
            self._work(backend, queues, name, options)

    def _work(self, backend: CroniqBackend, queues: list[str], name: str, options: dict[str, Any]) -> None:
        url, concurrency = backend.options["url"], options["concurrency"]
        try:
            worker = Worker(
                backend, queues, concurrency=concurrency, runner_id=name, drain_seconds=options["drain_timeout"]
            )
        except ValueError as error:  # an address without TLS that is not this machine's
            raise CommandError(f"{error} (allow_insecure_http is one of the backend's OPTIONS.)") from error
        self.stdout.write(f"{name}: tasks of {', '.join(queues)} from {url}, {concurrency} at a time.")
        self.stdout.flush()
        try:
            asyncio.run(worker.run())
        except RunnerOwnershipDeniedError as error:
            raise CommandError(
                f"Croniq refused with 403: the key lacks the scope work:poll, or {name!r} is another client's."
            ) from error
        except (AuthFailedError, PollInstanceConflictError) as error:
            raise CommandError(str(error)) from error
