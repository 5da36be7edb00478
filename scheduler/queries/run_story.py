"""What a run's own rows do not say: who holds it until when, who did what to it, what it was done once more as."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from runners.models import AuditEvent
from scheduler.models import QueueEntry, Run
from scheduler.queries.runs import RunDetail

MOST_EVENTS = 100
_MAKING = ("job.triggered", "run.replayed", "dead_letter.replayed")
"""Events that made a run and name it."""


@dataclass(frozen=True)
class Claim:
    """How an unfinished run, or one that winds down, stands in the queue. ``state``: ready, gated, held, claimed or
    stopping. ``beat_at``: the last sign of life of its holder (earlier ones are not kept), the claim at first; None
    where that cannot be told. ``lease_until`` and ``deadline`` None where nobody holds it."""

    state: str
    max_attempts: int
    beat_at: datetime | None
    lease_until: datetime | None
    deadline: datetime | None


@dataclass(frozen=True)
class RunStory:
    """``claim`` None: it is over. ``replayed_as``: the run that does it once more; ``letter_id``: what is kept of its
    death. ``events``: who did what to it, oldest first, at most `MOST_EVENTS`."""

    claim: Claim | None
    job_is_deleted: bool
    replayed_as: UUID | None
    letter_id: UUID | None
    events: tuple[AuditEvent, ...]


def run_story(detail: RunDetail, now: datetime) -> RunStory:
    """Three queries, or two of a run that is over."""
    run = detail.row
    columns = ("job__deleted_at", "replays__id", "dead_letter__id")
    row = Run.objects.filter(pk=run.id).values_list(*columns).first()
    deleted_at, replayed_as, letter_id = row or (None, None, None)
    return RunStory(
        claim=_claim(run.id, now) if run.completed_at is None or run.is_winding_down else None,
        job_is_deleted=deleted_at is not None,
        replayed_as=replayed_as,
        letter_id=letter_id,
        events=tuple(_events(detail, letter_id)),
    )


def _claim(run_id: UUID, now: datetime) -> Claim | None:
    entry = QueueEntry.objects.filter(pk=run_id).first()
    if entry is None:
        return None  # it has ended since it was read
    until = entry.lease_expires_at
    beat = None if until is None else until - timedelta(seconds=entry.lease_seconds)
    if beat is not None and entry.claimed_at is not None:
        # An edit of the job's lease moves it before the claim, or into the future.
        beat = max(beat, entry.claimed_at) if beat <= now else None
    return Claim(
        state=QueueEntry.State(entry.state).name.lower(),
        max_attempts=entry.max_attempts,
        beat_at=beat,
        lease_until=until,
        deadline=entry.deadline_at,
    )


def _events(detail: RunDetail, letter_id: UUID | None) -> list[AuditEvent]:
    run = detail.row
    about = Q(target_type="run", target_id=str(run.id))
    if letter_id is not None:
        about |= Q(target_type="dead_letter", target_id=str(letter_id))
    found = list(AuditEvent.objects.filter(about).order_by("pk")[:MOST_EVENTS])
    if run.kind == Run.Kind.SCHEDULED and run.created_at <= run.scheduled_for:
        return found  # planned: nobody asked for it
    # Who asked is an event of the job, or of the run that is done once more, of the very instant that made this one.
    asked = AuditEvent.objects.filter(created_at=run.created_at)
    by_name = Q(action__in=_MAKING, diff__execution_id=str(run.id))
    made = asked.filter(by_name | Q(action="job.backfilled", target_type="job", target_id=run.job_key))
    return [*made.order_by("pk")[:2], *found][:MOST_EVENTS]


def replay_of(run_id: UUID) -> UUID | None:
    """Return the run that does this one once more; None if there is none."""
    return Run.objects.filter(replay_of_id=run_id).values_list("pk", flat=True).first()
