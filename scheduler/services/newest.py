"""Keep the newest runs of each job, and throw away those behind them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, write_transaction
from scheduler.models import DeadLetter, Job, QueueEntry, Run, RunLog, Slot
from scheduler.services.retention import taken_still

KEPT_AT_LEAST = timedelta(days=1)
"""A younger run is kept whatever its number: a fire that is forgotten while a clock can still be stepped back to before
it would be planned, and run, a second time."""
JOBS_PER_PASS = 50
"""Jobs that a pass of the reaper looks at: each costs a look at as many of its runs as are kept."""
RUNS_PER_TRANSACTION = 100
"""With each run go its attempts and keys."""


def drop_runs_beyond_newest(now: datetime, limit: int = WRITE_BATCH_ROWS, *, after_job: int = 0) -> tuple[int, int]:
    """Delete ended runs behind the newest ``CRONIQ_KEEP_RUNS`` of each job, with their attempts and lines, a batch at
    most; of the next jobs by id after ``after_job``.

    Returns how many went (log lines that went before their runs count too) and the job to go on after; 0: that was the
    last one. What `retention.drop_old_runs` leaves is left here too: unfinished runs, those with a letter or a slot,
    those that a kept run is the replay of; and whatever is younger than `KEPT_AT_LEAST`.
    """
    kept = settings.CRONIQ_KEEP_RUNS
    if kept is None:
        return 0, 0
    jobs = list(Job.objects.filter(pk__gt=after_job).order_by("pk").values_list("pk", flat=True)[:JOBS_PER_PASS])
    dropped = 0
    for job_id in jobs:
        # By the index of the job's runs, newest first: of a job with fewer runs than are kept nothing comes.
        ids = list(beyond_newest(job_id, kept, now).values_list("pk", flat=True)[: limit - dropped])
        dropped += _drop(ids, job_id, kept, now, limit - dropped)
        if dropped >= limit:
            return dropped, job_id - 1  # this job again
    return dropped, jobs[-1] if len(jobs) == JOBS_PER_PASS else 0


def beyond_newest(job_id: int, kept: int, now: datetime) -> QuerySet[Run]:
    """The runs of a job that its newest ``kept`` ended ones stand in front of, oldest first."""
    ended = Run.objects.filter(job_id=job_id, verdict__isnull=False, scheduled_for__lte=now)
    last_kept = ended.order_by("-scheduled_for", "-pk").values_list("scheduled_for", "pk")[kept - 1 : kept]
    for scheduled_for, pk in last_kept:
        until = now - KEPT_AT_LEAST
        return ended.filter(
            Q(scheduled_for__lt=scheduled_for) | Q(scheduled_for=scheduled_for, pk__lt=pk),
            ~Exists(QueueEntry.objects.filter(run=OuterRef("pk"))),
            ~Exists(DeadLetter.objects.filter(run=OuterRef("pk"))),
            ~Exists(Slot.objects.filter(run=OuterRef("pk"))),
            ~Exists(Run.objects.filter(replay_of=OuterRef("pk"))),
            scheduled_for__lt=until,
            finished_at__lt=until,
        ).order_by("scheduled_for", "pk")
    return Run.objects.none()


def _drop(ids: list, job_id: int, kept: int, now: datetime, limit: int) -> int:
    if not ids:
        return 0
    with write_transaction():
        # Those that another reaper has in hand are left to it: each would wait for the other's.
        free = RunLog.objects.filter(run_id__in=ids).select_for_update(skip_locked=True, of=("self",))
        lines = list(free.values_list("pk", flat=True)[:limit])
        RunLog.objects.filter(pk__in=lines).delete()
    if len(lines) == limit:
        return limit
    dropped = 0
    for batch in chunks(ids, RUNS_PER_TRANSACTION):
        with write_transaction():
            # A skipped run may be revived by a backfill meanwhile.
            still = taken_still(beyond_newest(job_id, kept, now).filter(pk__in=batch), len(batch))
            Run.objects.filter(pk__in=still).delete()
            dropped += len(still)
    return dropped


class NewestKept:
    """`drop_runs_beyond_newest` as a chore of the reaper: pass by pass it comes round to all jobs."""

    def __init__(self) -> None:
        self._after_job = 0

    def __call__(self, now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
        dropped, self._after_job = drop_runs_beyond_newest(now, limit, after_job=self._after_job)
        return dropped
