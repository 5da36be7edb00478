"""Logs that are followed: event streams that cost neither a thread nor a connection to the database while they wait.

Django answers the request for a stream as it answers any other: it looks who asks, and says what there is. Where more
is to come, its answer has the header `HEADER`, and the server (`croniq_site.asgi`) goes on with it here, in the event
loop. A server that does not know the header, and one that has no room, ends the answer; the browser asks again then.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie
from django.utils import translation

from croniq_site.kernel.errors import Unavailable
from scheduler.dashboard.log_lines import Look, event_of, shown_lines
from scheduler.dashboard.pages import VIEW
from scheduler.queries.log_pages import LogFilter, Place, lines_after, log_marks

_log = logging.getLogger(__name__)

PATH_END = "/log/stream"
HEADER = "X-Croniq-Tail"
END = "event: end\ndata:\n\n"
"""The run is over and all its lines were said: nobody need ask again."""

MOST_TAILS = 100
"""Streams of one process at a time."""
LOOK_SECONDS = 0.5
"""How often it is looked which runs have new lines: one query for all streams."""
CHECK_SECONDS = 2.0
"""How often it is looked who may still look."""
PING_SECONDS = 15.0
"""A stream that says nothing says at least that it lives: proxies end what is silent."""

Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Pool(Protocol):
    def read(self, query: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Run what only reads, in one of the few threads that have a connection. Raises Unavailable."""


@dataclass(frozen=True)
class Order:
    """What of which log a stream says, after which place, and how."""

    run_id: UUID
    place: Place
    filters: LogFilter
    path: str
    since: datetime | None
    language: str

    def read(self) -> tuple[str, Place, bool]:
        """Return the next lines as an event (empty: none), the place that was reached, and whether there is more."""
        page = lines_after(self.run_id, self.place, self.filters)
        with translation.override(self.language or None):
            elements = shown_lines(page.lines, Look(self.path, self.filters.text, self.since))
        page = page.cut(len(elements))
        is_news = page.last.id > self.place.id
        return event_of(elements, page.last) if is_news else "", page.last, page.has_more

    def as_text(self) -> str:
        since = self.since.isoformat() if self.since else ""
        said = [str(self.run_id), str(self.place), self.filters.text, self.filters.least, self.path, since]
        return json.dumps([*said, self.language])

    @classmethod
    def of_text(cls, text: str) -> Order:
        run_id, place, find, least, path, since, language = json.loads(text)
        began = datetime.fromisoformat(since) if since else None
        return cls(UUID(run_id), Place.of_text(place), LogFilter(find, least), path, began, language)


class Tail:
    """One stream. ``news`` is set when there may be something to do for it."""

    def __init__(self, order: Order, session_key: str) -> None:
        self.order, self.session_key = order, session_key
        self.news = asyncio.Event()
        self.is_over = False  # the run: nothing will be added any more
        self.is_ended = False  # the stream, whatever becomes of the run
        self._mark: int | None = -1
        self._telling: asyncio.Timeout | None = None

    def hear(self, mark: int | None) -> None:
        """Take what `log_marks` says of the run; None: it is over."""
        if mark != self._mark:
            self._mark, self.is_over = mark, mark is None
            self.news.set()

    def end(self) -> None:
        if self.is_ended:
            return
        self.is_ended = True
        self.news.set()
        if self._telling is not None:
            self._telling.reschedule(0)

    async def tell(self, send: Send, message: Mapping[str, Any]) -> None:
        """Send, and wait for a slow reader no longer than his stream lasts: who does not read keeps no place by it."""
        if self.is_ended:
            return
        try:
            async with asyncio.timeout(None) as self._telling:
                await send(message)
        except TimeoutError:
            pass  # it was ended, and what waited is not sent at all
        finally:
            self._telling = None


