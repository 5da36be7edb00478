"""The newest runs of a job as small bars: the height says how long, shape and colour what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from scheduler.dashboard.times import short_text
from scheduler.dashboard.words import STATES
from scheduler.queries.job_record import LAST, Record
from scheduler.sql.recent import RecentRun
from scheduler.templatetags.croniq import duration_ms

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
    """``words`` say what the bars show; ``drawing`` is the bars as SVG."""

    bars: tuple[Bar, ...]
    drawing: SafeString
    words: str
    success: str
    p95_ms: int | None


def spark_of(record: Record, viewer: str = "") -> Spark:
    """Draw a record; instants are said in the zone ``viewer``. It is written here and not by the page's template: of
    two thousand bars a template would take more time than the whole page may."""
    longest = max((run.duration_ms or 0 for run in record.runs), default=0)
    bars = tuple(_bar(place, run, longest) for place, run in enumerate(record.runs))
    counts = Counter(run.verdict for run in record.runs)
    words = ", ".join(f"{number} {STATES[verdict]}" for verdict, number in sorted(counts.items()))
    rate = record.success_rate
    # Rounded down: what failed once did not go well always.
    success = "" if rate is None else f"{int(rate * 100)} %"
    told = _("The last {number} runs, oldest first: {words}").format(number=len(record.runs), words=words)
    return Spark(bars, _drawing(bars, told, viewer), told, success, record.p95_ms)


def _drawing(bars: Sequence[Bar], words: str, viewer: str) -> SafeString:
    verdicts = {bar.run.verdict for bar in bars}
    said = {verdict: str(STATES[verdict]).lower() for verdict in verdicts}
    return format_html(
        '<svg class="spark" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">{3}</svg>',
        WIDTH,
        HEIGHT,
        words,
        SafeString("".join(_drawn(bar, said[bar.run.verdict], viewer) for bar in bars)),
    )


def _drawn(bar: Bar, words: str, viewer: str) -> str:
    """None of it was written by anybody: numbers, instants and the words of our own states."""
    took = "" if bar.run.duration_ms is None else f", {duration_ms(bar.run.duration_ms)}"
    mark = f'<path class="spark-mark" d="M{bar.x} 0h4l-2 4z"/>' if bar.kind == "bad" else ""
    return (
        f'<rect class="spark-{bar.kind}" x="{bar.x}" y="{bar.y}" width="4" height="{bar.height}">'
        f"<title>{short_text(bar.run.scheduled_for, viewer)}: {words}{took}</title></rect>{mark}"
    )


def _bar(place: int, run: RecentRun, longest: int) -> Bar:
    if run.verdict == "skipped":
        return Bar(6 * place, f"{HEIGHT - 1.5:.1f}", "1.5", "gap", run)
    share = (run.duration_ms or 0) / longest if longest else 0.0
    height = max(_LEAST, share * _ROOM)
    kind = "bad" if run.verdict in _FAILED else "hollow" if run.verdict == "cancelled" else "ran"
    return Bar(6 * place, f"{HEIGHT - height:.1f}", f"{height:.1f}", kind, run)
