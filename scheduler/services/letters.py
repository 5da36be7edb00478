"""Dead letters: run what died once more, or throw it away."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.domain.scopes import Principal
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.inputs import flag_of, metadata_of, public_metadata, text_of, uuids_of
from scheduler.domain.job_fields import job_key_of
from scheduler.models import DeadLetter, Run
from scheduler.services.replan import lock_job
from scheduler.services.replays import insert_replay, job_is_deleted, lock_original

MOST_IDS = 10_000
NOTE_MOST_CHARACTERS = 1000


@dataclass(frozen=True)
class Replay:
    """The run that a letter was replayed as; ``is_new``: by this request."""

    run_id: UUID
    scheduled_for: datetime
    is_new: bool


def replay_letter(
    letter_id: UUID,
    now: datetime,
    actor: Actor,
    principal: Principal | None = None,
    *,
    force: bool = False,
    metadata: Any = None,
) -> Replay:
    """Make a new run of what died, due now: same ``scheduled_for``, fresh attempts, with the metadata, route and
    timeout that the run had of its own; else with the job's as they are now. Calendars and pauses have no say in it.
    ``metadata`` (an object) takes the place of the run's own; None leaves that.

    A letter is replayed once: who asks again gets the run that there is. The letter stays until it is deleted. Raises
    NotFound, Conflict ``stale_replay`` (older than the job's ``dead_letter_replay_max_age``; ``force`` does not mind),
    Conflict ``job_deleted``, InvalidInput (``metadata``).
    """
    own = None if metadata is None else metadata_of("metadata", metadata)
    with write_transaction():
        job_id = _visible(principal).filter(pk=letter_id).values_list("job_id", flat=True).first()
        if job_id is None:
            raise _not_found(letter_id)
        # Replays of one job take turns by its lock: the second of two finds the first one's run.
        job = lock_job(job_id)
        letter = DeadLetter.objects.filter(pk=letter_id).first()
        # A letter keeps its run from retention, but somebody may throw the letter away in this moment.
        original = None if letter is None else lock_original(letter.run_id)
        if letter is None or original is None:
            raise _not_found(letter_id)
        earlier = Run.objects.filter(replay_of_id=original.pk).first()
        if earlier is not None:
            return Replay(earlier.pk, earlier.scheduled_for, is_new=False)
        if job is None:
            raise job_is_deleted()
        most = job.dead_letter_replay_max_age_seconds
        if most is not None and not force and now - letter.created_at > timedelta(seconds=most):
            raise Conflict(
                f"This letter is older than the job's dead_letter_replay_max_age ({most:g} s); say force to replay it "
                "all the same.",
                code="stale_replay",
            )
        run_id = insert_replay(job, original, now, metadata=own)
        diff = {"job_key": job.job_key, "execution_id": str(run_id), "forced": force}
        if own is not None:
            diff["edited"] = sorted({*own, *public_metadata(original.metadata)})
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


def note_letter(letter_id: UUID, note: Any, now: datetime, actor: Actor, principal: Principal | None = None) -> None:
    """Write on a letter what somebody found out, in place of what stood there; at most 1,000 characters, none takes it
    away. Raises NotFound, InvalidInput."""
    note = text_of("note", note, most=NOTE_MOST_CHARACTERS).strip()
    with write_transaction():
        letter = _visible(principal).select_for_update(of=("self",)).select_related("job").filter(pk=letter_id).first()
        if letter is None:
            raise _not_found(letter_id)
        before, tenant = letter.note, letter.job.tenant
        DeadLetter.objects.filter(pk=letter_id).update(note=note)
        diff = {"job_key": letter.job.job_key, "note": [before, note]}
        record_events([_event("dead_letter.noted", str(letter_id), actor, tenant, diff)], now)


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
        wanted = uuids_of("ids", ids, most=MOST_IDS)
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
        found: dict[str, list[UUID]] = {}
        for letter in batch:
            found.setdefault(letter.job.tenant, []).append(letter.pk)
        deleted, _ = DeadLetter.objects.filter(pk__in=[letter.pk for letter in batch]).delete()
        record_events(
            (
                _event("dead_letters.deleted", "", actor, tenant, {"count": len(gone), "ids": [*map(str, gone)]})
                for tenant, gone in sorted(found.items())
            ),
            now,
        )
        return deleted


def _visible(principal: Principal | None) -> Any:
    letters = DeadLetter.objects.all()
    return letters if principal is None or principal.tenant is None else letters.filter(job__tenant=principal.tenant)


def _not_found(letter_id: UUID) -> NotFound:
    return NotFound(f"There is no dead letter {letter_id}.")


def _event(action: str, target_id: str, actor: Actor, tenant: str, diff: dict[str, Any]) -> Event:
    return Event(action, "dead_letter", target_id, actor, tenant, diff)
