"""Whose key is it, asked of the database at most about once a second for each key."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime

from croniq_site.kernel.clock import Clock
from croniq_site.kernel.errors import Forbidden, Unauthorized
from runners.domain.scopes import Principal
from runners.queries.principals import live_key, principal_from, raw_key_of
from runners.services.keys import is_use_news, note_use
from scheduler.api.work.pool import Pool

FRESH_SECONDS = 1.5
"""How long a key counts without being looked up again: a revoked one is refused within two seconds."""
MOST_KEYS = 4096


class Keys:
    """A bounded cache of live keys. Unknown ones are never kept: a key that is made now works now.

    An outage is raised as it is (503): a runner that were told 401 for it would end.
    """

    def __init__(self, pool: Pool, clock: Clock, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._pool, self._clock, self._fresh_seconds = pool, clock, fresh_seconds
        self._known: dict[str, tuple[float, Principal]] = {}
        self._asked: dict[str, asyncio.Future[Principal | None]] = {}

    async def principal(self, authorization: str, scope: str) -> Principal:
        """Return who asks. Raises Unauthorized, Forbidden ``missing_scope``, Unavailable."""
        if not authorization.strip():
            raise Unauthorized("An API key is needed: Authorization: ApiKey croniq_….")
        raw_key = raw_key_of(authorization)
        principal = None if raw_key is None else await self._principal_of(raw_key)
        if principal is None:
            raise Unauthorized("This API key is unknown, expired or revoked. Create one with create_api_key.")
        if not principal.has(scope):
            raise Forbidden(f"The API client {principal.name!r} has not the scope {scope}.", code="missing_scope")
        return principal

    async def _principal_of(self, raw_key: str) -> Principal | None:
        tick = time.monotonic()
        kept = self._known.get(raw_key)
        if kept is not None and kept[0] > tick - self._fresh_seconds:
            return kept[1]
        # Those that come while the key is looked up wait for the same answer.
        asked = self._asked.get(raw_key)
        if asked is None:
            asked = self._asked[raw_key] = asyncio.ensure_future(self._look_up_and_note(raw_key))
            asked.add_done_callback(lambda _: self._asked.pop(raw_key, None))
        principal = await asyncio.shield(asked)
        self._known.pop(raw_key, None)
        if principal is not None:
            if len(self._known) >= MOST_KEYS:
                self._known.pop(next(iter(self._known)))
            self._known[raw_key] = tick, principal
        return principal

    def _look_up(self, raw_key: str) -> tuple[Principal | None, tuple[int, datetime] | None]:
        """Return whose key it is, and what is to be noted of its use."""
        now = self._clock.now()
        key = live_key(raw_key, now)
        if key is None:
            return None, None
        return principal_from(key), (key.pk, now) if is_use_news(key, now) else None

    async def _look_up_and_note(self, raw_key: str) -> Principal | None:
        principal, use = await self._pool.read(self._look_up, raw_key)
        if use is not None:
            # Nobody waits for it, and who cannot be noted is let in all the same; the pool says that it failed.
            self._pool.write(note_use, *use).add_done_callback(lambda noted: noted.cancelled() or noted.exception())
        return principal
