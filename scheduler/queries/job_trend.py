"""How long a job's runs take, from run to run: the median and the 95th percentile of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from scheduler.models import Run
from scheduler.queries.statistics import percentile
from scheduler.sql.recent import RecentRun

LOOKED_AT = 2000
"""The trend is that of so many of the newest ended runs."""
MOST_POINTS, LEAST_OF_POINT = 50, 5
LEAST_RUNS = 10


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """``runs`` runs in a row that completed, scheduled for ``first_at`` to ``last_at``."""

    first_at: datetime
    last_at: datetime
    runs: int
    median_ms: int
    p95_ms: int


@dataclass(frozen=True, slots=True)
class Trend:
    """The ``points``, oldest first, are of ``runs`` completed runs, whose median and 95th percentile the others are."""

    points: tuple[TrendPoint, ...]
    runs: int
    median_ms: int
    p95_ms: int


def trend_of(recent: Sequence[RecentRun]) -> Trend | None:
    """The trend of runs, oldest first, among which those count that completed; None where those are fewer than
    `LEAST_RUNS`."""
    well = [run for run in recent if run.verdict == Run.Verdict.COMPLETED and run.duration_ms is not None]
    if len(well) < LEAST_RUNS:
        return None
    number = min(MOST_POINTS, len(well) // LEAST_OF_POINT)
    places = [len(well) * n // number for n in range(number + 1)]
    points = [_point(well[low:high]) for low, high in pairwise(places)]
    return Trend(tuple(points), len(well), *_median_and_p95(well))


def _point(runs: Sequence[RecentRun]) -> TrendPoint:
    return TrendPoint(runs[0].scheduled_for, runs[-1].scheduled_for, len(runs), *_median_and_p95(runs))


def _median_and_p95(runs: Sequence[RecentRun]) -> tuple[int, int]:
    took = sorted(run.duration_ms or 0 for run in runs)
    return percentile(took, 0.5) or 0, percentile(took, 0.95) or 0
