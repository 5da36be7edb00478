"""The bars of a day as SVG. Written here and not by the page's template: of fifteen hundred bars that would take more
time than all that is read for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString

from scheduler.dashboard.pages import address


@dataclass(frozen=True, slots=True)
class Bar:
    """A run (``run_id`` and ``kind`` its state) or a fire to come (kind coming, thin where it is too narrow to be
    hollow). Places and widths in SVG units; of a wait or a tail that is not there they are empty."""

    run_id: str
    kind: str
    words: str
    x: str
    width: str
    y: int
    wait_x: str
    wait_width: str
    tail_width: str


def drawing_of(bars: Iterable[Bar]) -> SafeString:
    """The bars of one row. A bar of a run leads to its page; ``words`` name a runner, and may be anything."""
    runs = address("runs")
    return SafeString("\n".join(_run(bar, runs) if bar.run_id else _coming(bar) for bar in bars))


def _run(bar: Bar, runs: str) -> str:
    words = escape(bar.words)
    parts = [f'<a href="{runs}/{bar.run_id}" aria-label="{words}"><title>{words}</title>']
    if bar.wait_x:
        parts.append(_rect("wait", bar.wait_x, bar.y + 5, bar.wait_width, "2"))
    if bar.width and bar.kind in ("dead", "failed"):
        # Told by its shape, and not by its colour alone.
        parts.append(_rect("ran bad", bar.x, bar.y, bar.width, "12"))
    elif bar.width:
        parts.append(_rect(f"ran {bar.kind}", bar.x, bar.y + 2, bar.width, "8"))
    return "".join([*parts, "</a>"])


def _coming(bar: Bar) -> str:
    tail = _rect("tail", bar.x, bar.y + 5, bar.tail_width, "1.5") if bar.tail_width else ""
    hollow = _rect(bar.kind, bar.x, bar.y + 2, bar.width, "8", ' vector-effect="non-scaling-stroke"')
    return f"<g><title>{escape(bar.words)}</title>{hollow}{tail}</g>"


def _rect(kind: str, x: str, y: int, width: str, height: str, more: str = "") -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"{more}/>'
