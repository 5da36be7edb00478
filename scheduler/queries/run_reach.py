"""How far back one look at runs goes, where no index answers its filters: a filter that nothing matches must not read
all history to say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Max, OuterRef, Q, QuerySet, Subquery

from scheduler.models import Job, Run
from scheduler.queries.runs import PROBLEMS, WITH_ERRORS, RunFilter, filtered_runs, newest_first
from scheduler.sql.arrays import ArrayHolds

WINDOWS = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
"""How far back the list of runs goes, as addresses say it."""
MOST_ATTEMPT = 1_000
LOOKED_AT = 20_000
"""Runs that one look reads at most. An error is a text to be read through: of those fewer."""
ERRORS_LOOKED_AT = 4_000
MOST_COUNTED = 1_000
BELOW_ALL = UUID(int=0)
"""Below the id of every run: of those of one instant none comes after it in the list."""


def jobs_of(*, tenant: str = "", job_key: str = "", tag: str = "") -> tuple[int, ...] | None:
    """The jobs, deleted ones too, that all of what is given names; None where nothing is. One query at most."""
    jobs = Job.objects.all()
    if tenant:
        jobs = jobs.filter(tenant=tenant)
    if job_key:
        jobs = jobs.filter(job_key=job_key)
    if tag:
        jobs = jobs.filter(ArrayHolds("tags", tag))
    return tuple(jobs.order_by("pk").values_list("pk", flat=True)) if tenant or job_key or tag else None


def reach(
    filters: RunFilter,
    now: datetime,
    page_rows: int,
    before: tuple[datetime, UUID] | None = None,
    problems: Sequence[str] | None = None,
) -> datetime | None:
    """Return the instant down to which (inclusive) one look from ``before`` (None: the newest) goes; None: to the end.

    ``problems``: runs that ended so alone are looked for. Where the filters are of several jobs alone, a page of
    ``page_rows`` is full before it. Four queries at most.
    """
    kinds = _problems_of(filters) if problems is None else tuple(problems)
    if not _reads_through(filters, kinds):
        return None
    start = min(instant for instant in (now, filters.until, before and before[0]) if instant is not None)
    runs = Run.objects.filter(scheduled_for__lte=start).order_by("-scheduled_for", "-id")
    reached = []
    if kinds:
        most = LOOKED_AT if filters.error_text is None else ERRORS_LOOKED_AT
        reached.append(_newest([_nth(runs.filter(problem=kind), most) for kind in kinds]))
    if filters.job_ids is not None:
        # The job that reaches least far back has so many runs by itself, and no other has more of them there.
        place = max(page_rows, LOOKED_AT // max(1, len(filters.job_ids)))
        nth = runs.filter(job_id=OuterRef("pk")).values("scheduled_for")[place : place + 1]
        jobs = Job.objects.filter(pk__in=filters.job_ids).order_by()
        reached.append(jobs.annotate(nth=Subquery(nth)).aggregate(at=Max("nth"))["at"])
    if not reached:
        reached.append(_nth(runs, LOOKED_AT))
    # Where two indexes lead there, the one that leads farther is taken.
    at = None if None in reached else min(reached)
    return None if at is None or (filters.since is not None and at <= filters.since) else at


def within(filters: RunFilter, reached: datetime | None) -> RunFilter:
    """The same filters, down to where a look reaches."""
    return filters if reached is None else replace(filters, since=reached)


def newer_runs(filters: RunFilter, now: datetime, head: tuple[datetime, UUID], page_rows: int) -> int:
    """Count the runs that stand above ``head`` in the list, `MOST_COUNTED` at most, as far as one look from the top
    reaches."""
    at, run_id = head
    since = max(instant for instant in (at, filters.since, reach(filters, now, page_rows)) if instant is not None)
    runs = filtered_runs(now, replace(filters, since=since)).filter(Q(scheduled_for__gt=at) | Q(id__gt=run_id))
    # In the order of the list: it is what the index gives without reading what is below.
    runs = newest_first(runs, by_entries=filters.is_by_entries or filters.error_text is not None)
    return len(runs.values_list("pk", flat=True)[:MOST_COUNTED])


def _problems_of(filters: RunFilter) -> tuple[str, ...]:
    """The problems that runs must have to be matched; none where others match too."""
    if filters.error_text is not None:
        return tuple(kind for kind in WITH_ERRORS if filters.state in (None, kind))
    return (filters.state,) if filters.state in PROBLEMS else ()


def _reads_through(filters: RunFilter, kinds: Sequence[str]) -> bool:
    """Whether rows are read that the filters leave out: there is an index of one job, of one problem, of both, and of
    what is queued."""
    if filters.is_by_entries:
        return False
    has_no_index = filters.kind or filters.least_attempt or filters.runner_id or filters.error_text is not None
    has_several = len(kinds) > 1 or (filters.job_ids is not None and len(filters.job_ids) != 1)
    return bool(has_no_index or has_several or filters.state == Run.Verdict.COMPLETED)


def _newest(instants: Sequence[datetime | None]) -> datetime | None:
    return max((instant for instant in instants if instant is not None), default=None)


def _nth(runs: QuerySet[Run], place: int) -> datetime | None:
    return next(iter(runs.values_list("scheduled_for", flat=True)[place : place + 1]), None)
