"""A receiver of webhooks and a mail server that take, refuse or hang, as they are told to. Real ones, on loopback."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import BinaryIO


@dataclass
class Webhook:
    """``status`` is what it answers; 0: nothing, until it is closed. ``location``: where a redirect leads. ``says``:
    what it answers instead, a byte now and then if it ``dribbles``. ``seen``: headers and body of each request, before
    ``asked`` is called."""

    url: str = ""
    status: int = 204
    location: str = "/elsewhere"
    says: bytes = b""
    dribbles: bool = False
    asked: Callable[[], object] = lambda: None
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
            hook.asked()
            if not status:
                hook.closing.wait(60)
                return
            if hook.says:
                with suppress(OSError):  # nobody waits for all of it
                    _say(self.wfile, hook.says, hook.closing if hook.dribbles else None)
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
    """``mode`` is ``take``, ``refuse`` (451 after the text), ``hang`` (says nothing from the first word on) or
    ``dribble`` (takes it, its first word coming a byte now and then). A farewell it never answers."""

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
            with suppress(OSError):  # nobody waits for all of it
                self.talk()

        def talk(self) -> None:
            if server.mode == "hang":
                server.closing.wait(60)
                return
            if server.mode == "dribble":
                _say(self.wfile, b"220 " + SLOWLY, server.closing)
            self.say("220 mail.test")
            for line in self.rfile:
                word = line.split()[0].upper() if line.split() else b""
                if word == b"DATA":
                    self.say("354 go on")
                    text = b"".join(iter(self.rfile.readline, b".\r\n"))
                    if server.mode != "refuse":
                        server.taken.append(message_from_bytes(text))
                    self.say("451 not now" if server.mode == "refuse" else "250 taken")
                elif word == b"QUIT":
                    server.closing.wait(60)
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


SLOWLY = b"." * 500
"""What takes ten seconds to say for who dribbles."""


def _say(to: BinaryIO, words: bytes, slow: threading.Event | None) -> None:
    """All at once, or a byte every 20 ms until ``slow``."""
    for number in range(len(words) if slow is not None else 0):
        to.write(words[number : number + 1])
        if slow.wait(0.02):
            return
    if slow is None:
        to.write(words)


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
