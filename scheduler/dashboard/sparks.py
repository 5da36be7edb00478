"""The newest runs of a job as small bars: the height says how long, shape and colour what became of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.utils.translation import gettext as _

from scheduler.dashboard.words import STATES
from scheduler.queries.job_record import LAST, Record
from scheduler.sql.recent import RecentRun

WIDTH, HEIGHT = 6 * LAST, 24
TOP = 5
"""What failed has its mark up there, above the highest bar."""
_ROOM = HEIGHT - TOP
_LEAST = 3.0
_FAILED = ("failed", "dead")


@dataclass(frozen=True, slots=True)
class Bar:
    """In SVG units. ``kind``: ran, bad (has a mark above it), hollow (cancelled) or gap (skipped: a line)."""

    x: int
    y: str
    height: str
    kind: str
    run: RecentRun


@dataclass(frozen=True, slots=True)
class Spark:
    """``words`` say what the bars show."""

    bars: tuple[Bar, ...]
    words: str
    success: str
    p95_ms: int | None


def spark_of(record: Record) -> Spark:
    longest = max((run.duration_ms or 0 for run in record.runs), default=0)
    bars = tuple(_bar(place, run, longest) for place, run in enumerate(record.runs))
    counts = Counter(run.verdict for run in record.runs)
    words = ", ".join(f"{number} {STATES[verdict]}" for verdict, number in sorted(counts.items()))
    rate = record.success_rate
    # Rounded down: what failed once did not go well always.
    success = "" if rate is None else f"{int(rate * 100)} %"
    told = _("The last {number} runs, oldest first: {words}").format(number=len(record.runs), words=words)
    return Spark(bars, told, success, record.p95_ms)


def _bar(place: int, run: RecentRun, longest: int) -> Bar:
    if run.verdict == "skipped":
        return Bar(6 * place, f"{HEIGHT - 1.5:.1f}", "1.5", "gap", run)
    share = (run.duration_ms or 0) / longest if longest else 0.0
    height = max(_LEAST, share * _ROOM)
    kind = "bad" if run.verdict in _FAILED else "hollow" if run.verdict == "cancelled" else "ran"
    return Bar(6 * place, f"{HEIGHT - height:.1f}", f"{height:.1f}", kind, run)
