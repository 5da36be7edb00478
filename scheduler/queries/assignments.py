"""What a runner is told about a run that it has claimed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from scheduler.domain.work import Claimed
from scheduler.models import Job

RESERVED = "__"
"""Metadata keys that begin so are Croniq's: no caller can set one, so none can say what is executed."""
ACTION_KEY = "__runner_exec"

FRESH_SECONDS = 1.0
"""How long a job's row may be kept: an edit of what it runs reaches every claim after that."""
_MOST_JOBS = 20_000
_MOST_TOGETHER = 500


@dataclass(frozen=True)
class JobFacts:
    job_key: str
    metadata: dict[str, Any]
    action: dict[str, Any]

    @cached_property
    def told(self) -> dict[str, Any]:
        """The metadata of an assignment whose run has none of its own; shared, so never to be changed."""
        return _told(self, {})


class JobDirectory:
    """The few columns of jobs that assignments need, each read at most once a second."""

    def __init__(self, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._fresh_seconds = fresh_seconds
        self._jobs: dict[int, tuple[float, JobFacts]] = {}
        self._asked: set[int] = set()

    def facts_of(self, job_ids: Iterable[int]) -> dict[int, JobFacts]:
        """Return the facts of each job; a query when one of them is not known or not fresh."""
        tick = time.monotonic()
        wanted = set(job_ids)
        self._asked |= wanted
        known = {job_id: self._jobs.get(job_id) for job_id in wanted}
        stale = [job_id for job_id, kept in known.items() if kept is None or kept[0] <= tick - self._fresh_seconds]
        found = {job_id: kept[1] for job_id, kept in known.items() if kept is not None}
        if stale:
            if len(self._jobs) > _MOST_JOBS:
                self._jobs = {}
            # With them all others that were asked for since the last query: else the time of each would come by itself,
            # and every claim would find one of its jobs stale.
            together = wanted | self._asked if len(self._asked) < _MOST_TOGETHER else wanted
            self._asked = set()
            rows = Job.objects.filter(pk__in=together).values_list("pk", "job_key", "metadata", "action")
            for pk, job_key, metadata, action in rows:
                found[pk] = JobFacts(job_key, metadata or {}, action or {})
                # Fresh since before the query: a row that changes while it is read is read again in time.
                self._jobs[pk] = (tick, found[pk])
        return found


def assignments(claims: Sequence[Claimed], jobs: JobDirectory) -> list[dict[str, Any]]:
    """Return one assignment of the wire protocol a claim, in order."""
    facts = jobs.facts_of(claim.job_id for claim in claims)
    return [_assignment(claim, facts[claim.job_id]) for claim in claims]


def _assignment(claim: Claimed, job: JobFacts) -> dict[str, Any]:
    return {
        "execution_id": str(claim.run_id),
        "job_key": job.job_key,
        "fire_at": instant_text(claim.available_at),
        "scheduled_for": instant_text(claim.scheduled_for),
        "attempt": claim.attempt,
        "metadata": _told(job, claim.metadata) if claim.metadata else job.told,
        "timeout": _seconds_text(claim.timeout_seconds),
        "lease": claim.lease_seconds,
    }


def _told(job: JobFacts, own: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in {**job.metadata, **own}.items() if not key.startswith(RESERVED)}
    if job.action:
        metadata[ACTION_KEY] = job.action
    return metadata


@lru_cache(maxsize=1024)
def _seconds_text(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"  # one number, one unit


def instant_text(instant: datetime) -> str:
    """RFC 3339, ``Z``, always with microseconds. ``instant`` is UTC."""
    return instant.isoformat(timespec="microseconds")[:26] + "Z"
