"""`manage.py croniq_worker`: run tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from croniq_tasks.backend import CroniqBackend
from croniq_tasks.compat import task_backends
from croniq_tasks.worker import Worker


class Command(BaseCommand):
    help = "Run tasks that Croniq hands out, until SIGTERM or SIGINT; what has begun is finished."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="its name in TASKS")
        parser.add_argument(
            "--queue", action="append", dest="queues", help="several times; default: all of the backend"
        )
        parser.add_argument("--concurrency", type=int, default=4, help="tasks at a time, each in a thread")
        parser.add_argument("--runner-id", help="default: one that is kept in the SDK's state directory")
        parser.add_argument(
            "--drain-timeout", type=float, default=30.0, help="seconds that running tasks are waited for"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, CroniqBackend):
            raise CommandError(f"TASKS[{options['backend']!r}] is no backend of Croniq's.")
        queues = options["queues"] or sorted(backend.queues)
        unknown = sorted(set(queues) - backend.queues) if backend.queues else []
        if unknown or not queues:
            raise CommandError(f"Queues of the backend: {', '.join(sorted(backend.queues))}; not {', '.join(unknown)}.")
        if options["concurrency"] < 1:
            raise CommandError("--concurrency is at least 1.")
        worker = Worker(
            backend,
            queues,
            concurrency=options["concurrency"],
            runner_id=options["runner_id"],
            drain_seconds=options["drain_timeout"],
        )
        self.stdout.write(
            f"Tasks of {', '.join(queues)} from {backend.options['url']}, {options['concurrency']} at a time."
        )
        self.stdout.flush()
        asyncio.run(worker.run())
