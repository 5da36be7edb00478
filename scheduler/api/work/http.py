"""Just enough HTTP for the work protocol: bounded bodies in, JSON out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from croniq_site.kernel.errors import CroniqError, TooLarge

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

BODY_BYTES = 32 * 1024 * 1024
"""Most bytes of a body: room for errors and log lines of megabytes, which are cut and never refused."""

SMALL_BODY_BYTES = 1024 * 1024
"""Most bytes of a poll or a renewal, which hold no text: room for ten thousand runs that a runner lists."""


class ClientGone(Exception):
    """The connection closed before the request was complete; there is nobody to answer."""


async def read_body(
    scope: Scope, receive: Receive, most_bytes: int = BODY_BYTES, *, seconds: float | None = None
) -> bytes:
    """Return the whole body. Raises TooLarge as soon as it is known to be, without keeping what was read, and TooSlow
    when it is not here ``seconds`` after the call."""
    if seconds is None:
        return await _whole_body(scope, receive, most_bytes)
    try:
        async with asyncio.timeout(seconds):
            return await _whole_body(scope, receive, most_bytes)
    except TimeoutError:
        raise TooSlow(f"The body was not complete after {seconds:g} s.") from None


async def _whole_body(scope: Scope, receive: Receive, most_bytes: int) -> bytes:
    declared = header(scope, b"content-length")
    if declared.isdigit() and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            raise _too_large(most_bytes)
        parts.append(part)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def has_closed(receive: Receive) -> bool:
    """Look whether the connection of a request whose body was read is closed, without waiting for it."""
    look = receive().__await__()
    try:
        next(look)
    except StopIteration as found:
        return found.value["type"] == "http.disconnect"
    look.close()
    return False


def _too_large(most_bytes: int) -> TooLarge:
    return TooLarge(f"The body is larger than {most_bytes / (1024 * 1024):g} MiB.")


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
    lines = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
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
    # The rest of a body that is too large or too slow is not read: the connection is of no more use.
    await respond(
        send, error.status, error.as_body(), close=close or isinstance(error, TooLarge | TooSlow), headers=headers
    )


def _dumped(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # orjson has neither integers over 64 bits nor lone surrogates, and a runner may have sent us either.
        return json.dumps(body).encode()


class NoSuchPath(CroniqError):
    status, code = 404, "not_found"


class TooSlow(CroniqError):
    status, code = 408, "timeout"


class WrongMethod(CroniqError):
    status, code = 405, "method_not_allowed"
    headers = {"allow": "POST"}
