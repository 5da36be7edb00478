"""`manage.py croniq_sync`: tell Croniq the schedules of this project's tasks."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from croniq_tasks.api import CroniqRefused
from croniq_tasks.backend import CroniqBackend
from croniq_tasks.compat import task_backends
from croniq_tasks.schedules import declared


class Command(BaseCommand):
    help = "Make and update the Croniq jobs of all tasks with @scheduled. Part of a deployment."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="its name in TASKS")
        parser.add_argument("--prune", action="store_true", help="delete the jobs of schedules that are gone")

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, CroniqBackend):
            raise CommandError(f"TASKS[{options['backend']!r}] is no backend of Croniq's.")
        autodiscover_modules("tasks")
        try:
            kept = self._declare(backend)
            if options["prune"]:
                self._prune(backend, kept)
        except CroniqRefused as refusal:
            raise CommandError(f"Croniq refused: {refusal}") from refusal

    def _declare(self, backend: CroniqBackend) -> set[str]:
        kept = set()
        for schedule in declared.values():
            if schedule.task.backend != backend.alias:
                continue
            queue = schedule.task.queue_name
            fields = {**backend.job_fields, **schedule.job}
            job = backend.naming.scheduled_job(schedule.name, queue, schedule.call, fields, schedule.task.priority)
            backend.api.post("/v1/jobs", job)
            body = schedule.registration(job["job_key"], backend.naming.capability(queue))
            trigger_id = backend.api.post("/v1/jobs/register", body)["trigger_id"]
            # A registration that leaves them out has no opinion; this declaration has.
            dropped = {name: None for name in ("timezone", "calendar") if name not in body}
            if dropped and trigger_id is not None:
                backend.api.put(f"/v1/schedules/{trigger_id}", dropped)
            self.stdout.write(f"{job['job_key']}: {schedule.schedule}")
            kept.add(job["job_key"])
        return kept

    def _prune(self, backend: CroniqBackend, kept: set[str]) -> None:
        for job in list(backend.api.pages("/v1/jobs", tag=backend.naming.schedules_tag)):
            # The tag is what the list is asked by; anybody may have given it to a job of his own.
            if backend.naming.is_scheduled(job["job_key"]) and job["job_key"] not in kept:
                backend.api.delete(f"/v1/jobs/{job['job_key']}")
                self.stdout.write(f"{job['job_key']}: deleted")
