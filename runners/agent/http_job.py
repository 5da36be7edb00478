"""One HTTP job from start to end: its request, the redirects that it may follow, its answer in the log, its verdict."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import SplitResult, urljoin

import httpcore

from runners.agent.addresses import GuardedNetwork, HostRules
from runners.agent.command import Patience, seconds_text
from runners.agent.http_action import HttpAction, Request, path_of, request_of, target_of
from runners.agent.lines import LineSplitter
from runners.agent.output import LineWriter, LogSink
from runners.agent.secrets import ActionRefused, Secrets

log = logging.getLogger(__name__)

_MOST_REDIRECTS = 10
_KEPT_ELSEWHERE = {"accept", "accept-encoding", "content-type", "user-agent"}
"""Headers that a redirect to another host takes along. All others may be meant for the first one only."""


class RequestFailed(Exception):
    """The request did not succeed; the text is the run's error."""


async def run_request(
    action: HttpAction,
    *,
    identity: Mapping[str, str],
    secrets: Secrets,
    writer: LineWriter,
    hosts: HostRules,
    tls: ssl.SSLContext,
    timeout_seconds: float,
    patience: Patience,
) -> None:
    """Send the request of ``action`` and return if the answer's status is one of success and all of it arrived.

    Raises ActionRefused when it is not sent, RequestFailed with its verdict otherwise. When the time is over or the
    task is cancelled the connection is closed at once; what had arrived is delivered. An answer beyond ``max_response``
    is read to its end and dropped: closing the connection would end what many servers do while they answer.
    """
    request = request_of(action, secrets, identity)
    sink = LogSink(writer, secrets.mask())
    exchange = _Exchange(action, sink)
    limit = min(timeout_seconds, action.timeout_seconds or timeout_seconds)
    try:
        async with (
            GuardedNetwork(hosts) as network,
            asyncio.timeout(limit),
            # A connection a request: none is left over, and none of an earlier run is found closed by the server.
            httpcore.AsyncConnectionPool(ssl_context=tls, network_backend=network, max_keepalive_connections=0) as pool,
        ):
            await exchange.follow(pool, request)
    except TimeoutError:
        raise RequestFailed(f"timed out after {seconds_text(limit)}{exchange.where()}") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        raise RequestFailed(exchange.explained(error)) from None
    finally:
        await _deliver(exchange, sink, patience.delivery)


