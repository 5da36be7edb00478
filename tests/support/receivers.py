"""A receiver of webhooks and a mail server that take, refuse or hang, as they are told to. Real ones, on loopback."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Webhook:
    """``status`` is what it answers; 0: nothing, until it is closed. ``location``: where a redirect leads.
    ``seen``: headers and body of each request."""

    url: str = ""
    status: int = 204
    location: str = "/elsewhere"
    seen: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def ids(self) -> list[str]:
        return [headers["x-croniq-delivery"] for headers, _ in self.seen]


@contextmanager
def webhook() -> Iterator[Webhook]:
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = hook.status
            hook.seen.append(({name.lower(): value for name, value in self.headers.items()}, body))
            if not status:
                hook.closing.wait(60)
                return
            self.send_response(status)
            self.send_header("Location", hook.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        hook.url = f"http://127.0.0.1:{port}/services/key"
        try:
            yield hook
        finally:
            hook.closing.set()


@dataclass
class MailServer:
    """``mode`` is ``take``, ``refuse`` (451 after the text) or ``hang`` (says nothing from the first word on)."""

    url: str = ""
    mode: str = "take"
    taken: list[Message] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """As much of RFC 5321 as takes a mail."""
    server = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, text: str) -> None:
            self.wfile.write(text.encode() + b"\r\n")

        def handle(self) -> None:
            if server.mode == "hang":
                server.closing.wait(60)
                return
            self.say("220 mail.test")
            for line in self.rfile:
                word = line.split()[0].upper() if line.split() else b""
                if word == b"DATA":
                    self.say("354 go on")
                    text = b"".join(iter(self.rfile.readline, b".\r\n"))
                    if server.mode == "take":
                        server.taken.append(message_from_bytes(text))
                    self.say("250 taken" if server.mode == "take" else "451 not now")
                elif word == b"QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 mail.test")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True

    with _serving(Server(("127.0.0.1", 0), Handler)) as port:
        server.url = f"smtp://127.0.0.1:{port}"
        try:
            yield server
        finally:
            server.closing.set()


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
