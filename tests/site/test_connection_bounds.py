"""What a connection may cost, at both doors: large heads, slow senders, lies about lengths, readers who do not read."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from scheduler.api.work import connection, http, protocol
from scheduler.api.work.connection import HEAD_BYTES, MOST_HEADERS, BoundedConnection
from scheduler.api.work.server import Server, listening_socket
from tests.scheduler.edge.helpers import FakeRunner, due_run
from tests.support.polling import poll_until
from tests.support.server import LiveEdge, live_edge

pytestmark = pytest.mark.django_db(transaction=True)

DOORS = ["/v1/work/ack", "/sign-in"]
"""One path of the edge, one of Django's."""


@pytest.fixture
def server():
    with live_edge(hold_seconds=0.5) as server:
        yield server


def connected(server: LiveEdge) -> socket.socket:
    host, port = urlsplit(server.base_url).netloc.split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def all_said(client: socket.socket) -> bytes:
    """What the server says until it closes."""
    said = b""
    try:
        while part := client.recv(65_536):
            said += part
    except ConnectionResetError:  # what we sent and it never read
        pass
    return said


def answer_to(server: LiveEdge, sent: bytes) -> tuple[int, dict]:
    """Send, and read until the server closes: the status and the body of its one answer."""
    with connected(server) as client:
        client.sendall(sent)
        head, _, body = all_said(client).partition(b"\r\n\r\n")
    assert head.count(b"HTTP/1.1 ") == 1, head
    return int(head.split()[1]), json.loads(body) if body.startswith(b"{") else {}


def is_idle(server: LiveEdge) -> bool:
    return not server.server.server_state.tasks and not http.room.taken


def head(path: str, *lines: bytes) -> bytes:
    return b"\r\n".join([b"POST %s HTTP/1.1" % path.encode(), b"Host: 127.0.0.1", *lines, b"", b""])


LARGE_HEADS: dict[str, Callable[[str], bytes]] = {
    "a header": lambda path: head(path, b"X: " + b"x" * HEAD_BYTES),
    "a header that never ends": lambda path: head(path)[:-2] + b"X: " + b"x" * (HEAD_BYTES + 1),
    "many small headers": lambda path: head(path, *[b"X-%d: x" % n for n in range(MOST_HEADERS)]),
    "a query": lambda path: head(path + "?" + "x" * HEAD_BYTES),
    "headers without end": lambda path: head(path)[:-2] + b"X: x\r\n" * (HEAD_BYTES // 6),
}


@pytest.mark.parametrize("path", DOORS)
def test_a_head_over_the_limit_is_431(server, path):
    for name, made in LARGE_HEADS.items():
        status, said = answer_to(server, made(path))
        assert (status, said["error"]) == (431, "too_large"), name
    poll_until(lambda: is_idle(server), what="nothing is left")
    # The largest that is none.
    lines = [b"X-%d: x" % n for n in range(MOST_HEADERS - 3)]
    status, _ = answer_to(server, head(path, *lines, b"Connection: close", b"Content-Length: 0"))
    assert status in (401, 403)


@pytest.mark.parametrize("path", DOORS)
def test_a_head_that_never_ends_is_given_up(monkeypatch, server, path):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)
    status, said = answer_to(server, head(path)[:-2])
    assert (status, said["error"]) == (408, "timeout")
    poll_until(lambda: is_idle(server), what="nothing is left")


def test_a_connection_that_says_nothing_is_closed_without_a_word(monkeypatch, server):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)
    with connected(server) as silent:
        assert all_said(silent) == b""


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize(
    "lines",
    [(b"Content-Length: 100", b"\r\n{"), (b"Transfer-Encoding: chunked", b"\r\n1\r\n{\r\n")],
    ids=["length", "chunks"],
)
def test_a_body_that_never_ends_is_given_up_with_its_task(monkeypatch, server, path, lines):
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.1)
    key = b"Authorization: ApiKey " + server.key().encode()
    status, said = answer_to(server, head(path, key, lines[0])[:-2] + lines[1])
    assert (status, said["error"]) == (408, "timeout")
    poll_until(lambda: is_idle(server), what="the request is gone")


def test_a_body_that_keeps_coming_is_waited_for(monkeypatch, server):
    """Each byte buys a second: when the time of a silent sender is over, this one still has his."""
    looked = threading.Event()

    def look(self, original=BoundedConnection._look_at_sender):
        original(self)
        looked.set()

    monkeypatch.setattr(connection, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(connection, "BODY_RATE", 1)
    monkeypatch.setattr(BoundedConnection, "_look_at_sender", look)
    key = b"Authorization: ApiKey " + server.key().encode()
    with connected(server) as client:
        client.sendall(head("/v1/work/ack", key, b"Content-Length: 31", b"Connection: close") + b" " * 30)
        assert looked.wait(20)
        client.sendall(b"5")
        assert all_said(client).startswith(b"HTTP/1.1 400 ")


def test_what_remains_of_a_refused_request_has_its_time_too(monkeypatch, server):
    """Answered 401 before its body was there: the connection is not the sender's for ever."""
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.1)
    with connected(server) as client:
        client.sendall(head("/v1/work/ack", b"Content-Length: 100") + b"{")
        assert all_said(client).startswith(b"HTTP/1.1 401 ")


