"""Whose key is it, asked of the database at most about once a second for each key, and again when it was changed."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from datetime import datetime
from typing import NamedTuple, Protocol

from croniq_site.kernel.clock import Clock
from croniq_site.kernel.errors import CroniqError, Forbidden, Unauthorized, Unavailable
from runners.domain.scopes import Principal
from runners.queries.principals import live_key, live_principals, principal_from, raw_key_of
from runners.services.keys import is_use_news, note_use
from scheduler.api.work.pool import Pool

_log = logging.getLogger(__name__)

FRESH_SECONDS = 1.5
"""How long a key counts without being looked up again. A revoked one is refused as soon as that is heard of; this
bounds what a signal that was lost can cost."""
MOST_KEYS = 4096
SOONEST_SECONDS = 0.05
"""So often at most expired keys are looked for."""
POLL = "work:poll"


class Polls(Protocol):
    """Those that wait, each let in by a key."""

    def held_keys(self) -> set[int]:
        """The ids of their keys."""

    def turn_away(self) -> None:
        """End the wait of those for whom `Keys.refusal_of_poll` has a refusal."""


class _Kept(NamedTuple):
    until: float  # monotonic
    principal: Principal


class _Asked(NamedTuple):
    changes: int
    answer: asyncio.Future[tuple[Principal | None, datetime]]


class Keys:
    """A bounded cache of live keys. Unknown ones are never kept: a key that is made now works now.

    When keys or clients were changed anywhere (`look_again`), and when the first of those that are known expires, all
    that are kept and all by which polls wait are looked at once more, in one query: a revoked key opens nothing any
    more here as soon as this process has heard of it, an expired one from its instant on, and its polls end. An outage
    is raised as it is (503): a runner that were told 401 for it would end.
    """

    polls: Polls

    def __init__(self, pool: Pool, clock: Clock, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._pool, self._clock, self._fresh_seconds = pool, clock, fresh_seconds
        self._known: dict[str, _Kept] = {}
        self._asked: dict[str, _Asked] = {}
        self._turned_away: dict[int, Principal | None] = {}
        self._changes = 0
        self._looking: asyncio.Task[None] | None = None
        self._must_look = False
        self._first_end: asyncio.TimerHandle | None = None

    async def principal(self, authorization: str, scope: str) -> Principal:
        """Return who asks. Raises Unauthorized, Forbidden ``missing_scope``, Unavailable."""
        if not authorization.strip():
            raise Unauthorized("An API key is needed: Authorization: ApiKey croniq_….")
        raw_key = raw_key_of(authorization)
        principal = None if raw_key is None else await self._principal_of(raw_key)
        refusal = _refusal(principal, scope)
        if refusal is not None:
            raise refusal
        return principal

    def refusal_of_poll(self, principal: Principal) -> CroniqError | None:
        """Return why a poll that was let in may not wait any more; None: it may."""
        if principal.key_id not in self._turned_away:
            return None
        return _refusal(self._turned_away[principal.key_id], POLL)

    def look_again(self) -> None:
        """Keys or clients may have been changed since they were looked up."""
        self._changes += 1
        self._must_look = True
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_at_all())

    async def _look_at_all(self) -> None:
        try:
            while self._must_look:  # what was said while we read may be of later changes
                self._must_look = False
                key_ids = {kept.principal.key_id for kept in self._known.values()} | self.polls.held_keys()
                if key_ids:
                    self._take(key_ids, await self._pool.read(self._look_at, key_ids))
        except Unavailable:
            self._known.clear()  # who cannot be looked at is looked up when he comes
        except Exception:
            self._known.clear()
            _log.exception("keys could not be looked at again")
        finally:
            self._looking = None

    def _look_at(self, key_ids: set[int]) -> tuple[dict[int, Principal], datetime]:
        now = self._clock.now()
        return live_principals(key_ids, now), now

    def _look_when_it_expires(self, principal: Principal, now: datetime) -> None:
        """Nobody tells that a key expires: look at all again then, if no other known one does before."""
        if principal.expires_at is None:
            return
        loop = asyncio.get_running_loop()
        # Not before its instant by a hair of this clock, and where this clock runs faster not again and again.
        ends_at = loop.time() + max((principal.expires_at - now).total_seconds() + 0.001, SOONEST_SECONDS)
        if self._first_end is not None:
            if self._first_end.when() <= ends_at:
                return
            self._first_end.cancel()
        self._first_end = loop.call_at(ends_at, self._look_at_the_expired)

    def _look_at_the_expired(self) -> None:
        self._first_end = None
        self.look_again()

    def _take(self, key_ids: set[int], looked: tuple[dict[int, Principal], datetime]) -> None:
        live, now = looked
        for principal in live.values():
            self._look_when_it_expires(principal, now)
        for raw_key, kept in list(self._known.items()):
            key_id = kept.principal.key_id
            if key_id in live:
                self._known[raw_key] = kept._replace(principal=live[key_id])
            elif key_id in key_ids:
                del self._known[raw_key]
        if len(self._turned_away) > MOST_KEYS:
            self._turned_away.clear()
        for key_id in key_ids:
            if _refusal(live.get(key_id), POLL) is None:
                self._turned_away.pop(key_id, None)
            else:
                self._turned_away[key_id] = live.get(key_id)
        self.polls.turn_away()

    async def _principal_of(self, raw_key: str) -> Principal | None:
        tick = time.monotonic()
        kept = self._known.get(raw_key)
        if kept is not None and kept.until > tick:
            return kept.principal
        # Those that come while the key is looked up wait for the same answer.
        asked = self._asked.get(raw_key)
        if asked is None:
            answer = asyncio.ensure_future(self._look_up_and_note(raw_key))
            asked = self._asked[raw_key] = _Asked(self._changes, answer)
            answer.add_done_callback(lambda _: self._asked.pop(raw_key, None))
        principal, now = await asyncio.shield(asked.answer)
        self._known.pop(raw_key, None)
        if principal is not None:
            self._look_when_it_expires(principal, now)
            ends = principal.expires_at
            most_seconds = math.inf if ends is None else (ends - now).total_seconds()
            if len(self._known) >= MOST_KEYS:
                self._known.pop(next(iter(self._known)))
            self._known[raw_key] = _Kept(tick + min(self._fresh_seconds, most_seconds), principal)
            self._turned_away.pop(principal.key_id, None)
            if asked.changes != self._changes:
                self.look_again()  # what was read may be older than what was said meanwhile
        return principal

    def _look_up(self, raw_key: str) -> tuple[Principal | None, datetime, tuple[int, datetime] | None]:
        """Return whose key it is, by which ``now``, and what is to be noted of its use."""
        now = self._clock.now()
        key = live_key(raw_key, now)
        if key is None:
            return None, now, None
        return principal_from(key), now, (key.pk, now) if is_use_news(key, now) else None

    async def _look_up_and_note(self, raw_key: str) -> tuple[Principal | None, datetime]:
        principal, now, use = await self._pool.read(self._look_up, raw_key)
        if use is not None:
            # Nobody waits for it, and who cannot be noted is let in all the same; the pool says that it failed.
            self._pool.write(note_use, *use).add_done_callback(lambda noted: noted.cancelled() or noted.exception())
        return principal, now


def _refusal(principal: Principal | None, scope: str) -> CroniqError | None:
    if principal is None:
        return Unauthorized("This API key is unknown, expired or revoked. Create one with create_api_key.")
    if not principal.has(scope):
        return Forbidden(f"The API client {principal.name!r} has not the scope {scope}.", code="missing_scope")
    return None
