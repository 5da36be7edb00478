"""Which jobs a person means, by text, tag, status and source: for the list, and for what is done to all of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from croniq_site.kernel.errors import InvalidInput
from scheduler.models import Job, Lane, Trigger
from scheduler.queries.jobs import live_jobs
from scheduler.queries.search import contains
from scheduler.queries.situation import failing_runs, overdue_jobs
from scheduler.sql.arrays import ArrayHolds

STATUSES = ("active", "paused", "inactive", "failing", "overdue", "broken")
"""The last three are what is wrong with a job: as the page "Now" says it, and a schedule with a config_error."""
SOURCES = ("file", "runner", "api", "admin", "demo")


@dataclass(frozen=True)
class JobChoice:
    """Empty is any. ``text`` is looked for in keys and descriptions; ``status`` is one of `STATUSES`, ``source`` of
    `SOURCES`, ``needs`` a capability that runs of the job require."""

    text: str = ""
    tag: str = ""
    status: str = ""
    source: str = ""
    needs: str = ""

    def __post_init__(self) -> None:
        for field, value, known in (("status", self.status, STATUSES), ("source", self.source, SOURCES)):
            if value and value not in known:
                raise InvalidInput.of(field, f"{field} is one of {', '.join(known)}.")


def chosen_jobs(choice: JobChoice, now: datetime, job_ids: Collection[int] | None = None) -> QuerySet[Job]:
    """Return the live jobs of a choice by key; of ``job_ids`` alone where they are given."""
    jobs = live_jobs().order_by("job_key")
    if choice.text:
        jobs = jobs.filter(contains("job_key", choice.text) | contains("description", choice.text))
    if choice.tag:
        jobs = jobs.filter(ArrayHolds("tags", choice.tag))
    if choice.status in ("active", "paused", "inactive"):
        jobs = jobs.filter(is_active=choice.status != "inactive")
    if choice.status in ("active", "paused"):
        jobs = jobs.filter(paused_at__isnull=choice.status == "active")
    if choice.status == "failing":
        jobs = jobs.filter(pk__in=failing_runs(now).values("job_id"))
    if choice.status == "overdue":
        jobs = jobs.filter(job_key__in=overdue_jobs(now))
    if choice.status == "broken":
        jobs = jobs.filter(pk__in=Trigger.objects.exclude(config_error="").values("job_id"))
    if choice.needs:
        jobs = jobs.filter(lane__in=Lane.objects.filter(ArrayHolds("require", choice.needs)))
    if choice.source:
        jobs = jobs.filter(managed_by=choice.source)
    return jobs if job_ids is None else jobs.filter(pk__in=job_ids)
