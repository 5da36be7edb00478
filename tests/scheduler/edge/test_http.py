"""Paths, methods, sizes, keys and outages at the work protocol's door."""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import OperationalError

from runners.models import ApiClient, ApiKey
from scheduler.api.work import auth, claiming, http, poll, renew
from scheduler.api.work.parsing import MOST_INFLIGHT
from tests.factories import LaneFactory
from tests.scheduler.edge.helpers import FakeRunner, database_now, due_run
from tests.support.polling import poll_until
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)

POLL = "/v1/work/poll"


def test_paths_methods_and_bodies(monkeypatch):
    with live_edge(hold_seconds=0.1) as server:
        key = server.key()
        for path in ("/v1/work/", "/v1/work/nothing", "/v1/work/poll/", "/v1/work/a/b/events", "/v1/work//events"):
            answer = server.post(path, {}, key=key)
            assert (answer.status_code, answer.json()["error"]) == (404, "not_found"), path
        for method in ("GET", "PUT", "DELETE", "HEAD", "OPTIONS"):
            answer = server.http.request(method, POLL)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        answer = server.post("/v1/work/no-uuid/events", [{"message": "m"}], key=key)
        assert (answer.status_code, list(answer.json()["fields"])) == (400, ["execution_id"])
        answer = server.post(POLL, {"runner_id": 5}, key=key)
        assert (answer.status_code, list(answer.json()["fields"])) == (400, ["runner_id"])
        assert server.post(POLL, content=b"\xff", key=key).status_code == 400
        # Everything else is Django's.
        assert server.get("/nothing/here").status_code == 404
        assert "server" not in answer.headers


def test_a_body_over_the_limit_is_413_whether_it_says_so_or_not(monkeypatch):
    monkeypatch.setattr(http, "READ_BYTES", 1000)
    monkeypatch.setattr(poll, "SMALL_BODY_BYTES", 100)
    monkeypatch.setattr(renew, "SMALL_BODY_BYTES", 100)
    events = "/v1/work/0197a000-0000-7000-8000-000000000001/events"
    with live_edge() as server:
        key = server.key()
        headers = {"authorization": f"ApiKey {key}"}
        for path, most in ((POLL, 100), ("/v1/work/renew", 100), ("/v1/work/ack", 1000), (events, 1000)):
            assert server.post(path, content=b" " * most, key=key).status_code == 400
            assert server.post(path, content=b" " * (most + 1), key=key).status_code == 413
            answer = server.http.post(path, content=iter([b" " * (most - 1), b"  "]), headers=headers)
            assert answer.status_code == 413
            assert answer.json()["error"] == "too_large"


def test_a_poll_may_list_as_much_as_it_may():
    with live_edge(hold_seconds=0.1) as server:
        runner = FakeRunner(server, server.key())
        listed = [str(UUID(int=number)) for number in range(MOST_INFLIGHT)]
        answer = runner.poll(inflight=listed, max_inflight=MOST_INFLIGHT)
        assert (answer.status_code, len(answer.json()["cancel"])) == (200, MOST_INFLIGHT)


def test_an_error_of_megabytes_ends_its_run():
    entry = due_run()
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        assert runner.ack(entry.run_id, "failure", error="x" * 5_000_000).status_code == 200


def test_keys_and_scopes():
    with live_edge(hold_seconds=0.1) as server:
        runner = FakeRunner(server, server.key())
        assert runner.poll().status_code == 200
        bearer = server.http.post(POLL, json=runner.body(), headers={"authorization": f"Bearer {runner.key}"})
        assert bearer.status_code == 200
        for header in ("", "ApiKey", "ApiKey croniq_wrong", f"Basic {runner.key}", "ApiKey nonsense", "ApiKey \xe9"):
            answer = server.http.post(POLL, json=runner.body(), headers={"authorization": header.encode("latin-1")})
            assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized"), header
            assert "www-authenticate" in answer.headers
        answer = FakeRunner(server, server.key("work:ack"), "r2").poll()
        assert (answer.status_code, answer.json()["error"]) == (403, "missing_scope")
        for path, scope in (
            ("/v1/work/ack", "work:ack"),
            ("/v1/work/renew", "work:renew"),
            ("/v1/work/0197a000-0000-7000-8000-000000000001/events", "work:events"),
        ):
            assert server.post(path, {}, key=server.key("work:poll")).status_code == 403
            assert server.post(path, {}, key=server.key(scope)).status_code == 400


