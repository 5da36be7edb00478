"""The one server application: the work protocol in plain ASGI, everything else Django in a bounded pool of threads.

A waiting poll must not cost a thread, and a Django view under ASGI costs one a request (bench/FIGURES.md §6); so Django
answers as the WSGI application that it is, and never sees `/v1/work/`. Nor may a slow client cost a thread: bodies are
whole before a thread has them, and answers wait for their reader in memory. What goes on after Django has answered
(`scheduler.dashboard.tails`) goes on without a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from a2wsgi import WSGIMiddleware
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from croniq_site.kernel.errors import CroniqError
from croniq_site.kernel.request import HEADER, answering
from croniq_site.wsgi import application as django_application
from runners.api.limits import ADDRESSES, GUESSES, is_judged
from scheduler.api.work.edge import PREFIX, Edge
from scheduler.api.work.http import ClientGone, Send, header, read_body, refuse
from scheduler.dashboard.tails import PATH_END, Tails
from scheduler.metrics.statements import observe

_log = logging.getLogger(__name__)

PAGE_THREADS = 8
"""Requests that Django answers at a time, each with its own connection to the database."""
PROBE = "/version"
"""Whoever kills servers that do not answer asks this, which asks no database. It has a thread of its own: a database
that hangs, and all other threads with it, costs no server."""
_FRAMING = (b"content-length", b"transfer-encoding")


class Application:
    """One server process: `/v1/work/…` to the edge, all else to Django."""

    def __init__(self, edge: Edge, pages: Callable = django_application) -> None:
        self.edge, self.tails = edge, Tails()
        self._django = pages

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] == "http":
            with answering(header(scope, b"x-request-id")) as name:
                await self._answer(scope, receive, _with_id(send, name))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: dict[str, Any], receive: Callable, send: Send) -> None:
        is_work = scope["path"].startswith(PREFIX)
        address, key = (scope.get("client") or ("",))[0], header(scope, b"authorization")
        try:
            if not is_work:
                ADDRESSES.check(address, scope["path"])
            if key and not GUESSES.is_known(key):
                GUESSES.check(address, is_runner=is_work)
                send = _told_of_key(send, address, key, is_judged=is_judged(scope["path"]))
        except CroniqError as refusal:
            await refuse(send, refusal)
            return
        await (self.edge if is_work else self._page)(scope, receive, send)

    async def _page(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        try:
            body = await read_body(scope, receive, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        except ClientGone:
            return
        except CroniqError as refusal:
            await refuse(send, refusal)
            return

        async def receive_whole() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        # Django reads as much as the header says: nothing at all of a body that came in chunks, without one.
        kept = [(name, value) for name, value in scope["headers"] if name not in _FRAMING]
        headers = [*kept, (b"content-length", str(len(body)).encode())]
        pages = self._probes if scope["path"] == PROBE else self._pages
        ask = partial(pages, {**scope, "headers": headers}, receive_whole)
        if scope["path"].endswith(PATH_END):
            await self.tails.answer(self.edge.pool, header(scope, b"cookie"), receive, send, ask)
        else:
            await ask(send)

    async def _live(self, receive: Callable, send: Callable) -> None:
        await receive()
        try:
            self._open_pages()
            await self.edge.start()
        except Exception as error:
            _log.exception("the server cannot start")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.edge.close()
        await asyncio.to_thread(self._close_pages)
        await send({"type": "lifespan.shutdown.complete"})

    def stop_polls(self) -> None:
        """End all that waits, polls and streams; the first step of a shutdown, in the event loop's thread."""
        self.edge.stop_polls()
        self.tails.stop()

    def _open_pages(self) -> None:
        self._connections: list[BaseDatabaseWrapper] = []
        self._pages, self._probes = self._django_in(PAGE_THREADS), self._django_in(1)

    def _django_in(self, threads: int) -> WSGIMiddleware:
        application = WSGIMiddleware(self._django, workers=threads, send_queue_size=0)
        application.executor.shutdown(wait=False)
        application.executor = ThreadPoolExecutor(
            threads, thread_name_prefix="croniq-pages", initializer=self._enter_thread
        )
        return application

    def _enter_thread(self) -> None:
        connection = connections[DEFAULT_DB_ALIAS]
        connection.inc_thread_sharing()  # so that it can be closed when the server stops
        observe(connection)
        self._connections.append(connection)

    def _close_pages(self) -> None:
        # Not waited for: a page that hangs must not keep the process from ending.
        for pages in (self._pages, self._probes):
            pages.executor.shutdown(wait=False, cancel_futures=True)
        for connection in self._connections:
            if not connection.in_atomic_block:
                connection.close()


def _told_of_key(send: Send, address: str, key: str, *, is_judged: bool) -> Send:
    """Note what the status says of the key: each door has its own way to look it up, and both say 401."""

    async def send_and_note(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if message["status"] == 401:
                GUESSES.wrong(address)
            elif is_judged and message["status"] < 400:
                GUESSES.good(key)
        await send(message)

    return send_and_note


def _with_id(send: Send, name: str) -> Send:
    line = (HEADER.lower().encode(), name.encode())

    async def send_with_id(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], line]}
        await send(message)

    return send_with_id


application = Application(Edge())
