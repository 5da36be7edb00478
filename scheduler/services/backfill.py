"""Make the runs that past fires of a job did not get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from croniq_site.kernel import tracing
from croniq_site.kernel.database import chunks, write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput
from croniq_site.kernel.ids import uuid7
from runners.domain.scopes import Principal
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.inputs import flag_of
from scheduler.domain.occurrences import of_micro, to_micro
from scheduler.domain.schedules import Fire
from scheduler.domain.trigger_fields import instant_of
from scheduler.metrics import traces
from scheduler.models import Job, QueueEntry, Run
from scheduler.queries.job_fires import fires_within, live_triggers
from scheduler.services.admit import domain_of, is_limited, settle_later
from scheduler.services.jobs import lock_job_of_key
from scheduler.services.planning import most_attempts, waiting_state
from scheduler.services.wake import wake
from scheduler.sql.planned import PlannedRun, insert_planned

MOST_FIRES = 1000
FIRES_PER_TRANSACTION = 150
"""Each writes up to three rows: run, entry, and the entry again."""
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Backfill:
    """What was done, or with ``dry_run`` would be: fires that had no run, fires whose run was skipped, and fires that
    have their run. ``instants`` are those of the first two, ascending. ``reasons``: why nothing or not all was made, in
    sentences; none where all was."""

    dry_run: bool
    created: int
    revived: int
    already_there: int
    instants: tuple[datetime, ...]
    reasons: tuple[str, ...]

    @property
    def message(self) -> str:
        return " ".join(self.reasons)


def backfill(
    job_key: str,
    since: Any,
    until: Any,
    now: datetime,
    actor: Actor,
    principal: Principal | None = None,
    *,
    dry_run: Any = False,
) -> Backfill:
    """Make scheduled runs, due now, of the job's fires in [since, until]; both instants (also as text), both past.

    A fire whose run was skipped gets that run back; one that has its run, whatever became of it, counts as already
    there. Doing it again does nothing. At most 1,000 fires a call, 150 a transaction. Raises NotFound, InvalidInput by
    field (``from``, ``until``, ``dry_run``), Conflict ``job_paused``: its end would skip them all.
    """
    since, until = instant_of("from", since), instant_of("until", until)
    dry_run = flag_of("dry_run", dry_run)
    if until < since:
        raise InvalidInput.of("until", "until lies before from.")
    if until > now:
        raise InvalidInput.of("until", "A backfill is of the past; what is to come is planned by the schedule.")
    with write_transaction():
        job = _lock(job_key, principal)
        fires = fires_within(job, since - _TICK, until, MOST_FIRES)
        before = _without_fires(job, since, until, len(fires))
    if len(fires) > MOST_FIRES:
        raise InvalidInput.of("until", f"There are more than {MOST_FIRES} fires in that time; do it in parts.")
    if dry_run:
        known = _known(job, fires)
        new = [fire.at for fire in fires if fire.at not in known]
        back = [fire.at for fire in fires if known.get(fire.at)]
        return _summary(new, back, len(fires), before, dry_run=True)
    created: list[datetime] = []
    revived: list[datetime] = []
    for chunk in chunks(fires, FIRES_PER_TRANSACTION):
        with write_transaction():
            job = _lock(job_key, principal)
            known = _known(job, chunk)
            made = _create(job, [fire for fire in chunk if fire.at not in known], now)
            back = _revive(job, [fire.at for fire in chunk if known.get(fire.at)], now)
            if made or back:
                _queued(job, made, back, now, actor)
            created += made
            revived += back
    return _summary(created, revived, len(fires), before, dry_run=False)


def _summary(
    created: list[datetime], revived: list[datetime], total: int, before: list[str], *, dry_run: bool
) -> Backfill:
    instants = tuple(sorted(created + revived))
    there = total - len(instants)
    known = [f"Of {total} fires {there} have their run already."] if there else []
    return Backfill(dry_run, len(created), len(revived), there, instants, (*before, *known))


def _without_fires(job: Job, since: datetime, until: datetime, total: int) -> list[str]:
    """Why there are no fires in [since, until], or in its beginning; nothing where nothing speaks against it."""
    if not job.is_active:
        return ["The job is switched off, so its schedules have no fires."]
    triggers = live_triggers(job)
    if not triggers:
        return ["The job has no schedule that is enabled."]
    said = [
        f"The schedule {trigger.pk} is broken: {trigger.config_error}" for trigger in triggers if trigger.config_error
    ]
    # In whole seconds, as it is said: who begins at the second that was said is not told again.
    made_at = sorted(at for trigger in triggers if (at := trigger.created_at.replace(microsecond=0)) > since)
    if made_at:
        newest, many = f"{made_at[-1]:%Y-%m-%dT%H:%M:%SZ}", len(triggers)
        if many == 1:
            words = f"A backfill makes what would have fired; the job's schedule was made at {newest}: begin there."
        elif len(made_at) == 1:
            words = (
                f"A backfill makes what would have fired; one of the job's {many} schedules was made later: {newest}."
            )
        else:
            words = (
                f"A backfill makes what would have fired; {len(made_at)} of the job's {many} schedules were made later,"
                f" the last at {newest}."
            )
        said.append(words)
    if not total and not any(at >= until for at in made_at):
        said.append("No schedule of the job fires in that time.")
    return said


def _lock(job_key: str, principal: Principal | None) -> Job:
    job = lock_job_of_key(job_key, principal)
    if job.paused_at is not None:
        raise Conflict(
            f"{job_key!r} is paused; resume it first, or the end of the pause skips them.", code="job_paused"
        )
    return job


def _known(job: Job, fires: Sequence[Fire]) -> dict[datetime, bool]:
    """The instants that have a run, and whether it is a skipped one that nobody ever claimed."""
    runs = Run.objects.filter(job=job, kind=Run.Kind.SCHEDULED, scheduled_for__in=[fire.at for fire in fires])
    rows = runs.values_list("scheduled_for", "verdict", "attempt")
    return {at: verdict == Run.Verdict.SKIPPED and attempt == 0 for at, verdict, attempt in rows}


def _create(job: Job, fires: Sequence[Fire], now: datetime) -> list[datetime]:
    planned = [
        PlannedRun(
            run_id=uuid7(now).hex,
            job_id=job.pk,
            lane_id=job.lane_id,
            scheduled_for=to_micro(fire.at),
            occurrence_at=to_micro(fire.occurrence_at),
            state=int(waiting_state(job)),
            max_attempts=most_attempts(job),
            max_losses=job.max_losses,
            lease_seconds=job.lease_seconds,
            timeout_seconds=job.timeout_seconds,
        )
        for fire in fires
    ]
    made = insert_planned(planned, now) if planned else []
    if tracing.active is not None:
        traces.note_planned(made, [job], now)
    # Due now and not in the past: a year of them must not go before everything else that waits in their lane.
    QueueEntry.objects.filter(run_id__in=[run.run_id for run in made]).update(available_at=now, waits_since=now)
    return [of_micro(run.scheduled_for) for run in made]


def _revive(job: Job, instants: Sequence[datetime], now: datetime) -> list[datetime]:
    """Take back the skip of these runs: only of those that are skipped still."""
    skipped = Run.objects.filter(
        job=job, kind=Run.Kind.SCHEDULED, scheduled_for__in=instants, verdict=Run.Verdict.SKIPPED, attempt=0
    )
    found: dict[UUID, datetime] = dict(skipped.select_for_update().order_by("pk").values_list("pk", "scheduled_for"))
    revived = Run.objects.filter(pk__in=list(found), verdict=Run.Verdict.SKIPPED).update(
        verdict=None, problem=None, reason="", finished_at=None
    )
    if revived != len(found):
        raise RuntimeError(f"{len(found) - revived} locked runs were changed by somebody else")
    QueueEntry.objects.bulk_create(
        QueueEntry(
            run_id=run_id,
            job=job,
            lane_id=job.lane_id,
            state=waiting_state(job),
            available_at=now,
            waits_since=now,
            max_attempts=most_attempts(job),
            max_losses=job.max_losses,
            lease_seconds=job.lease_seconds,
            timeout_seconds=job.timeout_seconds,
        )
        for run_id in found
    )
    return list(found.values())


def _queued(job: Job, made: Sequence[datetime], back: Sequence[datetime], now: datetime, actor: Actor) -> None:
    if is_limited(job):
        settle_later([domain_of(job)], now)
    wake([job.lane_id])
    instants = sorted([*made, *back])
    diff = {
        "created": len(made),
        "revived": len(back),
        "first_at": instants[0].isoformat(),
        "last_at": instants[-1].isoformat(),
    }
    record_events([Event("job.backfilled", "job", job.job_key, actor, job.tenant, diff)], now)
