"""What an API client may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

ADMIN = "admin"
SCOPES = frozenset(
    {
        ADMIN,
        "jobs:read",
        "jobs:write",
        "jobs:register",
        "jobs:trigger",
        "jobs:exec",
        "schedules:read",
        "schedules:write",
        "calendars:read",
        "calendars:write",
        "executions:read",
        "executions:cancel",
        "dead-letters:read",
        "dead-letters:write",
        "runners:read",
        "runners:write",
        "work:poll",
        "work:ack",
        "work:renew",
        "work:events",
        "alerts:read",
        "alerts:snooze",
        "alerts:write",
        "audit:read",
        "api-clients:admin",
        "metrics:read",
    }
)
RUNNER_SCOPES = ("work:poll", "work:ack", "work:renew", "work:events", "jobs:register")


@dataclass(frozen=True)
class Principal:
    """Who asks: an API client, and what it may do. ``tenant`` None serves and sees all tenants.

    ``key_id`` is the row of the key that it showed (0: none), and ``expires_at`` when that opens nothing any more
    (None: it does not expire).
    """

    client_id: int
    name: str
    tenant: str | None
    scopes: frozenset[str] = field(default_factory=frozenset)
    key_id: int = field(default=0, compare=False)
    expires_at: datetime | None = field(default=None, compare=False)

    # What the audit and a refusal call it, and what the rest framework asks of a user.
    actor_type = "api_client"
    words = "API client"
    is_authenticated = True

    def has(self, scope: str) -> bool:
        return ADMIN in self.scopes or scope in self.scopes

    def may_grant(self, scopes: Iterable[str]) -> bool:
        """True where it has all of these itself: who hands out keys must not hand itself what it was not given."""
        return all(self.has(scope) for scope in scopes)

    def sees(self, tenant: str) -> bool:
        return self.tenant is None or self.tenant == tenant


class Person(Principal):
    """Somebody who is signed in. ``admin`` opens everything to him but the work protocol: he is no runner. He makes
    the keys of runners all the same."""

    actor_type = "user"
    words = "user"

    def has(self, scope: str) -> bool:
        return not scope.startswith("work:") and super().has(scope)

    def may_grant(self, scopes: Iterable[str]) -> bool:
        return ADMIN in self.scopes or super().may_grant(scopes)


def unknown_scopes(scopes: Iterable[str]) -> list[str]:
    return sorted(set(scopes) - SCOPES)
