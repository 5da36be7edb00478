"""The Croniq jobs behind tasks: one for each task, queue and priority, one for each schedule."""

from __future__ import annotations

import re
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

    def job_key(self, queue: str, path: str, priority: int = 0) -> str:
        """A priority is a job's: a task that is enqueued with another one has another job."""
        return f"{self.prefix}:{queue}:{path}" + (f"@{int(priority)}" if priority else "")

    def queue_and_priority(self, job_key: str) -> tuple[str, int] | None:
        """What `job_key` made the key of; None for other jobs, those of schedules among them."""
        prefix, _, rest = job_key.partition(":")
        queue, _, name = rest.partition(":")
        found = re.fullmatch(r"[^@]+(?:@(-?[0-9]{1,3}))?", name)
        return (queue, int(found[1] or 0)) if prefix == self.prefix and found else None

    def schedule_key(self, name: str, path: str) -> str:
        return f"{self.prefix}-schedule:{name}:{path}"

    def capability(self, queue: str) -> str:
        """What a worker says that it can do, and a job requires."""
        return f"django:{self.prefix}:{queue}"

    @property
    def schedules_tag(self) -> str:
        return f"{self.prefix}-schedule"

    def is_scheduled(self, job_key: str) -> bool:
        """Whether the key is one of `schedule_key`."""
        return job_key.startswith(f"{self.prefix}-schedule:")

    def job(self, queue: str, path: str, fields: dict[str, Any], priority: int = 0) -> dict[str, Any]:
        """The body of POST /v1/jobs for a task that is enqueued. Its priority is added to that of ``fields``."""
        return {
            **DEFAULTS,
            "description": f"The Django task {path}, queue {queue}" + (f", priority {priority}." if priority else "."),
            **fields,
            **({"priority": fields.get("priority", 0) + int(priority)} if priority else {}),
            "job_key": self.job_key(queue, path, priority),
            "require": [self.capability(queue)],
            "tags": sorted({"django-task", *fields.get("tags", ())}),
        }

    def scheduled_job(
        self, name: str, queue: str, call: Call, fields: dict[str, Any], priority: int = 0
    ) -> dict[str, Any]:
        """The body of POST /v1/jobs for a task that is scheduled: the call is the job's own metadata."""
        job = self.job(queue, call.path, fields, priority)
        return {
            **job,
            "job_key": self.schedule_key(name, call.path),
            "metadata": call.metadata(),
            # Also where it is none: the declaration may have had one, and a field that is left out stays.
            "priority": fields.get("priority", 0) + int(priority),
            "tags": sorted({*job["tags"], self.schedules_tag}),
        }
