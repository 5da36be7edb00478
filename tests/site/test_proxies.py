"""Whose address and whose https it is: what a proxy says counts only where it is trusted, and only the last hop that is
not a proxy of ours."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import httpx
import pytest

from croniq_site.asgi import Application
from scheduler.api.work.edge import Edge
from scheduler.api.work.server import Server, listening_socket, url_of

pytestmark = pytest.mark.django_db(transaction=True)

HERE, OURS, CLIENT = "127.0.0.0/8", "10.0.0.0/8", "203.0.113.9"


def told(environ, start_response):
    """In the place of the pages: who asked, as they would see it."""
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]]).encode()]


@contextlib.contextmanager
def serving() -> Iterator[httpx.Client]:
    ready, listener = threading.Event(), listening_socket("127.0.0.1", 0)
    url = url_of(listener)
    server = Server(Application(Edge(), told), is_ready=ready.set)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        assert ready.wait(20)
        with httpx.Client(base_url=url, timeout=20) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(20)


CASES = [
    ([HERE], [], "127.0.0.1"),
    ([HERE], [CLIENT], CLIENT),
    ([HERE], [f"{CLIENT}:4711"], CLIENT),
    ([HERE], ["2001:db8::7"], "2001:db8::7"),
    # What the client made up stands to the left of what the proxy saw.
    ([HERE], [f"198.51.100.1, {CLIENT}"], CLIENT),
    ([HERE], ["198.51.100.1", CLIENT], CLIENT),
    ([HERE], [f"127.0.0.1, {CLIENT}"], CLIENT),
    ([HERE], [f"{CLIENT}, 10.0.0.5"], "10.0.0.5"),
    ([HERE, OURS], [f"198.51.100.1, {CLIENT}, 10.0.0.5"], CLIENT),
    ([HERE, OURS], [f"10.0.0.7, {CLIENT}, 10.0.0.5"], CLIENT),
    ([HERE, OURS], ["10.0.0.7, 10.0.0.5"], "10.0.0.7"),
    # Who is no proxy of ours says what he likes.
    ([], [CLIENT], "127.0.0.1"),
    ([OURS], [CLIENT], "127.0.0.1"),
    (["127.0.0.2/32"], [CLIENT], "127.0.0.1"),
]


def test_the_last_hop_that_is_no_proxy_of_ours_is_the_client(settings):
    for trusted, cases in groupby(CASES, key=itemgetter(0)):
        settings.CRONIQ_TRUSTED_PROXIES = trusted
        with serving() as http:
            for _, lines, client in cases:
                answer = http.get("/", headers=[("X-Forwarded-For", line) for line in lines])
                assert answer.json() == [client, "http"], (trusted, lines)


def test_https_is_believed_from_a_proxy_of_ours_alone(settings):
    for trusted, schemes in (
        ([HERE], {"https": "https", "http": "http", "gopher": "http"}),
        ([OURS], {"https": "http"}),
    ):
        settings.CRONIQ_TRUSTED_PROXIES = trusted
        with serving() as http:
            for said, scheme in schemes.items():
                answer = http.get("/", headers={"X-Forwarded-Proto": said, "X-Forwarded-For": CLIENT})
                assert answer.json()[1] == scheme, (trusted, said)
