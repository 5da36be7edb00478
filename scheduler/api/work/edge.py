"""`/v1/work/*`: which handler answers which path, and what they share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from functools import partial

from django.conf import settings

from croniq_site.kernel.clock import Clock, DatabaseClock
from croniq_site.kernel.errors import CroniqError
from scheduler.api.work import ack, events, poll, renew
from scheduler.api.work.auth import Keys
from scheduler.api.work.desk import Desk
from scheduler.api.work.http import ClientGone, NoSuchPath, Receive, Scope, Send, WrongMethod, refuse, respond
from scheduler.api.work.listening import Listener, listener_for
from scheduler.api.work.pool import Pool
from scheduler.services.wake import Signal, subscribe

_log = logging.getLogger(__name__)

PREFIX = "/v1/work/"
_EVENTS = re.compile(r"/v1/work/([^/]+)/events")


class Edge:
    """The work protocol of one process, from `start` to `close`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or DatabaseClock()
        self._listener: Listener | None = None

    async def start(self) -> None:
        """Begin to serve; in the event loop that will call."""
        self.pool = Pool()
        self.keys = Keys(self.pool, self.clock)
        self.desk = Desk(self.pool, self.clock, settings.CRONIQ_POLL_HOLD_SECONDS, self.keys.refusal_of_poll)
        self.keys.polls = self.desk
        self.acks = ack.Acks(self.pool, self.clock, self.desk)
        loop = asyncio.get_running_loop()

        def hear(signal: Signal, *, is_from_here: bool = True) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended between a commit and this
                loop.call_soon_threadsafe(partial(self._hear, signal, is_from_here=is_from_here))

        self._unsubscribe = subscribe(hear)
        self._listener = listener_for(partial(hear, is_from_here=False))
        # Listening before the lanes are read: a lane that is added in between is heard of.
        self._listener.start()
        await self.desk.start()

    def _hear(self, signal: Signal, *, is_from_here: bool) -> None:
        if signal.holders is None:
            self.keys.look_again()
        self.desk.hear(signal, is_from_here=is_from_here)

    def stop_polls(self) -> None:
        """Answer every waiting poll, and from now on every new one, without work."""
        if self._listener is not None:
            self.desk.stop()

    async def close(self) -> None:
        self._unsubscribe()
        self._listener.stop()
        await asyncio.to_thread(self.pool.close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._route(scope, receive, send)
        except ClientGone:
            pass
        except CroniqError as refusal:
            await refuse(send, refusal, close=self.desk.is_stopping)
        except Exception:
            _log.exception("%s %s failed", scope["method"], scope["path"])
            body = {"error": "internal", "message": "Croniq has failed here; its log says how."}
            await respond(send, 500, body, close=self.desk.is_stopping)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        handler = {
            "/v1/work/poll": poll.answer,
            "/v1/work/ack": ack.answer,
            "/v1/work/renew": renew.answer,
        }.get(path)
        if handler is None and (match := _EVENTS.fullmatch(path)):
            handler = partial(events.answer, run_text=match[1])
        if handler is None:
            raise NoSuchPath("There is no such path. The paths are in /v1/openapi.yaml.")
        if scope["method"] != "POST":
            raise WrongMethod("Only POST is answered here.")
        await handler(self, scope, receive, send)
