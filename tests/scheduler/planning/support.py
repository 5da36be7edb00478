"""Jobs, triggers and questions that many stories about planning share. Rows are made by the services themselves."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from runners.domain.scopes import Principal
from runners.models import ApiClient
from runners.services.audit import Actor
from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.services.jobs import save_job
from scheduler.services.triggers import save_trigger

ACTOR = Actor("user", "tester")


def principal(*scopes: str, tenant: str | None = None, client: ApiClient | None = None) -> Principal:
    return Principal(client.pk if client else 0, client.name if client else "somebody", tenant, frozenset(scopes))


def make_job(now: datetime, job_key: str = "demo:job", **fields: Any) -> Job:
    return save_job({"job_key": job_key, **fields}, now, ACTOR)[0]


def make_trigger(job: Job, now: datetime, **fields: Any) -> Trigger:
    return save_trigger(job, fields or {"every": "5s"}, now, actor=ACTOR)[0]


def planned(job: Job) -> list[datetime]:
    """The instants of the job's scheduled runs that wait, ascending."""
    entries = QueueEntry.objects.filter(job=job, run__kind="scheduled").order_by("run__scheduled_for")
    return list(entries.values_list("run__scheduled_for", flat=True))


def ids(job: Job) -> dict[datetime, Any]:
    return dict(Run.objects.filter(job=job).values_list("scheduled_for", "pk"))
