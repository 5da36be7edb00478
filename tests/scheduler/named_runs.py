"""Runs of all kinds, each with a letter, for what narrows a list of them down: on the page and over the API."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler.models import Run
from tests.factories import JobFactory, QueueEntryFactory, RunFactory

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def ended(job, at, verdict: str = "completed", **fields) -> Run:
    problem = None if verdict == "completed" else verdict
    return RunFactory(job=job, scheduled_for=at, verdict=verdict, problem=problem, finished_at=at, **fields)


def named_runs(now: datetime) -> dict[str, str]:
    """Runs by a letter each."""
    ops = JobFactory(job_key="ops:a", tags=["eu", "night"])
    other = JobFactory(job_key="crm:b", tags=["eu"], tenant="acme")
    plain = JobFactory(job_key="crm:c", tenant="acme")
    made = {
        "a": ended(ops, now - 30 * MINUTE, runner_id="r1", attempt=1),
        "b": ended(ops, now - 2 * HOUR, "dead", runner_id="r2", attempt=3, error="disk full: part-7"),
        "c": ended(other, now - 3 * HOUR, "failed", kind="triggered", attempt=1, error="x" * 3990 + " Disk FULL"),
        "d": ended(other, now - 48 * HOUR, "cancelled", kind="replay", runner_id="r1"),
        "e": QueueEntryFactory(job=ops, attempt=2, run__scheduled_for=now - MINUTE).run,
        "f": QueueEntryFactory(
            job=plain, claimed=True, holder__runner__runner_id="r1", run__scheduled_for=now, run__kind="triggered"
        ).run,
    }
    return {str(run.pk): letter for letter, run in made.items()}
