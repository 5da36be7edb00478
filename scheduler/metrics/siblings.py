"""What the processes of one `serve --processes N` have counted, together: a scrape meets any one of them.

Each writes down what it has counted, every few seconds and before it tells it; who is scraped adds up all that is
written. So no number that was told once is ever told lower, whoever tells it. (prometheus_client's own mode for many
processes lets no series end, and has no place for collectors.)
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import REGISTRY, disable_created_metrics
from prometheus_client.core import Metric

from scheduler.metrics import hot
from scheduler.metrics.hot import DELAY_BUCKETS, DURATION_BUCKETS, Counts, Spread

disable_created_metrics()  # an instant a series, of a process that has siblings

_ADDED_UP = ("counter", "histogram")


@dataclass(frozen=True)
class _Place:
    directory: Path
    number: int


_place: _Place | None = None
_lock = threading.Lock()


def join(directory: Path, number: int) -> None:
    """Be the process ``number`` of those that share ``directory``, and begin to count anew."""
    global _place
    _place = _Place(directory, number)
    hot.reset()


def leave() -> None:
    """Have no siblings, as at the start."""
    global _place
    _place = None


def publish() -> None:
    """Write down what this process has counted, if it has siblings."""
    if _place is None:
        return
    with _lock:
        families = [
            [family.name, [[sample.name, sample.labels, sample.value] for sample in family.samples]]
            for family in REGISTRY.collect()
            if family.type in _ADDED_UP
        ]
        part = _place.directory / f"{_place.number}.part"
        part.write_bytes(orjson.dumps({"counts": _written(hot.counted()), "families": families}))
        part.replace(_place.directory / f"{_place.number}.json")


def everybody() -> tuple[Counts, list[Metric]]:
    """Return what all processes have counted: our own counts, and the series of the client library's registry, of which
    those that do not add up (memory, start) are this process's."""
    if _place is None:
        return hot.counted(), list(REGISTRY.collect())
    publish()
    counts = Counts()
    sums: dict[str, dict[tuple[str, Any], float]] = {}
    for path in sorted(_place.directory.glob("*.json")):
        told = orjson.loads(path.read_bytes())
        counts.absorb(_read(told["counts"]))
        for name, samples in told["families"]:
            family = sums.setdefault(name, {})
            for sample, labels, value in samples:
                key = sample, tuple(labels.items())
                family[key] = family.get(key, 0.0) + value
    return counts, [_of_all(family, sums) for family in REGISTRY.collect()]


def _of_all(family: Metric, sums: dict[str, dict[tuple[str, Any], float]]) -> Metric:
    if family.type not in _ADDED_UP:
        return family
    whole = Metric(family.name, family.documentation, family.type, family.unit)
    for (sample, labels), value in sums.get(family.name, {}).items():
        whole.add_sample(sample, dict(labels), value)
    return whole


def _written(counts: Counts) -> dict[str, Any]:
    return {
        "claimed": counts.claimed,
        "delays": [counts.delays.counts, counts.delays.sum],
        "ended": [[*key, count] for key, count in counts.ended.items()],
        "durations": [[job_id, spread.counts, spread.sum] for job_id, spread in counts.durations.items()],
    }


def _read(told: dict[str, Any]) -> Counts:
    return Counts(
        told["claimed"],
        Spread(DELAY_BUCKETS, *told["delays"]),
        {(job_id, outcome): count for job_id, outcome, count in told["ended"]},
        {job_id: Spread(DURATION_BUCKETS, counts, total) for job_id, counts, total in told["durations"]},
    )
