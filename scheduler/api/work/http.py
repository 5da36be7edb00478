"""Just enough HTTP for the work protocol: bounded bodies in, JSON out."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from croniq_site.kernel.errors import CroniqError, TooLarge, Unavailable
from scheduler.api.work.cutting import Cutter
from scheduler.api.work.parsing import TEXT_BYTES

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

KEPT_BYTES = 32 * 1024 * 1024
"""Most bytes that are kept of a body with texts: room for log lines and errors of megabytes, which are cut."""
READ_BYTES = 64 * 1024 * 1024
"""Most bytes that are read of it: an error of any size is cut and never refused, a run can always end."""
SMALL_BODY_BYTES = 1024 * 1024
"""Most bytes of a poll or a renewal, which hold no text: room for ten thousand runs that a runner lists."""
CUT_BYTES = 6 * TEXT_BYTES + 1024
"""Where a text is cut while it arrives: however it is escaped, it is longer than what is kept, so it gets its mark."""
READ_AT_ONCE_BYTES = 128 * 1024 * 1024
"""Most bytes of bodies in the memory of this process, those that came in one piece not counted."""


class ClientGone(Exception):
    """The connection closed before the request was complete; there is nobody to answer."""


class Room:
    """The memory that bodies may take together. Who finds none is told to come again (503): SDKs do."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self, size: int) -> None:
        if self.taken + size > READ_AT_ONCE_BYTES:
            raise Busy("The server reads too many large bodies. Try again in a moment.", retry_after_seconds=1)
        self.taken += size

    def give_back(self, size: int) -> None:
        self.taken -= size


room = Room()


async def read_body(scope: Scope, receive: Receive, most_bytes: int) -> bytes:
    """Return the whole body. Raises TooLarge as soon as it is known to be, without keeping what was read, `Busy`, and
    ClientGone; the connection gives up a body that is too slow (`connection`)."""
    return await _whole_body(scope, receive, most_bytes, most_bytes, None)


async def read_texts(scope: Scope, receive: Receive) -> bytes:
    """`read_body` of JSON whose long texts are cut while they arrive."""
    return await _whole_body(scope, receive, READ_BYTES, KEPT_BYTES, Cutter(CUT_BYTES))


def read_texts_of(file: Any) -> bytes:
    """`read_texts` of a body that can be read as a file."""
    cutter, parts, read, kept = Cutter(CUT_BYTES), [], 0, 0
    while piece := file.read(64 * 1024):
        read += len(piece)
        parts.append(cutter.feed(piece))
        kept += len(parts[-1])
        _check_size(read, READ_BYTES)
        _check_size(kept, KEPT_BYTES)
    return b"".join([*parts, cutter.rest()])


async def _whole_body(scope: Scope, receive: Receive, most_read: int, most_kept: int, cutter: Cutter | None) -> bytes:
    declared = header(scope, b"content-length")
    if declared.isdigit():
        _check_size(int(declared[:18]), most_read)
    parts: list[bytes] = []
    read = kept = 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            read += len(part)
            _check_size(read, most_read)
            has_more = message.get("more_body", False)
            if not has_more and not parts:
                _check_size(read, most_kept)
                return part
            if cutter is not None:
                part = cutter.feed(part)
            _check_size(kept + len(part), most_kept)
            room.take(len(part))
            kept += len(part)
            parts.append(part)
            if not has_more:
                if cutter is not None:
                    parts.append(cutter.rest())
                return b"".join(parts)
    finally:
        room.give_back(kept)


def _check_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise TooLarge(f"The body is larger than {most_bytes / (1024 * 1024):g} MiB.")


def has_closed(receive: Receive) -> bool:
    """Look whether the connection of a request whose body was read is closed, without waiting for it."""
    look = receive().__await__()
    try:
        next(look)
    except StopIteration as found:
        return found.value["type"] == "http.disconnect"
    look.close()
    return False


def header(scope: Scope, name: bytes) -> str:
    """Return the header ``name`` (lower case), empty where there is none. Sent twice, the first counts."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""


async def respond(
    send: Send, status: int, body: Mapping[str, Any], *, close: bool = False, headers: Mapping[str, str] | None = None
) -> None:
    """Answer with JSON. ``close`` ends the connection after it."""
    await respond_with(send, status, _dumped(body), close=close, headers=headers)


async def respond_with(
    send: Send, status: int, data: bytes, *, close: bool = False, headers: Mapping[str, str] | None = None
) -> None:
    """`respond` with JSON as it is."""
    lines = [
        (b"content-type", b"application/json"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-length", str(len(data)).encode()),
    ]
    if close:
        lines.append((b"connection", b"close"))
    lines.extend((name.encode(), value.encode()) for name, value in (headers or {}).items())
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": data})


async def refuse(send: Send, error: CroniqError, *, close: bool = False) -> None:
    """Answer with a refusal."""
    headers = dict(getattr(error, "headers", {}))
    if error.status == 401:
        headers["www-authenticate"] = 'ApiKey realm="croniq"'
    if error.retry_after_seconds is not None:
        headers["retry-after"] = str(error.retry_after_seconds)
    # The rest of a body that is not kept is not read either: the connection is of no more use.
    await respond(
        send, error.status, error.as_body(), close=close or isinstance(error, TooLarge | Busy), headers=headers
    )


def _dumped(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # orjson has neither integers over 64 bits nor lone surrogates, and a runner may have sent us either.
        return json.dumps(body).encode()


class NoSuchPath(CroniqError):
    status, code = 404, "not_found"


class Busy(Unavailable):
    """No room for a body just now."""


class WrongMethod(CroniqError):
    status, code = 405, "method_not_allowed"
    headers = {"allow": "POST"}
