"""What a bulk operation is about: the ids that its filters match at this moment, at most `MOST`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from scheduler.models import DeadLetter, Job, QueueEntry, Run
from scheduler.queries.jobs import live_jobs
from scheduler.queries.runs import ENTRY_STATES, RunFilter, filtered_runs, newest_first
from scheduler.sql.arrays import ArrayHolds

MOST = 2_000
"""Most rows that one request touches; ``has_more`` says that it is worth asking again."""

STOPPABLE = ("queued", "claimed")
REPEATABLE = ("completed", "failed", "dead", "cancelled")
"""States of runs that can be cancelled, and of those that can be done once more. A skipped one is a backfill's."""


LOOKED_AT = 2 * MOST
"""So many of the newest runs that match are looked at for what is left out."""


@dataclass(frozen=True)
class LeftOut:
    """Of the ``looked_at`` newest runs that a choice has (``has_more``: not all): how many were done once more before,
    and how many others are of a deleted job."""

    looked_at: int
    has_more: bool
    done_before: int
    of_deleted: int


@dataclass(frozen=True)
class Matches:
    ids: list[Any]
    has_more: bool


def entry_states(state: str | None) -> tuple[QueueEntry.State, ...]:
    """Return the states that entries of ``state`` (one of `ENTRY_STATES`; None: any) have."""
    return ENTRY_STATES[state] if state else (*ENTRY_STATES["queued"], *ENTRY_STATES["claimed"])


def runs_to_cancel(now: datetime, filters: RunFilter, ids: Sequence[UUID] | None = None) -> Matches:
    """Return the unfinished runs that match, newest first; of ``ids`` alone where they are given."""
    # By its entry, whatever the state: a run that winds down has a verdict, and to say it twice changes nothing.
    runs = filtered_runs(now, replace(filters, state=None)).filter(entry__state__in=entry_states(filters.state))
    return _first(newest_first(_among(runs, ids), by_entries=True))


def runs_to_replay(
    now: datetime, filters: RunFilter, ids: Sequence[UUID] | None = None, *, are_few: bool = False
) -> Matches:
    """Return the ended runs that match and can be done once more, newest first: not replayed yet, of a job that is
    there. Without a ``state`` those that failed, died or were cancelled. ``are_few``: no more match than can be sorted.
    """
    runs = _among(_ended(now, filters, ids), ids).filter(~Exists(_AGAIN), job__deleted_at__isnull=True)
    return _first(newest_first(runs, by_entries=are_few or filters.error_text is not None))


def left_out_of_replay(now: datetime, filters: RunFilter, *, are_few: bool = False) -> LeftOut:
    """Say what `runs_to_replay` leaves out of what the filters match. One query."""
    runs = newest_first(_ended(now, filters, None), by_entries=are_few or filters.error_text is not None)
    rows = list(runs.values_list(Exists(_AGAIN), "job__deleted_at")[: LOOKED_AT + 1])
    told = rows[:LOOKED_AT]
    done = sum(bool(is_done) for is_done, _ in told)
    gone = sum(deleted_at is not None and not is_done for is_done, deleted_at in told)
    return LeftOut(len(told), len(rows) > LOOKED_AT, done, gone)


def letters_to_replay(tenant: str | None, job_key: str | None, ids: Sequence[UUID] | None = None) -> Matches:
    """Return the letters that were not replayed, of jobs that are there, newest first."""
    again = Run.objects.filter(replay_of_id=OuterRef("run_id"))
    letters = _letters(tenant, job_key).filter(~Exists(again), job__deleted_at__isnull=True)
    return _first(_among(letters, ids).order_by("-created_at", "-pk"))


def letters_to_delete(tenant: str | None, job_key: str | None, ids: Sequence[UUID] | None = None) -> Matches:
    """Return the letters that match, newest first."""
    return _first(_among(_letters(tenant, job_key), ids).order_by("-created_at", "-pk"))


def _letters(tenant: str | None, job_key: str | None) -> QuerySet[DeadLetter]:
    letters = DeadLetter.objects.all()
    if tenant is not None:
        letters = letters.filter(job__tenant=tenant)
    return letters if job_key is None else letters.filter(job__job_key=job_key)


def jobs_matching(tenant: str | None, tag: str | None, job_keys: Collection[str] | None = None) -> QuerySet[Job]:
    """Return the live jobs of a selection, by key: with a tag, among some keys, or all."""
    jobs = live_jobs(tenant).order_by("job_key")
    if tag is not None:
        jobs = jobs.filter(ArrayHolds("tags", tag))
    return jobs if job_keys is None else jobs.filter(job_key__in=job_keys)


def first_jobs(jobs: QuerySet[Job]) -> Matches:
    found = list(jobs.values_list("job_key", flat=True)[: MOST + 1])
    return Matches(found[:MOST], len(found) > MOST)


_AGAIN = Run.objects.filter(replay_of_id=OuterRef("pk"))


def _ended(now: datetime, filters: RunFilter, ids: Sequence[UUID] | None) -> QuerySet[Run]:
    runs = filtered_runs(now, filters)
    if ids is not None:
        return runs.filter(verdict__in=REPEATABLE)
    return runs.filter(problem__in=REPEATABLE[1:]) if filters.state is None else runs


def _among(rows: QuerySet, ids: Sequence[UUID] | None) -> QuerySet:
    return rows if ids is None else rows.filter(pk__in=ids)


def _first(rows: QuerySet) -> Matches:
    found = list(rows.values_list("pk", flat=True)[: MOST + 1])
    return Matches(found[:MOST], len(found) > MOST)
