"""Jobs, runs, runners and calendars by what somebody types: a part of a name, or how a run's id begins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from calendars.models import Calendar
from runners.models import Runner
from scheduler.models import Job, Run
from scheduler.queries.jobs import live_jobs
from scheduler.queries.search import contains

MOST_JOBS = 8
MOST_OTHERS = 5
LEAST_DIGITS = 4
"""Of a run's id; fewer are how many names begin."""
MOST_CHARACTERS = 100

_ID = re.compile(f"[0-9a-f]{{{LEAST_DIGITS},32}}")


@dataclass(frozen=True)
class Found:
    """At most `MOST_JOBS` and `MOST_OTHERS` of each kind; runs with the keys of their jobs."""

    jobs: tuple[Job, ...] = ()
    runs: tuple[Run, ...] = ()
    runners: tuple[Runner, ...] = ()
    calendars: tuple[Calendar, ...] = ()


def found(text: str, tenant: str | None = None) -> Found:
    """Return what ``text`` names; of ``tenant`` alone where one is given. At most four queries, none of which reads
    more runs than it returns."""
    text = text.strip()[:MOST_CHARACTERS]
    if not text:
        return Found()
    runners = Runner.objects.filter(contains("runner_id", text)).order_by("runner_id")
    calendars = Calendar.objects.filter(contains("name", text)).order_by("name", "pk")
    if tenant is not None:
        runners, calendars = runners.filter(client__tenant=tenant), calendars.filter(tenant=tenant)
    return Found(
        jobs_like(text, tenant),
        _runs(text, tenant),
        tuple(runners[:MOST_OTHERS]),
        tuple(calendars[:MOST_OTHERS]),
    )


def jobs_like(text: str, tenant: str | None = None, condition: Q | None = None) -> tuple[Job, ...]:
    """Return jobs whose key contains ``text``."""
    jobs = live_jobs(tenant).filter(contains("job_key", text.strip()[:MOST_CHARACTERS])).order_by("job_key")
    return tuple((jobs if condition is None else jobs.filter(condition))[:MOST_JOBS])


def _runs(text: str, tenant: str | None) -> tuple[Run, ...]:
    digits = text.lower().replace("-", "")
    if not _ID.fullmatch(digits):
        return ()
    # A range of the primary key, whatever the number of runs.
    first, last = (UUID(digits.ljust(32, end)) for end in "0f")
    runs = Run.objects.filter(pk__gte=first, pk__lte=last).select_related("job").order_by("-pk")
    if tenant is not None:
        runs = runs.filter(job__tenant=tenant)
    return tuple(runs[:MOST_OTHERS])
