"""The attempts of a run on one line of time: how long each waited and ran, and how long its lease is good for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler.queries.run_compare import due_at
from scheduler.queries.run_story import Claim
from scheduler.queries.runs import AttemptRow, RunDetail

WIDTH = 1000
MOST_LANES = 40
_LEAST = 2.0
_BAD = ("failed", "timed_out", "lost")


@dataclass(frozen=True, slots=True)
class Lane:
    """An attempt, or (``attempt`` None) the wait for the next. Places are in thousandths of the whole; "" is not drawn.
    ``beat_x``: the last sign of life of the one that runs; ``waited`` None where that is not known."""

    attempt: AttemptRow | None
    wait_x: str
    wait_width: str
    x: str
    width: str
    is_bad: bool
    beat_x: str
    waited: timedelta | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """From ``start`` (the run fell due) to ``end`` (it ended, or now). ``left_out`` earlier attempts are not drawn."""

    start: datetime
    end: datetime
    lanes: tuple[Lane, ...]
    left_out: int
    is_open: bool


def timeline_of(detail: RunDetail, claim: Claim | None, now: datetime) -> Timeline | None:
    """None of a run that nobody has claimed and that does not wait yet."""
    run = detail.row
    start = due_at(run)
    begun = [attempt.claimed_at for attempt in detail.attempts if attempt.claimed_at is not None]
    start = min([start, *begun])
    end = run.completed_at or now
    if end <= start and not detail.attempts:
        return None
    end = max([end, start + timedelta(milliseconds=1), *begun])
    lanes = tuple(_lanes(detail, claim, start, end))
    return Timeline(start, end, lanes[-MOST_LANES:], max(0, len(lanes) - MOST_LANES), run.completed_at is None)


def _lanes(detail: RunDetail, claim: Claim | None, start: datetime, end: datetime) -> Iterator[Lane]:
    free_at: datetime = start
    for attempt in detail.attempts:
        began, ended = attempt.claimed_at, attempt.ended_at or end
        if began is None:
            continue
        beat = claim.beat_at if claim is not None and attempt.outcome == "running" else None
        yield Lane(
            attempt,
            *_stretch(free_at, began, start, end),
            *_stretch(began, ended, start, end, least=_LEAST),
            is_bad=attempt.outcome in _BAD,
            beat_x=_text(_place(beat, start, end)) if beat is not None else "",
            waited=max(timedelta(0), began - free_at),
        )
        free_at = ended
    if detail.row.state == "queued" and free_at < end:
        yield Lane(None, *_stretch(free_at, end, start, end), "", "", is_bad=False, beat_x="", waited=end - free_at)


def _stretch(since: datetime, until: datetime, start: datetime, end: datetime, least: float = 0.0) -> tuple[str, str]:
    """Place and width; nothing where it is too short to be seen and needs not be."""
    x = _place(since, start, end)
    width = max(_place(until, start, end) - x, least)
    return ("", "") if width <= 0 else (_text(min(x, WIDTH - least)), _text(width))


def _place(at: datetime, start: datetime, end: datetime) -> float:
    return max(0.0, min(1.0, (at - start) / (end - start))) * WIDTH


def _text(value: float) -> str:
    return f"{value:.1f}"