async def _deliver(exchange: _Exchange, sink: LogSink, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await exchange.finish()
            await sink.flush()
    except TimeoutError:
        log.warning("the server did not take all lines of a run within %g s", seconds)


class _Exchange:
    """A request with its redirects, and how far it has come."""

    def __init__(self, action: HttpAction, sink: LogSink) -> None:
        self._action, self._sink = action, sink
        self._masked, self._splitter = sink.mask.stream(), LineSplitter()
        self._host = ""
        self._status: int | None = None
        self._left = action.max_response
        self._received = 0

    async def follow(self, pool: httpcore.AsyncConnectionPool, request: Request) -> None:
        """Send the request, follow where it may, and read the answer. Raises RequestFailed for its status."""
        for _ in range(_MOST_REDIRECTS + 1):
            target = target_of(request.url)
            self._host, self._status = target.netloc, None
            headers = [("Host", target.netloc), *request.headers]
            if any(name.lower() == "host" for name, _ in request.headers):
                headers = list(request.headers)
            # In parts: the library, given a text, leaves out what follows a semicolon at the end of the path.
            url = httpcore.URL(scheme=target.scheme, host=target.hostname, port=target.port, target=path_of(target))
            async with pool.stream(request.method, url, headers=headers, content=request.content) as response:
                self._status = response.status
                await self._sink.say(
                    f"{request.method} {request.url} answered {_status_text(response.status)}", level="info"
                )
                location = _location(response)
                if location is None or self._action.expects(response.status):
                    await self._read(response)
                    break
                request = self._redirected(request, target, location, response.status)
        else:
            raise RequestFailed(f"redirected more than {_MOST_REDIRECTS} times")
        if not self._action.expects(response.status):
            expected = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in self._action.expected)
            raise RequestFailed(f"answered {_status_text(response.status)}, expected {expected}")

    def where(self) -> str:
        """How far it had come, for the error of one whose time is over."""
        if not self._host:
            return ""
        if self._status is None:
            return f": no answer from {self._host}"
        return f": {self._host} had answered {_status_text(self._status)} and {self._received} bytes"

    def explained(self, error: Exception) -> str:
        text = str(error)
        if isinstance(error, httpcore.ConnectError):
            is_ours = text.startswith("cannot ")
            return text if is_ours else f"no TLS connection to {self._host}: {text or 'it was closed'}"
        if self._status is not None:
            return f"the answer of {self._host} broke off after {self._received} bytes"
        if isinstance(error, httpcore.ProtocolError) and "disconnected" not in text:
            return f"what {self._host} answered is not HTTP"  # the library would quote it
        return f"no answer from {self._host}: the connection was closed"

    async def finish(self) -> None:
        """Write the last line when no line feed ended it."""
        await self._write(self._splitter.feed(self._masked.finish()) + self._splitter.finish())

    async def _read(self, response: httpcore.Response) -> None:
        is_packed = (_header(response, b"content-encoding") or "identity").lower() != "identity"
        if is_packed:
            # Not unpacked: a few bytes may stand for gigabytes, and none were asked for.
            await self._sink.say("the answer is compressed, so it is not shown")
            self._left = 0
        async for data in response.aiter_stream():
            self._received += len(data)
            if self._left:
                shown = data[: self._left]
                self._left -= len(shown)
                await self._write(self._splitter.feed(self._masked.feed(shown)))
                if not self._left:
                    # What the mask holds back may be the first half of a secret: it must not come out at the end.
                    self._masked = self._sink.mask.stream()
        most = self._action.max_response
        if 0 < most < self._received and not is_packed:
            await self.finish()
            await self._sink.say(f"the answer has {self._received} bytes, of which the log keeps {most}")

    def _redirected(self, request: Request, source: SplitResult, location: str, status: int) -> Request:
        try:
            url = urljoin(request.url, location)
            target = target_of(url)
        except (ActionRefused, ValueError):
            raise RequestFailed(f"answered {_status_text(status)} to what is no URL to go to") from None
        answered = f"answered {_status_text(status)} to {self._sink.mask.text(url)[:500]}"
        if self._action.redirects == "none":
            raise RequestFailed(f"{answered}, and follow_redirects is off")
        if source.scheme == "https" and target.scheme == "http":
            raise RequestFailed(f"{answered}, and does not go from https to http")
        is_elsewhere = source.hostname != target.hostname or (
            _port(source) != _port(target) and (source.scheme, _port(source), _port(target)) != ("http", 80, 443)
        )
        if is_elsewhere and self._action.redirects != "any":
            raise RequestFailed(f'{answered}, which is another host, and follow_redirects is not "any"')
        headers, method, content = request.headers, request.method, request.content
        if is_elsewhere:
            headers = tuple((name, value) for name, value in headers if name.lower() in _KEPT_ELSEWHERE)
        if (status == HTTPStatus.SEE_OTHER and method != "HEAD") or (status in (301, 302) and method == "POST"):
            method, content = "GET", None
            headers = tuple((name, value) for name, value in headers if name.lower() != "content-type")
        return Request(method, url, headers, content)

    async def _write(self, lines: list[str]) -> None:
        for line in lines:
            await self._sink.write(line, stream="response", level="info")


def _location(response: httpcore.Response) -> str | None:
    if response.status not in (301, 302, 303, 307, 308):
        return None
    return _header(response, b"location")


def _header(response: httpcore.Response, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), None)


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _status_text(status: int) -> str:
    """The number and its usual words, not those of the server: an error of a run is no place for anybody's text."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
