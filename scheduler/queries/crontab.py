"""Jobs that came from crontabs."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.models import Job, Trigger
from scheduler.queries.jobs import live_jobs

MANAGED_BY = "crontab"


class ImportedJob(NamedTuple):
    job: Job
    trigger: Trigger | None


def imported_job(job_key: str) -> ImportedJob | None:
    """The live job of that key, whoever made it, with the trigger that an import gave it."""
    job = live_jobs().filter(job_key=job_key).first()
    return None if job is None else ImportedJob(job, imported_trigger(job))


def imported_trigger(job: Job) -> Trigger | None:
    return job.triggers.filter(managed_by=MANAGED_BY).order_by("created_at", "id").first()


def imported_keys(prefix: str, tenant: str) -> list[str]:
    """The keys, in order, of the jobs that imports with this prefix made."""
    keys = live_jobs(tenant).filter(managed_by=MANAGED_BY, job_key__startswith=f"{prefix}:").order_by("job_key")
    return [key for key in keys.values_list("job_key", flat=True) if ":" not in key[len(prefix) + 1 :]]
