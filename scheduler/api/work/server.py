"""uvicorn as Croniq needs it: polls are answered before connections are waited for, and the wait is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from types import FrameType
from typing import Protocol

import uvicorn
from django.conf import settings

from scheduler.api.work.protocol import WholeAnswers

KEEP_ALIVE_SECONDS = 75
"""Longer than any client's own (the SDK's is 5 s) and than a pause between two polls: a server that closes an idle
connection just as the next request is on its way resets that request."""
GRACE_SECONDS = 0.6
"""How long a stop waits for answers that are being written."""
BACKLOG = 2048


class ServedApplication(Protocol):
    async def __call__(self, scope, receive, send) -> None: ...

    def stop_polls(self) -> None: ...


class Server(uvicorn.Server):
    """Serves one application on one listening socket. ``is_ready`` is called once it accepts connections, ``is_alive``
    about ten times a second in the event loop, ``is_stopping`` when it begins to stop."""

    def __init__(
        self,
        application: ServedApplication,
        *,
        is_ready: Callable[[], None] = lambda: None,
        is_alive: Callable[[], None] = lambda: None,
        is_stopping: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                loop="uvloop",
                http=WholeAnswers,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=True,
                forwarded_allow_ips=settings.CRONIQ_TRUSTED_PROXIES,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
                backlog=BACKLOG,
            )
        )
        self._application = application
        self._is_ready, self._is_alive, self._is_stopping = is_ready, is_alive, is_stopping
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exit_asked = asyncio.Event()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._exit_asked.set)

    async def main_loop(self) -> None:
        """As uvicorn's, but a signal ends it at once and not at its next tick."""
        self._loop = asyncio.get_running_loop()
        tick = 0
        while not await self.on_tick(tick):
            tick = (tick + 1) % 864_000
            self._is_alive()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exit_asked.wait(), 0.1)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._is_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._is_stopping()
        # First of all: uvicorn waits for every request that it has, and a held poll would be one for half a minute.
        self._application.stop_polls()
        await asyncio.sleep(0)
        await super().shutdown(sockets=sockets)


def listening_socket(host: str, port: int) -> socket.socket:
    """Bind and listen; ``port`` 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
