"""How jobs did lately: their newest ended runs, how many of them went well, how long they took."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from scheduler.models import Run
from scheduler.queries.statistics import percentile
from scheduler.sql.recent import RecentRun, recent_runs

LAST = 20


@dataclass(frozen=True)
class Record:
    """``runs``, oldest first. ``success_rate``, 0 to 1, is that of those which ran to a verdict (None: none did);
    ``p95_ms`` that of the completed ones."""

    runs: tuple[RecentRun, ...]
    success_rate: float | None
    p95_ms: int | None


def records(job_ids: Collection[int], now: datetime) -> dict[int, Record]:
    """Return the record of each job that has one, of its `LAST` newest ended runs. One query."""
    return {job_id: _record(runs) for job_id, runs in recent_runs(job_ids, now, LAST).items()}


def _record(runs: list[RecentRun]) -> Record:
    tried = [run for run in runs if run.verdict in (Run.Verdict.COMPLETED, Run.Verdict.FAILED, Run.Verdict.DEAD)]
    well = [run for run in tried if run.verdict == Run.Verdict.COMPLETED]
    took = sorted(run.duration_ms for run in well if run.duration_ms is not None)
    return Record(tuple(runs), len(well) / len(tried) if tried else None, percentile(took, 0.95))
