"""Clients that are slow, or that do not know what they will send, at the door of the pages and of the API."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from croniq_site.asgi import PAGE_THREADS, Application
from scheduler.api.work import connection
from scheduler.api.work.edge import Edge
from tests.factories import JobFactory
from tests.support.server import LiveEdge, live_edge

pytestmark = pytest.mark.django_db(transaction=True)


def half_a_form(server: LiveEdge, headers: bytes = b"Content-Length: 100") -> socket.socket:
    """Begin a form that is never ended. Nobody is signed in; the form's token check would read it."""
    host, port = urlsplit(server.base_url).netloc.split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(
        b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: csrftoken=" + b"a" * 32 + b"\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n" + headers + b"\r\n\r\nu"
    )
    return connection


def test_bodies_that_never_end_do_not_stop_the_pages():
    with live_edge() as server, ExitStack() as stack:
        for _ in range(PAGE_THREADS + 4):
            stack.enter_context(half_a_form(server))
        assert server.http.get("/health", timeout=10).status_code == 200


def test_a_body_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.1)
    with live_edge() as server, half_a_form(server) as form:
        said = b""
        while part := form.recv(4096):  # to its end: the server closes what it has given up
            said += part
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b'"error":"timeout"' in said


def test_a_body_that_no_page_takes_is_refused_before_it_is_read(settings):
    with live_edge() as server:
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
        answer = server.http.post("/sign-in", content=b"x" * 1001)
        assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
        assert server.http.post("/sign-in", content=iter([b"x" * 600] * 2)).status_code == 413
        assert server.http.post("/sign-in", content=b"x" * 1000).status_code == 403  # Django's: no token


def test_a_body_in_chunks_is_read():
    job = JobFactory()
    with live_edge() as server:
        answer = server.http.post(
            "/v1/trigger",
            content=iter([b"{", json.dumps({"job_key": job.job_key}).encode()[1:]]),
            headers={"authorization": f"ApiKey {server.key('admin')}", "content-type": "application/json"},
        )
        assert answer.status_code == 200, answer.text


def test_answers_that_nobody_reads_hold_no_thread():
    answered = []

    def pages(environ, start_response):
        start_response("200 OK", [])
        yield from [b"x"] * 100
        answered.append(environ["PATH_INFO"])

    async def receive():
        return {"type": "http.request"}

    async def never(message):
        await asyncio.Event().wait()

    async def ask():
        application = Application(Edge(), pages)
        application._open_pages()
        scope = {
            "type": "http",
            "method": "GET",
            "http_version": "1.1",
            "path": "/",
            "query_string": b"",
            "headers": [],
        }
        asked = [asyncio.create_task(application(scope, receive, never)) for _ in range(PAGE_THREADS + 1)]
        try:
            async with asyncio.timeout(10):
                while len(answered) < len(asked):
                    await asyncio.sleep(0.01)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            await asyncio.to_thread(application._close_pages)

    asyncio.run(ask())
