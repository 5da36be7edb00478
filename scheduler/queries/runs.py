"""Runs with their live state: while a run is unfinished, that of its queue entry; afterwards its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Greatest, Left

from croniq_site.kernel.text import CUT_MARK
from scheduler.domain.inputs import public_metadata
from scheduler.models import Attempt, Job, QueueEntry, Run
from scheduler.queries.search import contains

STATES = ("queued", "claimed", *Run.Verdict.values)
"""What a run can be, as the wire says it."""

LIST_ERROR_CHARACTERS = 4000
"""Most characters of an error in a list; the whole of it is in the detail."""

_WAITING = (QueueEntry.State.READY, QueueEntry.State.GATED, QueueEntry.State.HELD)
ENTRY_STATES: Mapping[str, tuple[QueueEntry.State, ...]] = {
    "queued": _WAITING,
    "waiting": (QueueEntry.State.READY, QueueEntry.State.GATED),
    "held": (QueueEntry.State.HELD,),
    "claimed": (QueueEntry.State.CLAIMED,),
}
"""What an unfinished run can be: as the wire says it, and of what is queued apart what a pause holds."""
LISTED_STATES = (*ENTRY_STATES, *Run.Verdict.values)
"""What the pages' lists can be narrowed down to."""
_SAID_BEFOREHAND = tuple(verdict for verdict in Run.Verdict if verdict != Run.Verdict.SKIPPED)
"""Verdicts that are news also before their run is due. Of a fire that was taken out it is news when that would come."""
PROBLEMS = (Run.Verdict.FAILED, Run.Verdict.DEAD, Run.Verdict.CANCELLED, Run.Verdict.SKIPPED)
WITH_ERRORS = (Run.Verdict.FAILED, Run.Verdict.DEAD)
"""Verdicts of runs that ended with an error."""


@dataclass(frozen=True)
class RunFilter:
    """Which runs. ``tenant`` None: all. ``state``: one of `LISTED_STATES`. ``since`` inclusive and ``until`` exclusive,
    of ``scheduled_for``.

    ``planned``: also those that are not due yet and were never claimed, and fires to come that were taken out.
    ``job_ids``: of these jobs alone. ``least_attempt``: this attempt or a later one. ``error_text``: part of the first
    `LIST_ERROR_CHARACTERS` of the error with which the run ended, whatever the case of its letters.
    """

    tenant: str | None = None
    job_key: str | None = None
    state: str | None = None
    runner_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    planned: bool = False
    job_ids: tuple[int, ...] | None = None
    kind: str | None = None
    least_attempt: int | None = None
    error_text: str | None = None

    @property
    def is_by_entries(self) -> bool:
        """Whether they are found by their queue entries, which are few."""
        return self.state in ENTRY_STATES


@dataclass(frozen=True)
class RunRow:
    """One run. ``fire_at`` is when its current attempt fell due; None where that is not recorded any more (a finished
    run that was retried). ``attempt`` 0 was never claimed."""

    id: UUID
    job_id: int
    job_key: str
    tenant: str
    kind: str
    state: str
    attempt: int
    scheduled_for: datetime
    fire_at: datetime | None
    runner_id: str
    claimed_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    error: str
    reason: str
    created_at: datetime
    is_planned: bool
    is_winding_down: bool


@dataclass(frozen=True)
class AttemptRow:
    """One attempt; ``outcome`` is running, completed, failed, timed_out, lost or cancelled."""

    attempt: int
    outcome: str
    cause: str
    runner_id: str
    claimed_at: datetime | None
    ended_at: datetime | None
    duration_ms: int | None
    error: str


@dataclass(frozen=True)
class RunDetail:
    """``replay_of``: the run that died and is done once more by this one."""

    row: RunRow
    occurrence_at: datetime
    metadata: dict[str, Any]
    attempts: tuple[AttemptRow, ...]
    replay_of: UUID | None


def run_list(
    now: datetime, filters: RunFilter, limit: int, before: tuple[datetime, UUID] | None = None
) -> list[RunRow]:
    """Return at most ``limit`` runs, newest ``scheduled_for`` first, those after ``before`` (scheduled_for, id)."""
    rows = filtered_runs(now, filters)
    if before is not None:
        at, run_id = before
        # The first condition says nothing new: it is what the index can begin at.
        rows = rows.filter(scheduled_for__lte=at).filter(Q(scheduled_for__lt=at) | Q(id__lt=run_id))
    rows = newest_first(rows, by_entries=filters.is_by_entries or filters.error_text is not None)
    rows = rows.annotate(error_head=Left("error", LIST_ERROR_CHARACTERS + 1))
    return [_row(values, now) for values in rows.values(*_COLUMNS, "error_head")[:limit]]


