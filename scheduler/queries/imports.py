"""Jobs that came from somewhere else. ``managed_by`` says from where."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.models import Job, Trigger
from scheduler.queries.jobs import live_jobs


class ImportedJob(NamedTuple):
    job: Job
    trigger: Trigger | None


def imported_job(job_key: str, managed_by: str) -> ImportedJob | None:
    """The live job of that key, whoever made it, with the trigger that an import gave it."""
    job = live_jobs().filter(job_key=job_key).first()
    return None if job is None else ImportedJob(job, imported_trigger(job, managed_by))


def imported_trigger(job: Job, managed_by: str) -> Trigger | None:
    return job.triggers.filter(managed_by=managed_by).order_by("created_at", "id").first()


def imported_keys(prefix: str, tenant: str, managed_by: str) -> list[str]:
    """The keys, in order, of the jobs that imports with this prefix made."""
    keys = live_jobs(tenant).filter(managed_by=managed_by, job_key__startswith=f"{prefix}:").order_by("job_key")
    return [key for key in keys.values_list("job_key", flat=True) if ":" not in key[len(prefix) + 1 :]]
