"""The Croniq jobs behind tasks: one for each task and queue, one for each schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croniq_tasks.envelope import Call

DEFAULTS: dict[str, Any] = {
    # As Django's own backends: who wants retries says so in OPTIONS["job"].
    "max_retries": 0,
    # Producers come in bursts; Croniq's own default is for schedules.
    "max_queue_depth": 10_000,
}


@dataclass(frozen=True, slots=True)
class Naming:
    """``prefix`` tells one Django project from another on the same Croniq."""

    prefix: str

    def job_key(self, queue: str, path: str) -> str:
        return f"{self.prefix}:{queue}:{path}"

    def schedule_key(self, name: str, path: str) -> str:
        return f"{self.prefix}-schedule:{name}:{path}"

    def capability(self, queue: str) -> str:
        """What a worker says that it can do, and a job requires."""
        return f"django:{self.prefix}:{queue}"

    @property
    def schedules_tag(self) -> str:
        return f"{self.prefix}-schedule"

    def job(self, queue: str, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The body of POST /v1/jobs for a task that is enqueued."""
        return {
            **DEFAULTS,
            "description": f"The Django task {path}, queue {queue}.",
            **fields,
            "job_key": self.job_key(queue, path),
            "require": [self.capability(queue)],
            "tags": sorted({"django-task", *fields.get("tags", ())}),
        }

    def scheduled_job(self, name: str, queue: str, call: Call, fields: dict[str, Any]) -> dict[str, Any]:
        """The body of POST /v1/jobs for a task that is scheduled: the call is the job's own metadata."""
        job = self.job(queue, call.path, fields)
        return {
            **job,
            "job_key": self.schedule_key(name, call.path),
            "metadata": call.metadata(),
            "tags": sorted({*job["tags"], self.schedules_tag}),
        }