def runs_of_ids(run_ids: Sequence[UUID], now: datetime) -> list[RunRow]:
    """Return these runs, newest first; those that are gone are left out."""
    rows = newest_first(Run.objects.filter(pk__in=run_ids), by_entries=True)
    rows = rows.annotate(error_head=Left("error", LIST_ERROR_CHARACTERS + 1))
    return [_row(values, now) for values in rows.values(*_COLUMNS, "error_head")]


def newest_first(runs: QuerySet[Run], *, by_entries: bool) -> QuerySet[Run]:
    """Order ``runs``. ``by_entries``: they are few, and are found by their queue entries (or by their problem)."""
    instant = F("scheduled_for")
    if by_entries:
        # PostgreSQL would rather walk all history along the index that has the order, hoping to meet them soon; of an
        # expression there is no index.
        instant = Greatest(instant, instant)
    return runs.order_by(instant.desc(), "-id")


def planned_runs(
    now: datetime, limit: int, job_key: str | None = None, after: tuple[datetime, UUID] | None = None
) -> list[RunRow]:
    """Return at most ``limit`` runs that are not due yet and were never claimed, and fires to come that were taken out,
    soonest first, from past ``after``."""
    rows = filtered_runs(now, RunFilter(job_key=job_key, planned=True)).filter(scheduled_for__gt=now)
    rows = rows.filter(Q(entry__state__in=_WAITING, entry__attempt=0) | Q(problem=Run.Verdict.SKIPPED))
    if after is not None:
        at, run_id = after
        rows = rows.filter(scheduled_for__gte=at).filter(Q(scheduled_for__gt=at) | Q(id__gt=run_id))
    rows = rows.annotate(error_head=Left("error", 1)).order_by("scheduled_for", "id")
    return [_row(values, now) for values in rows.values(*_COLUMNS, "error_head")[:limit]]


def run_detail(run_id: UUID, now: datetime, tenant: str | None = None) -> RunDetail | None:
    """Return one run with all its attempts in order; None if there is none or it is another tenant's."""
    rows = _of_tenant(Run.objects.filter(id=run_id), tenant)
    values = rows.values(*_COLUMNS, "error", "occurrence_at", "metadata", "replay_of_id").first()
    if values is None:
        return None
    row = _row(values, now)
    attempts = [
        AttemptRow(**attempt)
        for attempt in Attempt.objects.filter(run_id=run_id)
        .order_by("attempt")
        .values("attempt", "outcome", "cause", "runner_id", "claimed_at", "ended_at", "duration_ms", "error")
    ]
    if row.attempt and row.attempt not in {attempt.attempt for attempt in attempts}:
        attempts.append(_last_attempt(row))
    metadata = public_metadata(values["metadata"])
    return RunDetail(row, values["occurrence_at"], metadata, tuple(attempts), values["replay_of_id"])


def tenant_of_run(run_id: UUID) -> str | None:
    """Return the tenant whose run this is; None if there is no such run."""
    return Run.objects.filter(id=run_id).values_list("job__tenant", flat=True).first()


_COLUMNS = (
    "id",
    "job_id",
    "job__job_key",
    "job__tenant",
    "kind",
    "scheduled_for",
    "created_at",
    "verdict",
    "reason",
    "attempt",
    "runner_id",
    "claimed_at",
    "finished_at",
    "duration_ms",
    "entry__state",
    "entry__attempt",
    "entry__available_at",
    "entry__claimed_at",
    "entry__holder__runner__runner_id",
)


def _of_tenant(rows: QuerySet[Run], tenant: str | None) -> QuerySet[Run]:
    return rows if tenant is None else rows.filter(job__tenant=tenant)