class Tails:
    """All streams of this process; everything but the queries runs in the event loop's thread."""

    def __init__(self) -> None:
        self._tails: set[Tail] = set()
        self._looking: asyncio.Task[None] | None = None
        self._is_stopping = False

    @property
    def following(self) -> int:
        """How many streams there are."""
        return len(self._tails)

    def stop(self) -> None:
        """End all of them, and begin none any more."""
        self._is_stopping = True
        for tail in self._tails:
            tail.end()

    async def answer(
        self,
        pool: Pool,
        cookies: str,
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Send,
        ask: Callable[[Send], Awaitable[None]],
    ) -> None:
        """Send what ``ask`` answers, and go on with it where that is asked for. ``receive``: of a request whose body
        was read, so that it tells of nothing but its end."""
        tail: Tail | None = None

        async def send_and_stay(message: Mapping[str, Any]) -> None:
            nonlocal tail
            if message["type"] == "http.response.start":
                order, headers = _order_among(message["headers"])
                if order is not None and len(self._tails) < MOST_TAILS and not self._is_stopping:
                    tail = Tail(order, parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, ""))
                    self._tails.add(tail)
                    self._look_at_all(pool)
                    headers = [line for line in headers if line[0] != b"content-length"]
                message = {**message, "headers": headers}
            elif tail is not None:
                await tail.tell(send, {**message, "more_body": True})
                return
            await send(message)

        try:
            await ask(send_and_stay)
            if tail is not None:
                await self._serve(tail, pool, receive, send)
        finally:
            if tail is not None:
                self._tails.discard(tail)
        if tail is not None:
            await send({"type": "http.response.body", "body": b""})

    async def _serve(self, tail: Tail, pool: Pool, receive: Callable[[], Awaitable[Any]], send: Send) -> None:
        """Say what is added until the run is over, the reader is gone, or he may not look any more."""
        gone = asyncio.get_running_loop().create_task(_end_with(tail, receive))
        try:
            while not tail.is_ended:
                tail.news.clear()
                is_over = tail.is_over  # before the lines: a run that is over has said all that it will say
                text, place, has_more = await pool.read(tail.order.read)
                tail.order = replace(tail.order, place=place)
                text += END if is_over and not has_more else ""
                if text:
                    await tail.tell(send, {"type": "http.response.body", "body": text.encode(), "more_body": True})
                if has_more:
                    continue
                if is_over:
                    return
                while not tail.news.is_set():
                    try:
                        await asyncio.wait_for(tail.news.wait(), PING_SECONDS)
                    except TimeoutError:
                        await tail.tell(send, {"type": "http.response.body", "body": b":\n\n", "more_body": True})
        except Unavailable:
            pass  # the browser asks again, and is told
        finally:
            gone.cancel()

    def _look_at_all(self, pool: Pool) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(pool))

    async def _look(self, pool: Pool) -> None:
        """Tell the streams what is new, and end those of people who may not look any more."""
        checked_at = time.monotonic()
        try:
            while self._tails:
                await asyncio.sleep(LOOK_SECONDS)
                # Those that come while the database is asked are not told what it did not look for.
                tails = tuple(self._tails)
                try:
                    marks = await pool.read(log_marks, {tail.order.run_id for tail in tails})
                    for tail in tails:
                        tail.hear(marks.get(tail.order.run_id))
                    if time.monotonic() - checked_at >= CHECK_SECONDS:
                        allowed = await pool.read(who_may_look, {tail.session_key for tail in tails})
                        checked_at = time.monotonic()
                        for tail in tails:
                            if tail.session_key not in allowed:
                                tail.end()
                except Exception as error:
                    # Nobody knows who may still look: all are asked to come again.
                    if not isinstance(error, Unavailable):
                        _log.exception("the followed logs could not be looked after")
                    for tail in tails:
                        tail.end()
        finally:
            self._looking = None


async def _end_with(tail: Tail, receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    tail.end()


def who_may_look(session_keys: Iterable[str]) -> set[str]:
    """Return those of these sessions whose user may look at pages now."""
    store = import_module(settings.SESSION_ENGINE).SessionStore
    allowed = set()
    for key in session_keys:
        request = HttpRequest()
        request.session = store(key)
        if get_user(request).has_perm(VIEW):
            allowed.add(key)
    return allowed


def _order_among(headers: Iterable[tuple[bytes, bytes]]) -> tuple[Order | None, list[tuple[bytes, bytes]]]:
    """Return what the header orders, and the headers without it: it is between Django and this."""
    order, others = None, []
    for name, value in headers:
        if name.lower() == HEADER.lower().encode():
            order = Order.of_text(value.decode("latin-1"))
        else:
            others.append((name, value))
    return order, others
