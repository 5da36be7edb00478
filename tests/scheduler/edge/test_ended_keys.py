"""Who may not call any more is refused as soon as that is heard of, and his poll does not wait on.

Keys count here for ever once they were looked up (`_fresh_seconds`): what ends them is the signal alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError

from runners.models import ApiClient, ApiKey, AuditEvent
from runners.queries.principals import live_principals
from runners.services.clients import edit_client, issue_key, revoke_keys, rotate_key
from runners.services.declared import ENVIRONMENT, apply_declared
from scheduler.api.work import auth, desk
from tests.factories import ApiClientFactory, ApiKeyFactory
from tests.scheduler.edge.helpers import DEADLINE_SECONDS, FakeRunner, Gate, database_now, result
from tests.support.polling import poll_until
from tests.support.races import in_thread
from tests.support.server import LiveEdge, live_edge

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Iterator[LiveEdge]:
    with live_edge(hold_seconds=30) as server:
        server.application.edge.keys._fresh_seconds = 1e9
        yield server


def revoke() -> None:
    revoke_keys([ApiKey.objects.get().pk], database_now())


def switch_off() -> None:
    edit_client(ApiClient.objects.get().pk, database_now(), is_active=False)


def take_the_scope() -> None:
    edit_client(ApiClient.objects.get().pk, database_now(), scopes=["work:ack"])


def rotate_at_once() -> None:
    rotate_key(ApiKey.objects.get().pk, database_now(), timedelta(0))


def declare_it_no_more() -> None:
    ApiClient.objects.update(managed_by=ENVIRONMENT)
    apply_declared((), database_now())


def let_it_expire() -> None:
    """Nobody tells that it has, and what was kept of it when it was looked up said nothing of an end."""
    rotate_key(ApiKey.objects.get().pk, database_now(), timedelta(milliseconds=200))


ENDS = {
    let_it_expire: 401,
    revoke: 401,
    switch_off: 401,
    take_the_scope: 403,
    rotate_at_once: 401,
    declare_it_no_more: 401,
}


@pytest.mark.parametrize(("end", "status"), ENDS.items(), ids=[end.__name__ for end in ENDS])
def test_a_poll_that_waits_ends_with_its_key(server, end: Callable[[], None], status):
    held = FakeRunner(server, server.key()).hold()
    in_thread(end).result(DEADLINE_SECONDS)
    assert result(held).status_code == status


@pytest.mark.parametrize(("end", "status"), ENDS.items(), ids=[end.__name__ for end in ENDS])
def test_what_was_remembered_of_a_key_is_forgotten(server, end: Callable[[], None], status):
    runner = FakeRunner(server, server.key())
    assert runner.poll(max_inflight=0).status_code == 200
    in_thread(end).result(DEADLINE_SECONDS)
    poll_until(lambda: runner.poll(max_inflight=0).status_code == status, what="the key is refused")


def test_a_poll_that_waits_ends_when_its_key_expires(server):
    """By what was said of the key when it was looked up: nothing is said or looked at after that."""
    client = server.client()
    key = issue_key(client, database_now(), expires_at=database_now() + timedelta(milliseconds=500))
    going_on = FakeRunner(server, server.key(), "r2").hold()
    assert result(FakeRunner(server, key).start()).status_code == 401
    assert not going_on.done()


def test_others_go_on(server):
    ended, other = FakeRunner(server, server.key(), "r1"), FakeRunner(server, server.key(), "r2")
    held, going_on = ended.hold(), other.hold()
    revoke_keys([ApiKey.objects.earliest("pk").pk], database_now())
    assert result(held).status_code == 401
    assert not going_on.done()


def test_a_client_that_is_switched_on_again_is_let_in(server):
    client = server.client()
    runner = FakeRunner(server, server.key(client=client))
    held = runner.hold()
    edit_client(client.pk, database_now(), is_active=False)
    assert result(held).status_code == 401
    edit_client(client.pk, database_now(), is_active=True)
    again = runner.hold()
    assert not again.done()


def test_a_key_that_ends_while_its_poll_is_let_in_does_not_wait(server, monkeypatch):
    """Its key was looked at, then it was revoked and all who waited were turned away, and then the poll waits."""
    gate = Gate(desk.open_polls)
    monkeypatch.setattr(desk, "open_polls", gate.after)
    answer = FakeRunner(server, server.key()).start()
    assert gate.finished.wait(DEADLINE_SECONDS)
    revoke()
    poll_until(lambda: server.application.edge.keys._turned_away, what="the key is known to have ended")
    gate.open.set()
    assert result(answer).status_code == 401


def test_a_look_that_is_older_than_the_end_does_not_count(server, monkeypatch):
    """The key is read, revoked, that is heard of, and only then what was read arrives."""
    key = server.key()
    gate, heard = Gate(auth.live_key), threading.Event()
    keys = server.application.edge.keys
    monkeypatch.setattr(auth, "live_key", gate.after)
    answer = FakeRunner(server, key).start()
    assert gate.finished.wait(DEADLINE_SECONDS)
    looked = keys.look_again
    monkeypatch.setattr(keys, "look_again", lambda: (looked(), heard.set()))
    revoke()
    assert heard.wait(DEADLINE_SECONDS)
    gate.open.set()
    assert result(answer).status_code == 401


def test_a_key_is_not_remembered_longer_than_it_lives(server, monkeypatch):
    """Nobody tells when a key expires: it is looked up again then."""
    key = server.key()
    ApiKey.objects.update(expires_at=database_now() + timedelta(days=1))
    runner = FakeRunner(server, key)
    assert runner.poll(max_inflight=0).status_code == 200
    (kept,) = server.application.edge.keys._known.values()
    assert kept.until < 1e8


@pytest.mark.django_db
def test_all_keys_are_looked_at_in_one_query(now, django_assert_num_queries):
    client = ApiClientFactory(scopes=["work:poll"])
    live = ApiKeyFactory(client=client, expires_at=now + timedelta(seconds=1))
    others = [
        ApiKeyFactory(client=client, expires_at=now),
        ApiKeyFactory(client=client, revoked_at=now),
        ApiKeyFactory(client__is_active=False),
    ]
    with django_assert_num_queries(1):
        found = live_principals({live.pk, *(key.pk for key in others)}, now)
    assert list(found) == [live.pk]
    assert (found[live.pk].key_id, found[live.pk].name) == (live.pk, client.name)


def test_what_rolls_back_ends_nobody(server):
    from django.db import transaction

    held = FakeRunner(server, server.key()).hold()
    with transaction.atomic():
        revoke()
        transaction.set_rollback(True)
    assert not AuditEvent.objects.filter(action="api_key.revoked").exists()
    other = FakeRunner(server, server.key(), "other").hold()
    assert not held.done()
    assert not other.done()


def test_what_is_remembered_of_keys_is_bounded(server, monkeypatch):
    monkeypatch.setattr(auth, "MOST_KEYS", 2)
    keys = server.application.edge.keys
    runners = [FakeRunner(server, server.key(), f"r{number}") for number in range(4)]
    for runner in runners:
        assert runner.poll(max_inflight=0).status_code == 200
        assert len(keys._known) <= 2
    for runner in runners:
        held = runner.hold()
        revoke_keys([ApiKey.objects.filter(revoked_at=None).earliest("pk").pk], database_now())
        assert result(held).status_code == 401
        assert len(keys._turned_away) <= 3


def test_keys_that_cannot_be_looked_at_again_are_looked_up(server, monkeypatch):
    """The database is away when it is heard that a key ended."""
    runner, keys = FakeRunner(server, server.key()), server.application.edge.keys
    assert runner.poll(max_inflight=0).status_code == 200
    looked = threading.Event()

    def away(key_ids: set[int]) -> None:
        looked.set()
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(keys, "_look_at", away)
    revoke()
    assert looked.wait(DEADLINE_SECONDS)
    poll_until(lambda: runner.poll(max_inflight=0).status_code == 401, what="the key is refused")


def test_what_is_said_while_keys_are_looked_at_is_looked_at_too(server, monkeypatch):
    """The first look has read when the key is revoked, and has yet to say what it read."""
    runner, keys = FakeRunner(server, server.key()), server.application.edge.keys
    assert runner.poll(max_inflight=0).status_code == 200
    gate, heard = Gate(keys._look_at), threading.Event()
    monkeypatch.setattr(keys, "_look_at", gate.after)
    edit_client(ApiClient.objects.get().pk, database_now(), name="renamed")
    assert gate.finished.wait(DEADLINE_SECONDS)
    looked = keys.look_again
    monkeypatch.setattr(keys, "look_again", lambda: (looked(), heard.set()))
    revoke()
    assert heard.wait(DEADLINE_SECONDS)
    gate.open.set()
    poll_until(lambda: runner.poll(max_inflight=0).status_code == 401, what="the key is refused")
