"""The materializer's unit of work."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from scheduler.services.materialize import MaterializeSummary, materialize
from scheduler.services.rules import follow_rules


def run_once(now: datetime) -> MaterializeSummary:
    """Plan what is due to be planned, up to 10,000 runs; in a process's first passes also what was planned by other
    rules of zones and holidays. ``is_done`` says whether that was all."""
    is_followed = follow_rules(now)
    summary = materialize(now)
    return replace(summary, is_done=summary.is_done and is_followed)


def pause_seconds(summary: MaterializeSummary, now: datetime, interval: float) -> float:
    """How long to wait after a pass: until the next trigger is due, at most ``interval``. One that is due but that
    somebody else has in hand is looked at again after a quarter of a second."""
    if not summary.is_done:
        return 0.0
    if summary.next_due_at is None:
        return interval
    return min(interval, max(0.25, (summary.next_due_at - now).total_seconds()))