def test_a_poll_that_is_held_is_neither(monkeypatch, server):
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "READ_SECONDS"):
        monkeypatch.setattr(connection, name, 0.05)
    runner = FakeRunner(server, server.key())
    answer = runner.poll()
    assert (answer.status_code, answer.json()) == (200, {"work": [], "cancel": []})


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize(
    "lines",
    [
        [b"Content-Length: 5", b"Content-Length: 6"],
        [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked, gzip"],
        [b"Content-Length: -1"],
        [b"Content-Length: 99999999999999999999999"],
        [b"Content-Length: 5 5"],
    ],
    ids=lambda lines: b" ".join(lines).decode(),
)
def test_two_ways_to_read_a_request_are_none(server, path, lines):
    status, said = answer_to(server, head(path, *lines) + b"0\r\n\r\n")
    assert (status, said["error"]) == (400, "invalid")


def test_a_body_shorter_than_it_says_does_nothing():
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        assert runner.work()
        _send_half_an_ack(server, runner, entry)
        assert runner.ack(entry.run_id).status_code == 200


def _send_half_an_ack(server, runner, entry):
    ack = {"runner_id": "r1", "execution_id": str(entry.run_id), "status": "success", "attempt": 1}
    body = json.dumps(ack).encode()
    key = b"Authorization: ApiKey " + runner.key.encode()
    with connected(server) as client:
        client.sendall(head("/v1/work/ack", key, b"Content-Length: %d" % (len(body) + 1)) + body)
        client.shutdown(socket.SHUT_WR)
        all_said(client)
    poll_until(lambda: is_idle(server), what="the request is gone")
    entry.refresh_from_db()
    assert entry.run.verdict is None


@pytest.mark.parametrize("path", DOORS)
def test_a_body_of_its_own_length_is_413_before_it_is_sent(server, path):
    key = b"Authorization: ApiKey " + server.key().encode()
    status, said = answer_to(server, head(path, key, b"Content-Length: 9999999999", b"Expect: 100-continue"))
    assert (status, said["error"]) == (413, "too_large")


@pytest.mark.parametrize("path", DOORS)
def test_who_still_sends_reads_why_it_is_not_wanted(server, path):
    """Closing at once would reset the connection, and take the answer with it."""
    key = b"Authorization: ApiKey " + server.key().encode()
    with connected(server) as client:
        client.sendall(head(path, key, b"Content-Length: 9999999999"))
        for _ in range(8):
            client.sendall(b"x" * 1_000_000)
        client.shutdown(socket.SHUT_WR)
        assert all_said(client).startswith(b"HTTP/1.1 413 ")


def send_for(client: socket.socket, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        client.sendall(b"x" * 1000)


def test_who_sends_for_ever_is_not_listened_to_for_ever(monkeypatch, server):
    monkeypatch.setattr(protocol, "LINGER_SECONDS", 0.1)
    with connected(server) as client:
        client.sendall(head("/sign-in", b"Content-Length: 9999999999"))
        assert client.recv(100).startswith(b"HTTP/1.1 413 ")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_for(client, seconds=20)
    poll_until(lambda: not server.server.server_state.connections, what="the connection is gone")


def test_bodies_have_so_much_memory_together(monkeypatch, server):
    """The others are told to come again, as SDKs do; nothing is left of either."""
    monkeypatch.setattr(http, "READ_AT_ONCE_BYTES", 1024 * 1024)
    pieces = [b"[" + b" " * 200_000] * 10
    for path in DOORS:
        answer = server.http.post(path, content=iter(pieces), headers={"authorization": f"ApiKey {server.key()}"})
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable"), path
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["connection"] == "close"
    poll_until(lambda: is_idle(server), what="nothing is left")


class Endless:
    """An application whose answer is larger than what the system keeps for a reader who does not read."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
                await asyncio.sleep(0)  # what is written in one turn of the loop leaves at its end
        finally:
            self.ended.set()

    def stop_polls(self) -> None: ...


def test_a_reader_who_takes_nothing_is_left(monkeypatch):
    monkeypatch.setattr(connection, "READ_SECONDS", 0.2)
    listener, application, ready = listening_socket("127.0.0.1", 0), Endless(), threading.Event()
    server = Server(application, is_ready=ready.set)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        assert ready.wait(20)
        with socket.create_connection(listener.getsockname(), timeout=20) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert application.ended.wait(20)
    finally:
        server.should_exit = True
        thread.join(20)
