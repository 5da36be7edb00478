"""A real HTTP server on a local port, whose answers are bytes: also those that no good server sends."""

from __future__ import annotations

import contextlib
import io
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Answer = Callable[["Received", "Peer"], None]


@dataclass(frozen=True)
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """The client's end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def reply(self, body: bytes = b"", status: str = "200 OK", *headers: str) -> None:
        """Send a whole answer of one piece."""
        head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers])
        self.send(head.encode() + b"\r\n\r\n" + body)

    def wait_for_close(self) -> None:
        """Wait, ten seconds at most, until the client has closed the connection."""
        self._connection.settimeout(10)
        with contextlib.suppress(ConnectionError):
            while self._connection.recv(65536):
                pass


@dataclass
class LocalServer:
    """``requests``: what came, in order. ``host``: as clients may write it."""

    port: int
    scheme: str = "http"
    requests: list[Received] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)
    """The answer of some request was written to its end, or its client has gone."""

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"


@contextlib.contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[LocalServer]:
    """Answer each request by ``answer(request, peer)``; the connection is closed when it returns."""

    class Handler(socketserver.StreamRequestHandler):
        timeout = 20  # nothing that goes wrong with a client keeps a test for longer

        def handle(self) -> None:
            request = _read(self.rfile)
            if request is not None:
                server.requests.append(request)
                with contextlib.suppress(ConnectionError):
                    answer(request, Peer(self.connection))
                server.closed.set()

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True

        def get_request(self) -> tuple[socket.socket, object]:
            connection, address = super().get_request()
            return (tls.wrap_socket(connection, server_side=True) if tls else connection), address

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away in the middle is what some tests are about."""

    listener = Server(("127.0.0.1", 0), Handler)
    server = LocalServer(listener.server_address[1], "https" if tls else "http")
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join(10)


def _read(stream: io.BufferedReader) -> Received | None:
    if stream.peek(1)[:1] in (b"", b"\x16"):  # the end, or the first word of TLS
        return None
    line = stream.readline().decode("latin-1")
    method, target, _ = line.split(" ", 2)
    headers = {}
    while (line := stream.readline().decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Received(method, target, headers, stream.read(int(headers.get("content-length", 0))))
