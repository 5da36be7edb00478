"""The spans of a run, from its plan or trigger to its end, in one trace whoever makes them.

All ids are derived from the run's: what plans it, what hands it out and what takes its ack are different processes,
and none of them leaves the others a note. Only what a trigger's caller said (its `traceparent`) travels, in the run's
metadata under a reserved key, which no caller can set and none is told.

Nothing here but `tell`, of no spans, is called unless `tracing.active` is set: look there first.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

from croniq_site.kernel import tracing
from croniq_site.kernel.database import IDS_PER_QUERY, chunks, when_committed
from croniq_site.kernel.tracing import Place, place_of
from scheduler.domain.occurrences import of_micro
from scheduler.domain.work import Claimed
from scheduler.models import Job, Run
from scheduler.sql.due import DueJob
from scheduler.sql.planned import PlannedRun

_log = logging.getLogger(__name__)

PARENT_KEY = "__traceparent"
PLAN, CLAIM, RUN = "croniq.plan", "croniq.claim", "croniq.run"
MADE = {"triggered": "croniq.trigger", "replay": "croniq.replay"}


@dataclass(frozen=True)
class EndedAttempt:
    """A claim that is over. ``error`` None: it went well; ``metadata``: the run's own."""

    run_id: UUID
    job_key: str
    metadata: Mapping[str, Any] | None
    attempt: int
    runner_id: str
    outcome: str
    claimed_at: datetime
    ended_at: datetime
    error: str | None = None


def kept_parent(traceparent: str | None) -> dict[str, str]:
    """Return what of a trigger's header goes into the metadata of its run: nothing where it is none."""
    place = place_of(traceparent)
    return {} if place is None else {PARENT_KEY: place.as_traceparent()}


def note_planned(runs: Sequence[PlannedRun], jobs: Iterable[Job | DueJob], now: datetime) -> None:
    """Tell, when the transaction commits, of runs of these jobs that were planned at ``now``."""
    if runs:
        when_committed(_tell_of_planned, runs, {job.pk: job.job_key for job in jobs}, now)


def note_made(run: Run, job_key: str, now: datetime) -> None:
    """Tell, when the transaction commits, of a run that somebody asked for."""
    when_committed(_tell_of_made, run, job_key, now)


