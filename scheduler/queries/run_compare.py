"""What is different about a run beside the last one of its job that went well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Left

from scheduler.domain.fingerprints import fingerprint_of
from scheduler.domain.inputs import public_metadata
from scheduler.models import Run, RunLog
from scheduler.queries.runs import RunDetail, RunRow, runs_of_ids

LOOKED_AT = 1_000
"""Runs of the job before this one among which the last good one is looked for."""
MOST_LINES = 1_000
"""Lines of a log that are compared, and how much of each."""
LINE_CHARACTERS = 300


@dataclass(frozen=True)
class Line:
    level: str
    message: str


@dataclass(frozen=True)
class LineDifference:
    """The first line, counted from 1, in which the logs of the last attempts differ by more than numbers, ids and
    paths; None: the log has ended before it."""

    number: int
    here: Line | None
    there: Line | None


@dataclass(frozen=True)
class MetadataDifference:
    """What one of the runs was given of its own; None: that one was not."""

    name: str
    here: Any
    there: Any


@dataclass(frozen=True)
class Comparison:
    """A run beside ``other``. Waits are from the instant at which a run fell due to its last start. ``line`` None: the
    logs do not differ as far as they were compared (``lines`` of each at most)."""

    other: RunRow
    wait_here: timedelta | None
    wait_there: timedelta | None
    metadata: tuple[MetadataDifference, ...]
    line: LineDifference | None
    lines: int


def compare_with_last_good(detail: RunDetail, now: datetime) -> Comparison | None:
    """Compare with the newest run of the job before this one that completed, among the `LOOKED_AT` before it; None if
    there is none. Four queries."""
    run = detail.row
    earlier = Run.objects.filter(job_id=run.job_id, scheduled_for__lte=run.scheduled_for)
    earlier = earlier.filter(Q(scheduled_for__lt=run.scheduled_for) | Q(id__lt=run.id))
    order = ("-scheduled_for", "-id")
    # The nearest ones first, then the good ones among them: a job that always fails has no short way to its last good.
    nearest = earlier.order_by(*order).values("pk")[:LOOKED_AT]
    good = Run.objects.filter(pk__in=nearest, verdict=Run.Verdict.COMPLETED).order_by(*order)
    found = good.values_list("pk", "metadata").first()
    if found is None:
        return None
    other_id, metadata = found
    others = runs_of_ids([other_id], now)
    if not others:
        return None  # retention has thrown it away since
    (other,) = others
    here, there = _lines(run.id, run.attempt), _lines(other.id, other.attempt)
    return Comparison(
        other=other,
        wait_here=wait_of(run),
        wait_there=wait_of(other),
        metadata=tuple(_metadata(detail.metadata, public_metadata(metadata))),
        line=_first_difference(here, there),
        lines=min(max(len(here), len(there)), MOST_LINES),
    )


def due_at(run: RunRow) -> datetime:
    """When the run fell due first: what was made later than its instant did so when it was made."""
    return max(run.scheduled_for, run.created_at)


def wait_of(run: RunRow) -> timedelta | None:
    return None if run.claimed_at is None else max(timedelta(0), run.claimed_at - due_at(run))


def _metadata(here: dict[str, Any], there: dict[str, Any]) -> Sequence[MetadataDifference]:
    names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
    return [MetadataDifference(name, here.get(name), there.get(name)) for name in names]


def _lines(run_id: UUID, attempt: int) -> list[Line]:
    rows = RunLog.objects.filter(run_id=run_id, attempt=attempt).order_by("id")
    head = Left("message", LINE_CHARACTERS)
    return [Line(level, text) for level, text in rows.annotate(head=head).values_list("level", "head")[:MOST_LINES]]


def _first_difference(here: list[Line], there: list[Line]) -> LineDifference | None:
    for number, (one, other) in enumerate(zip_longest(here, there), start=1):
        if one is None or other is None or _differ(one, other):
            return LineDifference(number, one, other)
    return None


def _differ(one: Line, other: Line) -> bool:
    if one == other:
        return False
    return one.level != other.level or fingerprint_of(one.message, "") != fingerprint_of(other.message, "")
