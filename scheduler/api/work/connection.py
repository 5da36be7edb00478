"""What one connection may cost: how large a head may be, how long a request may take to arrive, an answer to be read.

The server below has no such bounds: a head grows for ever, a byte a minute is a request, and who never reads keeps his
answer and its task. A poll that is held is none of these: it has arrived, and nothing has been written.
"""

from __future__ import annotations

import asyncio

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

HEAD_BYTES = 32 * 1024
"""Most bytes of a request line and its headers."""
MOST_HEADERS = 100
HEAD_SECONDS = 20.0
"""How long a head may take, from the connection or from its first byte."""
BODY_SECONDS = 30.0
BODY_RATE = 64 * 1024
"""A body has 30 s, and a second more for each 64 KiB of it that have come: slow lines end, slow senders are ended."""
READ_SECONDS = 60.0
"""How long an answer waits for a reader who takes none of it."""


class BoundedConnection(HttpToolsProtocol):
    """Refuses with 431, 408 and 400 in the form of the wire protocol, and closes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_in_head, self._is_in_body, self._is_refused = True, False, False
        self._head_bytes = self._body_bytes = 0
        self._arrival: asyncio.TimerHandle | None = None
        self._reader: asyncio.TimerHandle | None = None
        self._expect(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self._stop_looking()
        super().connection_lost(exc)

    # What arrives

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # of somebody who was refused: read, and thrown away
        super().data_received(data)
        if self.transport.is_closing():
            self._expect(None)
        elif self._is_in_head:
            # Bytes that the parser keeps to itself until it knows the end of the line that they belong to.
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(431, "too_large", f"The head of a request may have {HEAD_BYTES // 1024} KiB.")
            elif self._arrival is None:
                self._expect(HEAD_SECONDS)
        elif self._is_in_body:
            if self._arrival is None:
                self._expect(BODY_SECONDS)
        elif self.timeout_keep_alive_task is None and self._is_answered():
            # The end of a body that nobody waited for, or blank lines: idle again, as after an answer.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head, self._is_in_body, self._body_bytes = False, True, 0
        self._expect(None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_body = False
        self._expect(None)
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app) -> None:
        headers = cycle.scope["headers"]
        size = len(cycle.scope["raw_path"]) + len(cycle.scope["query_string"])
        size += sum(len(name) + len(value) + 4 for name, value in headers)
        is_bounded = len(headers) <= MOST_HEADERS and size <= HEAD_BYTES
        super()._start_asgi_task(cycle, app if is_bounded else _refuse_head)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "invalid", "This is not a request that can be read.")

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is upgraded here, and whoever asks for it is answered as if he had not: not worth a line each."""

    @property
    def is_owed(self) -> bool:
        """The client may still be sending what is not wanted any more."""
        return self._is_in_body or self._is_refused

    # How long it takes

    def _expect(self, seconds: float | None) -> None:
        """Have what arrives complete in so many seconds; None: nothing is on its way."""
        if self._arrival is not None:
            self._arrival.cancel()
        self._arrival = None
        if seconds is not None:
            self._expected_at = self.loop.time()
            self._arrival = self.loop.call_later(seconds, self._look_at_sender)

    def _look_at_sender(self) -> None:
        self._arrival = None
        if self.transport.is_closing():
            return
        if self._is_in_body and (self.flow.read_paused or self.pipeline):
            self._expect(BODY_SECONDS)  # it is not read, so it is not the sender who is slow
        elif self._is_in_body and (left := self._seconds_left()) > 0:
            self._arrival = self.loop.call_later(left, self._look_at_sender)
        elif self._is_in_head and not self._head_bytes:
            self.transport.close()  # connected, and has never said anything
        else:
            self._refuse(408, "timeout", "The request was not complete in time.")

    def _seconds_left(self) -> float:
        return self._expected_at + BODY_SECONDS + self._body_bytes / BODY_RATE - self.loop.time()

    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer, if nothing else is being answered, and close."""
        is_free = not self.pipeline and (self._is_answered() or (self._is_in_body and not self.cycle.response_started))
        if is_free and not self.transport.is_closing():
            body = orjson.dumps({"error": code, "message": message})
            lines = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + lines + body)
        self._expect(None)
        self._is_refused = True
        self.transport.close()

    # Who reads the answer

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_again(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._stop_looking()
        super().resume_writing()

    def _look_again(self, left: int) -> None:
        self._stop_looking()
        self._reader = self.loop.call_later(READ_SECONDS, self._look_at_reader, left)

    def _look_at_reader(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._look_again(left)
        else:
            self.transport.abort()

    def _stop_looking(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None


async def _refuse_head(scope, receive, send) -> None:
    message = f"The head of a request may have {HEAD_BYTES // 1024} KiB and {MOST_HEADERS} headers."
    body = orjson.dumps({"error": "too_large", "message": message})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 431, "headers": headers})
    await send({"type": "http.response.body", "body": body})