def test_a_key_made_after_it_was_refused_works_at_once(monkeypatch):
    with live_edge(hold_seconds=0.1) as server:
        client = server.client()
        key = server.key(client=client)
        ApiKey.objects.update(revoked_at=database_now())
        assert FakeRunner(server, key).poll().status_code == 401
        ApiKey.objects.update(revoked_at=None)
        assert FakeRunner(server, key).poll().status_code == 200


@pytest.mark.parametrize(
    "end",
    [
        lambda: ApiKey.objects.update(revoked_at=database_now()),
        lambda: ApiKey.objects.update(expires_at=database_now() - timedelta(seconds=1)),
        lambda: ApiClient.objects.update(is_active=False),
    ],
    ids=["revoked", "expired", "inactive"],
)
def test_an_ended_key_is_refused_within_two_seconds(end):
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        assert runner.poll(max_inflight=0).status_code == 200
        end()
        poll_until(lambda: runner.poll(max_inflight=0).status_code == 401, 10, what="the key is refused")
    assert auth.FRESH_SECONDS < 2


def test_a_key_is_looked_up_once_for_many_requests(monkeypatch):
    asked = []

    def counted(raw_key, now, original=auth.live_key):
        asked.append(raw_key)
        return original(raw_key, now)

    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        monkeypatch.setattr(auth, "live_key", counted)
        began = time.monotonic()
        for _ in range(20):
            assert runner.poll(max_inflight=0).status_code == 200
        assert len(asked) <= 1 + (time.monotonic() - began) / auth.FRESH_SECONDS


def test_the_use_of_a_key_is_noted_and_not_waited_for(monkeypatch):
    with live_edge() as server:
        client = server.client()
        refused, kept = (FakeRunner(server, server.key(client=client)) for _ in range(2))
        with monkeypatch.context() as patch:
            patch.setattr(auth, "note_use", away)
            assert refused.poll(max_inflight=0).status_code == 200
        assert kept.poll(max_inflight=0).status_code == 200
        poll_until(lambda: ApiKey.objects.filter(last_used_at__isnull=False).count() == 1, what="it is noted")


def away(*arguments, **named):
    raise OperationalError("the database is away")


def test_an_outage_is_503_and_never_a_401(monkeypatch):
    entry = due_run()
    with live_edge(hold_seconds=5) as server:
        runner = FakeRunner(server, server.key())
        for place, name in (
            ("scheduler.api.work.auth", "live_key"),
            ("scheduler.api.work.desk", "open_polls"),
            ("scheduler.api.work.claiming", "claim_batch"),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(f"{place}.{name}", away)
                answer = runner.poll()
                assert (answer.status_code, answer.json()["error"]) == (503, "unavailable"), name
                assert answer.headers["retry-after"]
        runner.work()
        with monkeypatch.context() as patch:
            patch.setattr("scheduler.api.work.ack.finish", away)
            assert runner.ack(entry.run_id).status_code == 503
        with monkeypatch.context() as patch:
            patch.setattr("scheduler.api.work.renew.renew", away)
            assert runner.renew(entry.run_id).status_code == 503
        with monkeypatch.context() as patch:
            patch.setattr("scheduler.api.work.events.append_log", away)
            assert runner.say(entry.run_id, {"message": "m"}).status_code == 503
        assert runner.ack(entry.run_id).status_code == 200


def test_polls_that_wait_through_an_outage_get_the_work_after_it(monkeypatch):
    """The claim of one poll fails; the other, which waits, is served when the database is back."""
    LaneFactory()
    with live_edge(hold_seconds=30) as server:
        key = server.key()
        held = FakeRunner(server, key, "r1").hold(max_inflight=1)

        original = claiming.claim_batch

        def away_for_the_second(now, asks, *more):
            if asks[0].limit == 2:
                raise OperationalError("the database is away")
            return original(now, asks, *more)

        monkeypatch.setattr(claiming, "MOST_ASKS", 1)
        monkeypatch.setattr(claiming, "QUIET_SECONDS", 0.0)
        monkeypatch.setattr(claiming, "claim_batch", away_for_the_second)
        second = FakeRunner(server, key, "r2").start(max_inflight=2)
        assert second.result(15).status_code == 503
        due_run()
        assert len(held.result(15).json()["work"]) == 1
