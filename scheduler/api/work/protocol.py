"""uvicorn's HTTP protocol with the head and the body of an answer in one write.

uvloop writes at once, and gives the interpreter's lock up while it does: two writes are two system calls, two packets
that the client reads one by one, and twice a turn lost to the threads that talk to the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from scheduler.api.work.connection import BoundedConnection

LINGER_SECONDS = 2.0
"""How long a client who still sends is listened to after he was refused."""


class WholeAnswers(BoundedConnection):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedWrites(transport, self.loop, lambda: self.is_owed))  # type: ignore[arg-type]


class JoinedWrites:
    """A transport that sends what is written in one turn of the loop in one piece, at the end of that turn.

    Closed while the client still sends (``is_owed``), it says no more and listens a little longer: a socket that is
    closed with unread bytes resets the connection, and the client never reads why it was refused.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, is_owed: Callable[[], bool] | None = None
    ) -> None:
        self._transport, self._loop, self._is_owed = transport, loop, is_owed
        self._parts: list[bytes] = []
        # Asked for with every request; everything else of a transport goes by way of `__getattr__`.
        self.is_closing = transport.is_closing
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        if self._is_owed is None or not self._is_owed() or self.is_closing():
            self._transport.close()
            return
        self.is_closing = lambda: True
        self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(LINGER_SECONDS, self._transport.abort)

    def _flush(self) -> None:
        if self._parts:
            data, self._parts = b"".join(self._parts), []
            if not self.is_closing():  # lost since it was written: nobody is there to read it
                self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
