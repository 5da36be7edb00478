"""Run a job now, or at an instant, because somebody asked. Calendars, pauses and schedules have no say in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet

from croniq_site.kernel import tracing
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import InvalidInput, TooManyRequests
from croniq_site.kernel.ids import uuid7
from runners.domain.scopes import Principal
from runners.services.audit import SYSTEM, Actor, Event, record_events
from scheduler.domain.durations import LONGEST
from scheduler.domain.inputs import metadata_of, seconds_of, text_of
from scheduler.domain.job_fields import capabilities_of, job_key_of
from scheduler.domain.trigger_fields import instant_of
from scheduler.metrics import traces
from scheduler.models import IdempotencyKey, Job, QueueEntry, Run
from scheduler.services.admit import domain_of, is_limited, settle_later
from scheduler.services.jobs import lock_job_of_key
from scheduler.services.lanes import lane_of
from scheduler.services.planning import most_attempts
from scheduler.services.wake import wake

KEY_KEPT = timedelta(minutes=10)
KEY_MOST_CHARACTERS = 200
RETRY_AFTER_SECONDS = 5
LONGEST_TURN = timedelta(hours=1)
"""No request waits so long for the lock of its job."""


@dataclass(frozen=True)
class TriggerResult:
    """``queued``: the job's due runs that nobody has claimed, this one included if it is due. ``deduplicated``: the run
    is that of an earlier request with the same key. ``coalesced``: of a job that coalesces, the run is one that waited
    already; it runs with what it was made with."""

    run_id: UUID
    queued: int
    deduplicated: bool = False
    coalesced: bool = False


@dataclass(frozen=True)
class _Wish:
    metadata: dict[str, Any] | None
    require: list[str]
    prefer: list[str]
    timeout_seconds: float | None
    key: str
    run_at: datetime | None


def trigger_run(
    job_key: Any,
    now: datetime,
    principal: Principal | None = None,
    metadata: Any = None,
    require: Any = None,
    prefer: Any = None,
    timeout_seconds: Any = None,
    idempotency_key: Any = None,
    run_at: Any = None,
    *,
    actor: Actor | None = None,
    traceparent: str | None = None,
) -> TriggerResult:
    """Make one run of the job, due now. All values may be as they came over the wire (``timeout_seconds`` also as
    "90s"); None or empty inherits the job's.

    ``run_at``: the instant at which it falls due, ten years ahead at most; one that has passed is now. Such a run is
    one of its own, also of a job that coalesces; beside the due ones ``max_queue_depth`` of them may wait.
    ``traceparent``: the caller's span (W3C), below which those of the run are, where spans are made at all.

    With a key exactly one run per (job, key), while that run is live and for ten minutes after its creation. Raises
    InvalidInput by field, NotFound (unknown, deleted, another tenant's), TooManyRequests at ``max_queue_depth``.
    """
    job_key = job_key_of("job_key", job_key)
    wish = _wish(metadata, require, prefer, timeout_seconds, idempotency_key, _later_instant(run_at, now))
    with write_transaction():
        # Requests for one job take turns by its lock: what they count and the key they look for stay true.
        job = lock_job_of_key(job_key, principal)
        known = _known(job, wish.key, now)
        if known is not None:
            return TriggerResult(known, queue_depth(job, now), deduplicated=True)
        coalesced = _waiting_run(job, now) if job.coalesce and wish.run_at is None else None
        if coalesced is not None:
            if wish.key:
                _keep_key(job, wish.key, coalesced, now)
            return TriggerResult(coalesced, queue_depth(job, now), coalesced=True)
        waiting = queue_depth(job, now)
        if (waiting if wish.run_at is None else _asked_for_later(job, now)) >= job.max_queue_depth:
            most = job.max_queue_depth
            raise TooManyRequests(
                f"{most} due runs of {job_key!r} wait already (max_queue_depth); try again later."
                if wish.run_at is None
                else f"{most} runs for later of {job_key!r} wait already (max_queue_depth); try again later.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
                extra={"execution_id": "", "queued": 0, "deduplicated": False},
            )
        if wish.metadata:
            # Together they travel to the runner and into a command's environment, which has a bound too.
            metadata_of("metadata", {**job.metadata, **wish.metadata})
        own = wish.metadata
        if tracing.active is not None:
            own = {**(own or {}), **traces.kept_parent(traceparent)} or None
        run_id = insert_run(
            job,
            now,
            kind=Run.Kind.TRIGGERED,
            metadata=own,
            require=wish.require,
            prefer=wish.prefer,
            timeout_seconds=wish.timeout_seconds,
            scheduled_for=wish.run_at,
            available_at=wish.run_at,
        )
        if wish.key:
            _keep_key(job, wish.key, run_id, now)
        actor = actor or (Actor(principal.actor_type, principal.name) if principal else SYSTEM)
        diff = {"execution_id": str(run_id)} | ({"run_at": wish.run_at.isoformat()} if wish.run_at else {})
        record_events([Event("job.triggered", "job", job_key, actor, job.tenant, diff)], now)
        return TriggerResult(run_id, waiting + (wish.run_at is None))


def queue_depth(job: Job, now: datetime) -> int:
    """The job's due runs that nobody has claimed."""
    return _due(job, now).count()


def _due(job: Job, now: datetime) -> QuerySet[QueueEntry]:
    # Requests take turns by the job's lock and may wait for it: one whose `now` is older than that of the one before
    # must see its run all the same. A run that was let wait no sooner than at its instant was due by then; one that was
    # asked for later, or backs off, waits since before it; there may be many of those, and none is read here.
    return QueueEntry.objects.filter(
        Q(available_at__lte=now) | Q(waits_since__gte=F("available_at")),
        job=job,
        state__in=QueueEntry.WAITING,
        available_at__lte=now + LONGEST_TURN,
    ).exclude(state=QueueEntry.State.HELD)


def _asked_for_later(job: Job, now: datetime) -> int:
    """How many runs of the job were asked for an instant that is yet to come."""
    return QueueEntry.objects.filter(
        job=job,
        state__in=QueueEntry.WAITING,
        attempt=0,
        available_at__gt=now,
        waits_since__lt=F("available_at"),
    ).count()


def _later_instant(value: Any, now: datetime) -> datetime | None:
    """None where the run is due now."""
    at = None if value is None else instant_of("run_at", value)
    if at is not None and at > now + LONGEST:
        raise InvalidInput.of("run_at", f"run_at is at most {LONGEST.days} days ahead.")
    return at if at is not None and at > now else None


def _wish(metadata: Any, require: Any, prefer: Any, timeout: Any, key: Any, run_at: datetime | None) -> _Wish:
    if key is not None:
        key = text_of("idempotency_key", key, most=KEY_MOST_CHARACTERS).strip()
    return _Wish(
        metadata=None if metadata is None else metadata_of("metadata", metadata) or None,
        require=[] if require is None else capabilities_of("require", require),
        prefer=[] if prefer is None else capabilities_of("prefer", prefer),
        timeout_seconds=None if timeout in (None, "") else seconds_of("timeout", timeout),
        key=key or "",
        run_at=run_at,
    )


def _known(job: Job, key: str, now: datetime) -> UUID | None:
    """The run that the key stands for, if it still stands for one."""
    if not key:
        return None
    kept = IdempotencyKey.objects.select_related("run").filter(job=job, key=key).first()
    if kept is None or (kept.run.verdict is not None and kept.expires_at <= now):
        return None
    return kept.run_id


def _waiting_run(job: Job, now: datetime) -> UUID | None:
    """The oldest due run of the job that nobody has claimed, locked: nobody claims it before this request is answered
    for. What a claim has in hand is as good as claimed."""
    return (
        _due(job, now)
        .select_for_update(skip_locked=True)
        .order_by("available_at", "run_id")
        .values_list("run_id", flat=True)
        .first()
    )


def _keep_key(job: Job, key: str, run_id: UUID, now: datetime) -> None:
    """Let the key stand for the run. A row that is there is one that `_known` found expired."""
    fresh = {"run_id": run_id, "created_at": now, "expires_at": now + KEY_KEPT}
    if not IdempotencyKey.objects.filter(job=job, key=key, expires_at__lte=now).update(**fresh):
        IdempotencyKey.objects.create(job=job, key=key, **fresh)


def insert_run(
    job: Job,
    now: datetime,
    *,
    kind: Run.Kind,
    metadata: dict[str, Any] | None = None,
    require: list[str] | None = None,
    prefer: list[str] | None = None,
    timeout_seconds: float | None = None,
    scheduled_for: datetime | None = None,
    occurrence_at: datetime | None = None,
    replay_of_id: UUID | None = None,
    available_at: datetime | None = None,
) -> UUID:
    """Make a run that no schedule asked for, due at ``available_at``; None: now, as with ``scheduled_for``. What else
    is None or empty is the job's. Needs the transaction and the lock of the job."""
    has_own_lane = bool(require or prefer)
    lane_id = job.lane_id
    if has_own_lane:
        lane_id = lane_of(job, require or (), prefer or ()).pk
    run = Run.objects.create(
        id=uuid7(now),
        job=job,
        kind=kind,
        scheduled_for=scheduled_for or now,
        occurrence_at=occurrence_at or scheduled_for or now,
        created_at=now,
        metadata=metadata,
        require=require or None,
        prefer=prefer or None,
        timeout_seconds=timeout_seconds,
        replay_of_id=replay_of_id,
    )
    QueueEntry.objects.create(
        run=run,
        job=job,
        lane_id=lane_id,
        own_lane=has_own_lane,
        # Never held: a person who asks for a run of a paused job wants it to run.
        state=QueueEntry.State.GATED if is_limited(job) else QueueEntry.State.READY,
        available_at=available_at or now,
        # It may wait from now on: no rule about fires that fall due skips what somebody asked for.
        waits_since=now,
        max_attempts=most_attempts(job),
        max_losses=job.max_losses,
        lease_seconds=job.lease_seconds,
        timeout_seconds=timeout_seconds or job.timeout_seconds,
    )
    if is_limited(job):
        settle_later([domain_of(job)], now)
    wake([lane_id])
    if tracing.active is not None:
        traces.note_made(run, job.job_key, now)
    return run.pk
