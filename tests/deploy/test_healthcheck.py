"""The image's health check asks the server beside it, by a name that is answered, and tells an engine what it found."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.deploy.files import DEPLOY


class _Server(BaseHTTPRequestHandler):
    """Ready while ``status`` says so; ``seen``: by which names it was asked."""

    status = 200
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.headers["Host"])
        self.send_response(self.status if self.path == "/ready" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    class Handler(_Server):
        seen = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        yield listener
        listener.shutdown()
        thread.join()


def check(listener: ThreadingHTTPServer, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(DEPLOY / "healthcheck.py"), str(listener.server_port)],
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("hosts", "asked"),
    [
        ("", "localhost"),
        ("croniq.example, localhost", "croniq.example"),
        ("*", "localhost"),
        (".croniq.example", "croniq.example"),
    ],
)
def test_it_asks_by_a_name_that_is_answered_and_not_by_a_proxy(server, hosts, asked):
    # As Docker or a company sets it for every container; nobody listens there.
    healthy = check(
        server, CRONIQ_ALLOWED_HOSTS=hosts, HTTP_PROXY="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9"
    )
    assert (healthy.returncode, healthy.stderr) == (0, "")
    assert server.RequestHandlerClass.seen == [asked]


@pytest.mark.parametrize("status", [204, 400, 503])
def test_a_server_that_is_not_ready_is_not_healthy(server, status):
    server.RequestHandlerClass.status = status
    assert check(server).returncode == 1
