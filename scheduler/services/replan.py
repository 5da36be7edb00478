"""Plan a job again after an edit: what no trigger gives any more goes, the rest keeps its ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from uuid import UUID

from django.db import DatabaseError

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, write_transaction
from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.queries.fires import trigger_fires
from scheduler.services.planning import carry_out, plan_of
from scheduler.sql.planned import delete_runs, delete_waiting

WAITING = (QueueEntry.State.READY, QueueEntry.State.GATED, QueueEntry.State.HELD)


@dataclass(frozen=True)
class ReplanSummary:
    removed: int = 0
    inserted: int = 0


def lock_job(job_id: int) -> Job | None:
    """Lock a job's row until the transaction ends, and return it as it is now; None if it is deleted.

    Edits, plans and manual triggers of a job take turns by this lock. It does not keep anybody from inserting a row
    that refers to the job. (SQLite: the write transaction is the lock.)
    """
    return Job.objects.select_for_update(no_key=True).filter(pk=job_id, deleted_at__isnull=True).first()


def lock_jobs(job_ids: Collection[int]) -> list[Job]:
    """Lock these jobs, in the order in which everybody locks several, until the transaction ends; return those that are
    not deleted."""
    jobs = Job.objects.select_for_update(no_key=True).filter(pk__in=job_ids).order_by("pk")
    return [job for job in jobs if job.deleted_at is None]


def replan_job(job: Job, now: datetime, *, edited: Collection[UUID] | None = ()) -> ReplanSummary:
    """Bring the planned runs of ``job`` in line with its triggers as they are now. Needs the transaction of the edit,
    with the job locked (`lock_job`).

    Candidates are the scheduled runs never claimed with ``scheduled_for > now``. No cursor goes back behind ``now``,
    and those of the ``edited`` triggers (None: of all) begin there: what they missed before the edit is no downtime of
    what they are now. As many runs as one batch may hold are planned at once, the materializer does the rest.
    """
    return _replan([job], now, edited)


def replan_calendar(calendar_id: int, now: datetime) -> ReplanSummary:
    """Plan again every job that has a trigger with this calendar, all in one transaction."""
    with write_transaction():
        users = Trigger.objects.filter(calendar_id=calendar_id).values_list("job_id", flat=True)
        return _replan(lock_jobs(set(users)), now, ())


def _replan(jobs: Sequence[Job], now: datetime, edited: Collection[UUID] | None) -> ReplanSummary:
    triggers = {job.pk: _triggers_of(job) for job in jobs}
    # Of all jobs at once: who takes entries of two of them back one after the other meets a cancel in a deadlock.
    unwanted = [_unwanted(job, _live(job, triggers[job.pk]), now) for job in jobs]
    removed = _remove(chain.from_iterable(unwanted))
    inserted = sum(_plan_again(job, triggers[job.pk], now, edited) for job in jobs)
    return ReplanSummary(removed, inserted)


def _triggers_of(job: Job) -> list[Trigger]:
    triggers = list(job.triggers.select_related("calendar").select_for_update(of=("self",), no_key=True))
    for trigger in triggers:
        trigger.job = job
    return triggers


def _live(job: Job, triggers: Sequence[Trigger]) -> list[Trigger]:
    return [trigger for trigger in triggers if trigger.enabled] if job.is_active else []


def _plan_again(job: Job, triggers: Sequence[Trigger], now: datetime, edited: Collection[UUID] | None) -> int:
    live = _live(job, triggers)
    idle = [trigger.pk for trigger in triggers if trigger not in live]
    Trigger.objects.filter(pk__in=idle).update(next_materialize_at=None)
    inserted, room = 0, WRITE_BATCH_ROWS
    for trigger in live:
        starts_anew = edited is None or trigger.pk in edited
        _take_back(trigger, now if starts_anew else min(trigger.cursor_at, now), now)
        if room > 0:
            plan = plan_of(trigger, now, room)
            inserted += len(carry_out([plan], now))
            room -= len(plan.fires)
    return inserted


def planned_of(job: Job, now: datetime) -> dict[UUID, datetime]:
    """The future runs of the job that nobody ever claimed: id to ``scheduled_for``."""
    entries = QueueEntry.objects.filter(
        job=job, state__in=WAITING, attempt=0, run__kind=Run.Kind.SCHEDULED, run__scheduled_for__gt=now
    )
    return dict(entries.values_list("run_id", "run__scheduled_for"))


def _unwanted(job: Job, live: list[Trigger], now: datetime) -> list[UUID]:
    candidates = planned_of(job, now)
    if not candidates:
        return []
    last = max(candidates.values())
    wanted = {at for trigger in live for at in _instants(trigger, now, last)}
    return [run_id for run_id, at in candidates.items() if at not in wanted]


def remove_planned(jobs: Iterable[Job], after: datetime) -> int:
    """Take back the runs of locked jobs that were planned for later than ``after`` and that nobody ever claimed."""
    return _remove([run_id for job in jobs for run_id in planned_of(job, after)])


def _remove(unwanted: Iterable[UUID]) -> int:
    removed = 0
    for chunk in chunks(sorted(unwanted), WRITE_BATCH_ROWS):
        # A claim that was first keeps its run; only what was really taken out of the queue is deleted.
        gone = delete_waiting(chunk)
        delete_runs(gone)
        removed += len(gone)
    return removed


def _instants(trigger: Trigger, after: datetime, until: datetime) -> list[datetime]:
    try:
        return [fire.at for fire in trigger_fires(trigger, after=after, until=until)]
    except DatabaseError:
        raise
    except Exception:
        return []  # broken (`plan_of` says how): it gives nothing until it is mended


def _take_back(trigger: Trigger, cursor_at: datetime, now: datetime) -> None:
    trigger.cursor_at, trigger.next_materialize_at = cursor_at, now
    Trigger.objects.filter(pk=trigger.pk).update(cursor_at=cursor_at, next_materialize_at=now)
