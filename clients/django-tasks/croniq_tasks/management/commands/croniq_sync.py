"""`manage.py croniq_sync`: tell Croniq the schedules of this project's tasks."""

from __future__ import annotations

from typing import Any

import httpx
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from croniq_tasks.api import CroniqRefused
from croniq_tasks.backend import CroniqBackend
from croniq_tasks.compat import task_backends
from croniq_tasks.jobs import Naming
from croniq_tasks.management.backends import croniq_backend
from croniq_tasks.schedules import Schedule, declared


class Command(BaseCommand):
    help = "Make and update the Croniq jobs of all tasks with @scheduled. Part of a deployment."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="its name in TASKS")
        parser.add_argument("--prune", action="store_true", help="delete the jobs of schedules that are gone")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = croniq_backend(options["backend"])
        autodiscover_modules("tasks")
        # Another backend of this project may be the same project at the same Croniq: what it has is not gone.
        ours = [
            schedule
            for schedule in declared.values()
            if _place(task_backends[schedule.task.backend]) == _place(backend)
        ]
        try:
            refused = [
                told
                for schedule in ours
                if schedule.task.backend == backend.alias
                if (told := self._declare(backend, schedule))
            ]
            if refused:
                raise CommandError("\n".join(refused))
            if options["prune"]:
                self._prune(backend, {_job_key(backend, schedule) for schedule in ours})
        except CroniqRefused as refusal:
            raise CommandError(f"Croniq refused: {refusal}") from refusal
        except httpx.TransportError as error:
            raise CommandError(f"Croniq at {backend.options['url']} does not answer: {error}") from error

    def _declare(self, backend: CroniqBackend, schedule: Schedule) -> str | None:
        """Make or change its job. Return what is wrong with it: the others are none the worse for that."""
        queue = schedule.task.queue_name
        fields = {**backend.job_fields, **schedule.job}
        job = backend.naming.scheduled_job(schedule.name, queue, schedule.call, fields, schedule.task.priority)
        body = schedule.registration(job["job_key"], backend.naming.capability(queue))
        try:
            backend.api.post("/v1/jobs", job)
            trigger_id = backend.api.post("/v1/jobs/register", body)["trigger_id"]
        except CroniqRefused as refusal:
            if refusal.status != 400:
                raise
            return f"{job['job_key']}: Croniq refused: {refusal}"
        # A registration that leaves them out has no opinion; this declaration has.
        dropped = {name: None for name in ("timezone", "calendar") if name not in body}
        if dropped and trigger_id is not None:
            backend.api.put(f"/v1/schedules/{trigger_id}", dropped)
        self.stdout.write(f"{job['job_key']}: {schedule.schedule}")
        return None

    def _prune(self, backend: CroniqBackend, kept: set[str]) -> None:
        for job in list(backend.api.pages("/v1/jobs", tag=backend.naming.schedules_tag)):
            # The tag is what the list is asked by; anybody may have given it to a job of his own.
            is_gone = backend.naming.is_scheduled(job["job_key"]) and job["job_key"] not in kept
            if is_gone and backend.api.delete_job(job["job_key"]):
                self.stdout.write(f"{job['job_key']}: deleted")


def _place(backend: Any) -> tuple[str, Naming] | None:
    return (backend.options["url"], backend.naming) if isinstance(backend, CroniqBackend) else None


def _job_key(backend: CroniqBackend, schedule: Schedule) -> str:
    return backend.naming.schedule_key(schedule.name, schedule.call.path)
