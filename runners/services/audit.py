"""Write down what happened, in the transaction in which it happens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from croniq_site.kernel.ids import uuid7
from runners.models import AuditEvent


@dataclass(frozen=True)
class Actor:
    """Who did it: ``type`` is api_client, user, runner or system."""

    type: str
    id: str


SYSTEM = Actor("system", "")


@dataclass(frozen=True)
class Event:
    action: str
    target_type: str
    target_id: str
    actor: Actor = SYSTEM
    tenant: str = ""
    diff: dict = field(default_factory=dict)


def record_events(events: Iterable[Event], now: datetime) -> None:
    """Append ``events``. The caller's transaction makes them as true as what they tell."""
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
            diff=event.diff,
        )
        for event in events
    )
