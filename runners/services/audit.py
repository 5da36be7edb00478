"""Write down what happened, in the transaction in which it happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.crypto import salted_hmac

from croniq_site.kernel.errors import Conflict
from croniq_site.kernel.ids import uuid7
from croniq_site.kernel.request import request_id
from runners.domain.differences import difference, without_secrets
from runners.models import AuditEvent

MOST_ALIKE = 20
"""More events of one kind in one call are one event, with their number and at most `MOST_IDS` ids."""
MOST_IDS = 100


@dataclass(frozen=True)
class Actor:
    """Who did it: ``type`` is api_client, user, runner or system."""

    type: str
    id: str


SYSTEM = Actor("system", "")


@dataclass(frozen=True)
class Event:
    """``diff``: what changed, as ``field: [before, after]``, and what else is to be known. ``history``: whose
    definition it changed (`history_of`); empty for what happens to runs, keys and runners."""

    action: str
    target_type: str
    target_id: str
    actor: Actor = SYSTEM
    tenant: str = ""
    diff: dict = field(default_factory=dict)
    history: str = ""


@dataclass(frozen=True)
class Reverting:
    """Why an edit is made: it takes back what an event tells. ``expected``: what the event left behind, as the audit
    keeps it."""

    event_id: UUID
    expected: Mapping[str, Any]

    def check(self, current: Mapping[str, Any]) -> None:
        """Refuse, under the lock of what is edited, if it is not any more as the event left it: Conflict
        ``changed_since``, which names the fields."""
        moved = sorted(difference(self.expected, self._kept(current)))
        if moved:
            raise Conflict(
                f"Edited since then: {', '.join(moved)}. Take back the later edit first, or edit it by hand.",
                code="changed_since",
                extra={"changed": moved},
            )

    def _kept(self, current: Mapping[str, Any]) -> dict[str, Any]:
        return without_secrets({name: current.get(name) for name in self.expected}, seal)


def edit_event(
    kind: str,
    target_id: str,
    actor: Actor,
    tenant: str,
    diff: dict[str, Any],
    history: str,
    reverting: Reverting | None = None,
) -> Event:
    """Return the event of an edit of a definition: ``<kind>.updated``, or ``<kind>.reverted`` with what it reverts."""
    if reverting is None:
        return Event(f"{kind}.updated", kind, target_id, actor, tenant, diff, history)
    diff = {**diff, "reverts": str(reverting.event_id)}
    return Event(f"{kind}.reverted", kind, target_id, actor, tenant, diff, history)


def seal(secret: str) -> str:
    """Stand for a secret: equal for equal ones, as long as the site keeps its key, and of no use to anybody else."""
    return "***" + salted_hmac("croniq.audit", secret, algorithm="sha256").hexdigest()[:8]


def record_events(events: Iterable[Event], now: datetime) -> None:
    """Append ``events``, without secrets. The caller's transaction makes them as true as what they tell."""
    name = request_id.get() or ""
    AuditEvent.objects.bulk_create(
        AuditEvent(
            event_id=uuid7(now),
            created_at=now,
            actor_type=event.actor.type,
            actor_id=event.actor.id,
            action=event.action,
            target_type=event.target_type,
            target_id=event.target_id,
            tenant=event.tenant,
            diff=without_secrets(event.diff, seal),
            request_id=name,
            history=event.history or None,
        )
        for event in _bounded(events)
    )


def _bounded(events: Iterable[Event]) -> Iterable[Event]:
    """A bulk as few events, each where its first one stood: ten thousand rows that say the same would hide all others.
    Edits of definitions stay one by one, so that each can be taken back."""
    alike: dict[tuple[str, ...], list[Event]] = {}
    for event in events:
        alike.setdefault(_kind(event), []).append(event)
    for same in alike.values():
        yield from [_together(same)] if len(same) > MOST_ALIKE and not same[0].history else same


def _kind(event: Event) -> tuple[str, ...]:
    return event.action, event.target_type, event.actor.type, event.actor.id, event.tenant, event.history


def _together(events: Sequence[Event]) -> Event:
    first = events[0]
    same = {name: value for name, value in first.diff.items() if all(event.diff.get(name) == value for event in events)}
    said = {"count": len(events), "ids": [event.target_id for event in events[:MOST_IDS]], **same}
    keys = sorted({event.diff["job_key"] for event in events if "job_key" in event.diff})
    if len(keys) > 1:
        said["job_keys"] = keys[:MOST_ALIKE]
    return Event(first.action, first.target_type, "", first.actor, first.tenant, said)
