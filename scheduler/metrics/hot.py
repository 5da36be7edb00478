"""What this process has handed out and closed since it began, in memory: counted on the hot path without a query.

Services call `note_claimed` and `note_ended` when their transaction is over. Jobs are known by id here, and named only
when somebody asks: a job that is deleted by then is forgotten.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from scheduler.domain.work import Claimed

DELAY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0)
DURATION_BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)


@dataclass
class Spread:
    """A histogram: ``counts[i]`` values lie in bucket i alone; the last is what is beyond all bounds. Seconds."""

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def absorb(self, other: Spread) -> None:
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


@dataclass
class Counts:
    """Claims and their delays; ended runs by (job id, outcome); durations of completed runs by job id."""

    claimed: int = 0
    delays: Spread = field(default_factory=lambda: Spread(DELAY_BUCKETS))
    ended: dict[tuple[int, str], int] = field(default_factory=dict)
    durations: dict[int, Spread] = field(default_factory=dict)

    def absorb(self, other: Counts) -> None:
        self.claimed += other.claimed
        self.delays.absorb(other.delays)
        for key, count in other.ended.items():
            self.ended[key] = self.ended.get(key, 0) + count
        for job_id, spread in other.durations.items():
            self.durations.setdefault(job_id, Spread(DURATION_BUCKETS)).absorb(spread)

    @property
    def job_ids(self) -> set[int]:
        return {job_id for job_id, _ in self.ended} | self.durations.keys()

    def forget(self, job_ids: Collection[int]) -> None:
        self.ended = {key: count for key, count in self.ended.items() if key[0] not in job_ids}
        self.durations = {job_id: spread for job_id, spread in self.durations.items() if job_id not in job_ids}


_lock = threading.Lock()
_counts = Counts()


def note_claimed(claims: Iterable[Claimed], now: datetime) -> None:
    """Count claims, each with the seconds from when its attempt fell due (never below 0)."""
    delays = [max(0.0, (now - claim.available_at).total_seconds()) for claim in claims]
    with _lock:
        _counts.claimed += len(delays)
        for delay in delays:
            _counts.delays.add(delay)


def note_ended(runs: Iterable[tuple[int, str, int | None]]) -> None:
    """Count runs that ended by an ack: (job id, verdict, milliseconds of a completed one; None: not to be measured)."""
    with _lock:
        for job_id, outcome, duration_ms in runs:
            key = job_id, outcome
            _counts.ended[key] = _counts.ended.get(key, 0) + 1
            if duration_ms is not None:
                spread = _counts.durations.get(job_id)
                if spread is None:
                    spread = _counts.durations[job_id] = Spread(DURATION_BUCKETS)
                spread.add(duration_ms / 1000)


def counted() -> Counts:
    """Return a copy of what was counted."""
    copy = Counts()
    with _lock:
        copy.absorb(_counts)
    return copy


def job_ids() -> set[int]:
    """Return the jobs of which something was counted."""
    with _lock:
        return _counts.job_ids


def forget(job_ids: Collection[int]) -> None:
    """Drop what was counted of these jobs: they are gone, and ids are not given twice."""
    with _lock:
        _counts.forget(job_ids)


def reset() -> None:
    """Begin anew, as a process that has just been started (also one that was forked)."""
    global _counts
    with _lock:
        _counts = Counts()
