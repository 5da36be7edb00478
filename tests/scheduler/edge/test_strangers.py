"""What strangers say of another client's runner leaves it as it is; and what is remembered of keys is bounded."""

from __future__ import annotations

import time

import pytest

from runners.domain.scopes import Principal
from runners.models import AuditEvent
from runners.services.audit import SYSTEM
from scheduler.api.work import auth
from scheduler.services.cancel import cancel_runs
from scheduler.services.identity import refusals
from tests.factories import ApiClientFactory, RunnerFactory
from tests.scheduler.edge.helpers import FakeRunner, database_now, due_run, result
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)

HOLD_SECONDS = 10.0


def test_a_strangers_ack_does_not_keep_the_owner_from_being_told_to_cancel():
    entry = due_run()
    with live_edge(hold_seconds=HOLD_SECONDS) as server:
        owner, stranger = FakeRunner(server, server.key()), FakeRunner(server, server.key())
        assert len(owner.work()) == 1
        began = time.monotonic()
        held = owner.hold(inflight=[str(entry.run_id)])
        assert stranger.ack(entry.run_id).status_code == 403
        cancel_runs([entry.run_id], database_now(), SYSTEM)
        assert result(held).json()["cancel"] == [str(entry.run_id)]
        assert time.monotonic() - began < HOLD_SECONDS / 2


def test_the_tenant_of_a_refused_client_can_find_the_refusal_in_its_audit(now):
    owned = RunnerFactory()
    client = ApiClientFactory(tenant="acme")
    stranger = Principal(client.pk, client.name, client.tenant, frozenset({"work:ack"}))
    (refusal,) = refusals([(owned.runner_id, stranger)], now)
    assert refusal.code == "runner_owned"
    event = AuditEvent.objects.get(action="runner.identity_rejected")
    assert (event.tenant, event.actor_id, event.target_id) == ("acme", client.name, owned.runner_id)


def test_no_more_than_so_many_keys_are_remembered(monkeypatch):
    monkeypatch.setattr(auth, "MOST_KEYS", 2)
    with live_edge(hold_seconds=0.1) as server:
        for number in range(4):
            assert FakeRunner(server, server.key(), f"r{number}").poll().status_code == 200
        assert len(server.application.edge.keys._known) == 2
