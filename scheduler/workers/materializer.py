"""The materializer's unit of work."""

from __future__ import annotations

from datetime import datetime

from scheduler.services.materialize import MaterializeSummary, materialize


def run_once(now: datetime) -> MaterializeSummary:
    """Plan what is due to be planned, up to 10,000 runs; ``is_done`` says whether that was all."""
    return materialize(now)


def pause_seconds(summary: MaterializeSummary, now: datetime, interval: float) -> float:
    """How long to wait after a pass: until the next trigger is due, at most ``interval``. One that is due but that
    somebody else has in hand is looked at again after a quarter of a second."""
    if not summary.is_done:
        return 0.0
    if summary.next_due_at is None:
        return interval
    return min(interval, max(0.25, (summary.next_due_at - now).total_seconds()))
