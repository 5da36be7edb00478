"""HTTP jobs from the server's queue to another server and back: a real runner process between two real servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.db import connection

from croniq_site.kernel.clock import DatabaseClock
from runners.services.audit import SYSTEM
from scheduler.models import QueueEntry, Run
from scheduler.services.cancel import cancel_runs
from scheduler.services.wake import wake
from tests.factories import JobFactory, QueueEntryFactory
from tests.runners.agent.local_http import Peer, Received, serving
from tests.runners.test_runner_live import finished, lines_of, runner
from tests.support.polling import poll_until
from tests.support.server import live_edge

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True)]

SECRET = "t0ken-t0ken-t0ken"


def due(action: dict, **job: object) -> Run:
    entry = QueueEntryFactory(job=JobFactory(action=action, **job))
    wake({entry.lane_id})
    return entry.run


def everything_that_is_stored() -> str:
    tables = connection.introspection.table_names()
    with connection.cursor() as cursor:
        rows = []
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')
            rows += cursor.fetchall()
    return repr(rows)


def test_requests_run_fail_and_are_cancelled_and_no_secret_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Received, peer: Peer) -> None:
        if request.target == "/hang":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun\n")
            peer.wait_for_close()
            return
        text = f"{request.headers.get('authorization')}\n".encode() + request.body
        peer.reply(text, "500 x" if request.target == "/fail" else "200 OK")

    monkeypatch.setenv("CRONIQ_SECRET_TOKEN", SECRET)
    token = {"secret": "TOKEN", "prefix": "Bearer "}
    with serving(answer) as web, live_edge() as server, runner(server, tmp_path) as process:
        good = due(
            {
                "type": "http",
                "method": "POST",
                "url": web.url("/ok"),
                "headers": {"Authorization": token},
                "json": {"token": {"secret": "TOKEN"}},
            }
        )
        bad = due({"type": "http", "method": "GET", "url": web.url("/fail"), "headers": {"X": token}}, max_retries=0)
        shell = due({"type": "command", "shell": 'echo "$T"', "env": {"T": token}})
        assert finished(good).verdict == "completed"
        assert lines_of(good, "response") == ["Bearer ***", json.dumps({"token": "***"})]
        assert finished(shell).verdict == "completed"
        assert lines_of(shell) == ["Bearer ***"]
        assert finished(bad).error == "answered 500 Internal Server Error, expected 200-299"
        (first,) = (request for request in web.requests if request.target == "/ok")
        assert (first.headers["authorization"], json.loads(first.body)) == (f"Bearer {SECRET}", {"token": SECRET})
        assert first.headers["idempotency-key"] == str(good.pk)

        web.closed.clear()
        hanging = due({"type": "http", "method": "GET", "url": web.url("/hang")})
        poll_until(lambda: lines_of(hanging, "response"), 20, what="the answer has begun")
        cancel_runs([hanging.pk], DatabaseClock().now(), SYSTEM)
        assert web.closed.wait(20)
        poll_until(lambda: not QueueEntry.objects.exists(), 20, what="the runner has acked it")
        assert finished(hanging).verdict == "cancelled"
        process.signal()
        process.ends_with(0)
        assert not process.said(SECRET)
    assert SECRET not in everything_that_is_stored()