def hand_over(claims: Sequence[Claimed], assignments: Sequence[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Put into each assignment where its handler's spans belong, and return the spans of the claims, from when each
    attempt fell due until it was claimed: for `tell`, once the poll is there to hear of them."""
    try:
        return _handed_over(claims, assignments, now)
    except Exception:
        _log.exception("the spans of %d claims are lost", len(claims))  # the runs are handed out all the same
        return []


def _handed_over(claims: Sequence[Claimed], assignments: Sequence[dict[str, Any]], now: datetime) -> list[dict]:
    spans = []
    for claim, assignment in zip(claims, assignments, strict=True):
        run, root = _Run.of(claim.run_id, claim.metadata), _root(claim.run_id)
        assignment["traceparent"] = run.place(_span_id(claim.run_id, RUN, claim.attempt)).as_traceparent()
        about = _about(claim.run_id, assignment["job_key"], claim.scheduled_for)
        spans.append(
            {
                "name": CLAIM,
                "place": run.place(_span_id(claim.run_id, CLAIM, claim.attempt)),
                "parent_id": root,
                "began_at": claim.available_at,
                "ended_at": now,
                "attributes": {**about, "croniq.attempt": claim.attempt},
            }
        )
    return spans


def note_ended(attempts: Sequence[EndedAttempt]) -> None:
    """Tell, when the transaction commits, of claims that are over."""
    if attempts:
        when_committed(_tell_of_ended, attempts)


def note_completed(run_ids: Collection[UUID]) -> None:
    """Tell of runs that were completed a moment ago. Reads them: one query, after their transaction."""
    columns = ("pk", "job__job_key", "metadata", "attempt", "runner_id", "verdict", "claimed_at", "finished_at")
    try:
        for some in chunks(sorted(run_ids), IDS_PER_QUERY):
            rows = Run.objects.filter(pk__in=some, claimed_at__isnull=False).values_list(*columns)
            _tell_of_ended([EndedAttempt(*row) for row in rows])
    except Exception:
        _log.exception("the spans of %d completed runs are lost", len(run_ids))  # their acks are taken all the same


def _tell_of_made(run: Run, job_key: str, now: datetime) -> None:
    about = _about(run.pk, job_key, run.scheduled_for)
    tell([{**_first(run.pk, run.metadata), **_at(now), "name": MADE[run.kind], "attributes": about}])


def _tell_of_planned(runs: Sequence[PlannedRun], job_keys: Mapping[int, str], now: datetime) -> None:
    tell(
        [
            {
                **_first(UUID(run.run_id), None),
                **_at(now),
                "name": PLAN,
                "attributes": _about(run.run_id, job_keys[run.job_id], of_micro(run.scheduled_for)),
            }
            for run in runs
        ]
    )


def _tell_of_ended(attempts: Sequence[EndedAttempt]) -> None:
    tell(
        [
            {
                "name": RUN,
                "place": _Run.of(one.run_id, one.metadata).place(_span_id(one.run_id, RUN, one.attempt)),
                "parent_id": _span_id(one.run_id, CLAIM, one.attempt),
                "began_at": one.claimed_at,
                "ended_at": one.ended_at,
                "attributes": {
                    **_about(one.run_id, one.job_key),
                    "croniq.attempt": one.attempt,
                    "croniq.runner_id": one.runner_id,
                    "croniq.outcome": one.outcome,
                },
                "error": one.error,
            }
            for one in attempts
        ]
    )


def tell(spans: Sequence[Mapping[str, Any]]) -> None:
    """Tell of spans that are over; what becomes of them is nobody's concern."""
    maker = tracing.active
    if maker is None or not spans:
        return
    from croniq_site.kernel.spans import Ended

    try:
        maker.ended([Ended(**span) for span in spans])
    except Exception:
        _log.exception("%d spans are lost", len(spans))  # what they tell of is done, and stays


@dataclass(frozen=True)
class _Run:
    trace_id: int
    is_sampled: bool
    caller_id: int | None

    @classmethod
    def of(cls, run_id: UUID, metadata: Mapping[str, Any] | None) -> _Run:
        caller = place_of(metadata.get(PARENT_KEY)) if metadata else None
        if caller is not None:
            return cls(caller.trace_id, caller.is_sampled, caller.span_id)
        # Hashed: samplers take the lower half for random, and a run's id begins it with the same bits in all.
        trace_id = _digest(run_id, "trace", 16)
        maker = tracing.active
        return cls(trace_id, maker is not None and maker.is_sampled(trace_id), None)

    def place(self, span_id: int) -> Place:
        return Place(self.trace_id, span_id, self.is_sampled)


def _first(run_id: UUID, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    run = _Run.of(run_id, metadata)
    return {"place": run.place(_root(run_id)), "parent_id": run.caller_id}


def _at(now: datetime) -> dict[str, datetime]:
    return {"began_at": now, "ended_at": now}


def _root(run_id: UUID) -> int:
    return _digest(run_id, "root", 8)


def _span_id(run_id: UUID, name: str, attempt: int) -> int:
    return _digest(run_id, f"{name} {attempt}", 8)


def _digest(run_id: UUID, what: str, size: int) -> int:
    return int.from_bytes(blake2b(what.encode(), key=run_id.bytes, digest_size=size).digest()) or 1


def _about(run_id: UUID | str, job_key: str, scheduled_for: datetime | None = None) -> dict[str, str | int]:
    about: dict[str, str | int] = {
        "croniq.execution_id": str(run_id if isinstance(run_id, UUID) else UUID(run_id)),
        "croniq.job_key": job_key,
    }
    if scheduled_for is not None:
        about["croniq.scheduled_for"] = scheduled_for.isoformat()
    return about
