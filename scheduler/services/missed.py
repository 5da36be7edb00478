"""Treat planned runs that fell due while nobody served by their job's catch-up policy, as fires that nobody planned."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, QuerySet

from croniq_site.kernel.database import chunks, write_transaction
from runners.models import Outage
from runners.services.outages import note_outage
from scheduler.domain.downtime import caught_up, is_downtime
from scheduler.domain.schedules import Fire
from scheduler.models import Job, QueueEntry, Run, Slot
from scheduler.queries.fires import trigger_fires
from scheduler.services.admit import settle_jobs_later, skip_fires
from scheduler.services.planning import DOWNTIME, MOST_COUNTED
from scheduler.services.replan import lock_job

RECENT = timedelta(minutes=10)
"""So long after an outage planned runs of it are looked for: by then everybody who may is back."""
RUNS_PER_TRANSACTION = 150
"""Each writes up to three rows (entry, run, event): together no more than 500."""


def skip_missed(now: datetime, limit: int = RUNS_PER_TRANSACTION) -> int:
    """Skip what of the latest outage's planned runs is not to be caught up; return how many were skipped.

    Of the runs that fell due in it and that nobody has claimed yet those stay that the policy wants: the newest, where
    fires that nobody planned (the materializer catches those up) are newer still. A server calls it before it answers
    anybody, the reaper always; a claim that comes first wins.
    """
    note_outage(now)
    outage = Outage.objects.order_by("-began_at").first()
    if outage is None or now - outage.ended_at > RECENT:
        return 0
    missed = _missed(outage)
    skipped = 0
    for job_id in sorted(set(missed.order_by().values_list("job_id", flat=True))):
        if skipped >= limit:
            break
        for chunk in chunks(_unwanted(job_id, missed, outage, now), RUNS_PER_TRANSACTION):
            with write_transaction():
                skipped += _skip(job_id, chunk, now)
    return skipped


def _missed(outage: Outage) -> QuerySet[QueueEntry]:
    """Planned in time, due in the outage, never claimed. What was planned late has been decided by the catch-up."""
    return QueueEntry.objects.filter(
        state__in=[QueueEntry.State.READY, QueueEntry.State.GATED],
        attempt=0,
        available_at__gt=outage.began_at,
        available_at__lte=outage.ended_at,
        run__kind=Run.Kind.SCHEDULED,
        run__created_at__lte=F("run__scheduled_for"),
    )


def _unwanted(job_id: int, missed: QuerySet[QueueEntry], outage: Outage, now: datetime) -> list:
    """Return the ids of the job's missed runs that its policy does not want, oldest first."""
    job = Job.objects.get(pk=job_id)
    rows = missed.filter(job=job).order_by("available_at", "run_id").values_list("run_id", "available_at")
    fires = {Fire(at, at): run_id for run_id, at in rows}
    if not fires or not is_downtime(list(fires), outage.ended_at):
        return []  # late, but no more than a slow pass makes them
    newer = _newer(job, outage, now)
    policy = "none" if job.catch_up == "latest" and newer else job.catch_up
    most = max(0, job.max_catch_up - newer)
    _, skipped = caught_up(list(fires), now, policy=policy, grace_seconds=job.misfire_grace_seconds, most=most)
    return [fires[fire] for fire in skipped]


def _newer(job: Job, outage: Outage, now: datetime) -> int:
    """Count the job's fires in the outage that were planned late, or are not planned yet."""
    late = Run.objects.filter(
        job=job,
        kind=Run.Kind.SCHEDULED,
        scheduled_for__gt=outage.began_at,
        scheduled_for__lte=outage.ended_at,
        created_at__gt=F("scheduled_for"),
    ).exclude(verdict=Run.Verdict.SKIPPED)
    instants = set(late.values_list("scheduled_for", flat=True))
    for trigger in job.triggers.filter(enabled=True, config_error="", cursor_at__lt=now).select_related("calendar"):
        trigger.job = job
        behind = trigger_fires(trigger, after=trigger.cursor_at, until=now, count=MOST_COUNTED)
        instants |= {fire.at for fire in behind}
    return len(instants)


def _skip(job_id: int, run_ids: list, now: datetime) -> int:
    job = lock_job(job_id)
    if job is None:
        return 0
    entries = list(
        QueueEntry.objects.select_for_update(skip_locked=True)
        .filter(run_id__in=run_ids, attempt=0, state__in=[QueueEntry.State.READY, QueueEntry.State.GATED])
        .order_by("run_id")
    )
    Slot.objects.filter(run_id__in=[entry.run_id for entry in entries]).delete()
    skip_fires(entries, {job.pk: job}, DOWNTIME, now)
    settle_jobs_later({job.pk}, now)
    return len(entries)