def filtered_runs(now: datetime, filters: RunFilter) -> QuerySet[Run]:
    """Return the runs that ``filters`` match, in no order."""
    rows = Run.objects.all()
    if filters.job_key is not None:
        # Ids first: with one id the index gives the runs in the order that is asked for.
        jobs = Job.objects.filter(job_key=filters.job_key)
        if filters.tenant is not None:
            jobs = jobs.filter(tenant=filters.tenant)
        ids = list(jobs.values_list("id", flat=True))
        rows = rows.filter(_among(ids))
    else:
        rows = _of_tenant(rows, filters.tenant)
    if filters.state == "claimed":
        rows = rows.filter(entry__state=QueueEntry.State.CLAIMED)
    elif filters.state in ENTRY_STATES:
        # All that wait first: SQLite reads the partial index only where its own condition stands.
        rows = rows.filter(Q(entry__state__in=_WAITING) & Q(entry__state__in=ENTRY_STATES[filters.state]))
    elif filters.state in PROBLEMS:
        rows = rows.filter(problem=filters.state)
    elif filters.state is not None:
        rows = rows.filter(verdict=filters.state)
    if filters.runner_id is not None:
        # The last holder of what is finished, the present one of what is not.
        rows = rows.filter(
            Q(entry__holder__runner__runner_id=filters.runner_id) | Q(entry__holder=None, runner_id=filters.runner_id)
        )
    if filters.job_ids is not None:
        rows = rows.filter(_among(filters.job_ids))
    if filters.kind is not None:
        rows = rows.filter(kind=filters.kind)
    if filters.least_attempt is not None:
        rows = rows.filter(Q(attempt__gte=filters.least_attempt) | Q(entry__attempt__gte=filters.least_attempt))
    if filters.error_text is not None:
        # The verdicts say nothing new: they are what the index of trouble can be read by.
        rows = rows.alias(error_start=Left("error", LIST_ERROR_CHARACTERS))
        rows = rows.filter(problem__in=WITH_ERRORS).filter(contains("error_start", filters.error_text))
    if filters.since is not None:
        rows = rows.filter(scheduled_for__gte=filters.since)
    if filters.until is not None:
        rows = rows.filter(scheduled_for__lt=filters.until)
    if not filters.planned:
        rows = rows.filter(Q(scheduled_for__lte=now) | Q(verdict__in=_SAID_BEFOREHAND) | Q(entry__attempt__gt=0))
    return rows


def _among(job_ids: Sequence[int]) -> Q:
    return Q(job_id=job_ids[0]) if len(job_ids) == 1 else Q(job_id__in=job_ids)


def _row(values: Mapping[str, Any], now: datetime) -> RunRow:
    entry_state, verdict = values["entry__state"], values["verdict"]
    is_live = verdict is None and entry_state is not None
    attempt = values["entry__attempt"] if is_live else values["attempt"]
    holder = values["entry__holder__runner__runner_id"]
    claimed_at = values["entry__claimed_at"]
    if is_live:
        state = "claimed" if entry_state == QueueEntry.State.CLAIMED else "queued"
        fire_at = values["entry__available_at"]
    else:
        state = verdict or "queued"
        # A replay falls due when it is made, not at the instant that it repeats.
        fire_at = max(values["scheduled_for"], values["created_at"]) if attempt <= 1 else None
    return RunRow(
        id=values["id"],
        job_id=values["job_id"],
        job_key=values["job__job_key"],
        tenant=values["job__tenant"],
        kind=values["kind"],
        state=state,
        attempt=attempt,
        scheduled_for=values["scheduled_for"],
        fire_at=fire_at,
        runner_id=holder or values["runner_id"],
        claimed_at=claimed_at or values["claimed_at"],
        completed_at=values["finished_at"],
        duration_ms=values["duration_ms"],
        error=values["error"] if "error" in values else _shortened(values["error_head"]),
        reason=values["reason"],
        created_at=values["created_at"],
        is_planned=verdict is None and attempt == 0 and values["scheduled_for"] > now,
        is_winding_down=entry_state == QueueEntry.State.STOPPING,
    )


def _shortened(head: str) -> str:
    return head if len(head) <= LIST_ERROR_CHARACTERS else head[:LIST_ERROR_CHARACTERS] + CUT_MARK


def _last_attempt(row: RunRow) -> AttemptRow:
    """Return the attempt that is in the run's own columns: the running one, or the one that ended the run."""
    outcomes = {"claimed": "running", "completed": "completed", "cancelled": "cancelled"}
    outcome = outcomes.get(row.state, "failed")
    if outcome == "failed" and row.reason == "timed_out":
        outcome = "timed_out"
    return AttemptRow(
        attempt=row.attempt,
        outcome=outcome,
        cause="",
        runner_id=row.runner_id,
        claimed_at=row.claimed_at,
        ended_at=row.completed_at,
        duration_ms=row.duration_ms,
        error=row.error,
    )
