"""A live server in this process: the real application behind real HTTP, on the test database.

    @pytest.mark.django_db(transaction=True)
    def test_x():
        with live_edge() as server:
            answer = server.post("/v1/work/poll", {"runner_id": "r1"}, key=server.key("work:poll"))

The test needs `transaction=True`: the server's threads have connections of their own.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from django.core.wsgi import get_wsgi_application
from django.test import override_settings

from croniq_site.asgi import Application
from croniq_site.kernel.clock import Clock, DatabaseClock
from runners.domain.scopes import RUNNER_SCOPES
from runners.models import ApiClient
from runners.services.clients import create_client, issue_key
from scheduler.api.work.edge import Edge
from scheduler.api.work.server import Server, listening_socket, url_of

START_SECONDS = 20
_numbers = itertools.count(1)


@dataclass
class LiveEdge:
    """A running server. `http` is one client for all requests of a test; it waits 20 s for an answer."""

    base_url: str
    application: Application
    http: httpx.Client
    server: Server

    def client(self, *scopes: str, tenant: str | None = None, name: str = "") -> ApiClient:
        """Make an API client; without scopes it has those of a runner."""
        name = name or f"client-{next(_numbers)}"
        return create_client(name, scopes or RUNNER_SCOPES, DatabaseClock().now(), tenant=tenant)

    def key(self, *scopes: str, tenant: str | None = None, client: ApiClient | None = None) -> str:
        """Make a key, of a new client unless one is given, and return it raw."""
        return issue_key(client or self.client(*scopes, tenant=tenant), DatabaseClock().now())

    def post(self, path: str, body: Any = None, *, key: str = "", content: bytes | None = None) -> httpx.Response:
        """POST JSON (or `content` as it is) with the key."""
        headers = {"authorization": f"ApiKey {key}"} if key else {}
        if content is not None:
            return self.http.post(path, content=content, headers=headers)
        return self.http.post(path, json=body, headers=headers)

    def get(self, path: str, *, key: str = "") -> httpx.Response:
        return self.http.get(path, headers={"authorization": f"ApiKey {key}"} if key else {})


@contextlib.contextmanager
def live_edge(
    *,
    hold_seconds: float = 30.0,
    clock: Clock | None = None,
    allowed_hosts: Sequence[str] = ("127.0.0.1", "testserver"),
) -> Iterator[LiveEdge]:
    """Serve until the block ends. `hold_seconds` is how long a poll without work is held."""
    ready = threading.Event()
    with override_settings(
        CRONIQ_POLL_HOLD_SECONDS=hold_seconds, ALLOWED_HOSTS=list(allowed_hosts), SECURE_SSL_REDIRECT=False
    ):
        application = Application(Edge(clock), get_wsgi_application())  # built anew: it reads its settings once
        listener = listening_socket("127.0.0.1", 0)
        base_url = url_of(listener)
        server = Server(application, is_ready=ready.set)
        thread = threading.Thread(target=server.run, args=([listener],), name="live-edge", daemon=True)
        thread.start()
        try:
            assert ready.wait(START_SECONDS), "the server did not start"
            with httpx.Client(base_url=base_url, timeout=20) as http:
                yield LiveEdge(base_url, application, http, server)
        finally:
            server.should_exit = True
            thread.join(START_SECONDS)
            assert not thread.is_alive(), "the server did not stop"
            assert not server.lifespan.shutdown_failed, "the server did not close in good order; its log says why"
