"""Dead letters: run what died once more, or throw it away."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.domain.scopes import Principal
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.inputs import flag_of
from scheduler.domain.job_fields import job_key_of
from scheduler.models import DeadLetter, Run
from scheduler.services.replan import lock_job
from scheduler.services.trigger_runs import insert_run

MOST_IDS = 10_000


@dataclass(frozen=True)
class Replay:
    """The run that a letter was replayed as; ``is_new``: by this request."""

    run_id: UUID
    scheduled_for: datetime
    is_new: bool


def replay_letter(
    letter_id: UUID, now: datetime, actor: Actor, principal: Principal | None = None, *, force: bool = False
) -> Replay:
    """Make a new run of what died, due now: same ``scheduled_for``, fresh attempts, with the metadata, route and
    timeout that the run had of its own; else with the job's as they are now. Calendars and pauses have no say in it.

    A letter is replayed once: who asks again gets the run that there is. The letter stays until it is deleted. Raises
    NotFound, Conflict ``stale_replay`` (older than the job's ``dead_letter_replay_max_age``; ``force`` does not mind),
    Conflict ``job_deleted``.
    """
    with write_transaction():
        job_id = _visible(principal).filter(pk=letter_id).values_list("job_id", flat=True).first()
        if job_id is None:
            raise _not_found(letter_id)
        # Replays of one job take turns by its lock: the second of two finds the first one's run.
        job = lock_job(job_id)
        letter = DeadLetter.objects.select_related("run").filter(pk=letter_id).first()
        if letter is None:
            raise _not_found(letter_id)
        original = letter.run
        earlier = Run.objects.filter(replay_of_id=original.pk).first()
        if earlier is not None:
            return Replay(earlier.pk, earlier.scheduled_for, is_new=False)
        if job is None:
            raise Conflict("The job of this letter was deleted; nothing of it runs any more.", code="job_deleted")
        most = job.dead_letter_replay_max_age_seconds
        if most is not None and not force and now - letter.created_at > timedelta(seconds=most):
            raise Conflict(
                f"This letter is older than the job's dead_letter_replay_max_age ({most:g} s); say force to replay it "
                "all the same.",
                code="stale_replay",
            )
        run_id = insert_run(
            job,
            now,
            kind=Run.Kind.REPLAY,
            metadata=original.metadata,
            require=original.require,
            prefer=original.prefer,
            timeout_seconds=original.timeout_seconds,
            scheduled_for=original.scheduled_for,
            occurrence_at=original.occurrence_at,
            replay_of_id=original.pk,
        )
        diff = {"job_key": job.job_key, "execution_id": str(run_id), "forced": force}
        record_events([_event("dead_letter.replayed", str(letter_id), actor, job.tenant, diff)], now)
        return Replay(run_id, original.scheduled_for, is_new=True)


def delete_letter(letter_id: UUID, now: datetime, actor: Actor, principal: Principal | None = None) -> None:
    """Throw a letter away; its run stays. Raises NotFound."""
    with write_transaction():
        letter = _visible(principal).select_related("job").filter(pk=letter_id).first()
        if letter is None or DeadLetter.objects.filter(pk=letter_id).delete()[0] == 0:
            raise _not_found(letter_id)
        diff = {"job_key": letter.job.job_key}
        record_events([_event("dead_letter.deleted", str(letter_id), actor, letter.job.tenant, diff)], now)


def delete_letters(
    now: datetime,
    actor: Actor,
    principal: Principal | None = None,
    *,
    ids: Any = None,
    everything: Any = None,
    job_key: Any = None,
) -> int:
    """Throw away the letters of these ``ids``, or all there are at ``now`` (``everything``), of one job where
    ``job_key`` is given; return how many went. Those of other tenants and unknown ids are none. At most 500 letters a
    transaction, each batch with its audit. Raises InvalidInput by field."""
    everything = everything is not None and flag_of("all", everything)
    if ids is not None and everything:
        raise InvalidInput.of("ids", "Say either ids or all.")
    if ids is None and not everything:
        raise InvalidInput.of("ids", "Say which letters: their ids, or all.")
    letters = _visible(principal)
    if job_key is not None:
        letters = letters.filter(job__job_key=job_key_of("job_key", job_key))
    if ids is not None:
        wanted = _ids_of(ids)
        return sum(_delete_batch(letters.filter(pk__in=chunk), now, actor) for chunk in chunks(wanted))
    deleted = 0
    # Those that come while this goes on are not meant.
    while (step := _delete_batch(letters.filter(created_at__lte=now), now, actor)) > 0:
        deleted += step
    return deleted


def _delete_batch(letters: Any, now: datetime, actor: Actor) -> int:
    with write_transaction():
        # Locked in one order before any goes: two who throw away the same ones neither meet in a circle nor both count.
        oldest = letters.select_related("job").select_for_update(of=("self",)).order_by("created_at", "pk")
        batch = list(oldest[:WRITE_BATCH_ROWS])
        found = Counter(letter.job.tenant for letter in batch)
        deleted, _ = DeadLetter.objects.filter(pk__in=[letter.pk for letter in batch]).delete()
        record_events(
            (
                _event("dead_letters.deleted", "", actor, tenant, {"count": count})
                for tenant, count in sorted(found.items())
            ),
            now,
        )
        return deleted


def _ids_of(ids: Any) -> list[UUID]:
    if not isinstance(ids, list) or len(ids) > MOST_IDS:
        raise InvalidInput.of("ids", f"ids is a list of at most {MOST_IDS} ids of letters.")
    return list(dict.fromkeys(_id_of(item) for item in ids))


def _id_of(item: Any) -> UUID:
    if isinstance(item, UUID):
        return item
    try:
        if isinstance(item, str) and len(item) in (32, 36):
            return UUID(item)
    except ValueError:
        pass
    raise InvalidInput.of("ids", "An id is a uuid such as 018f4e9c-8a1b-7c3d-9e2f-0123456789ab.")


def _visible(principal: Principal | None) -> Any:
    letters = DeadLetter.objects.all()
    return letters if principal is None or principal.tenant is None else letters.filter(job__tenant=principal.tenant)


def _not_found(letter_id: UUID) -> NotFound:
    return NotFound(f"There is no dead letter {letter_id}.")


def _event(action: str, target_id: str, actor: Actor, tenant: str, diff: dict[str, Any]) -> Event:
    return Event(action, "dead_letter", target_id, actor, tenant, diff)
