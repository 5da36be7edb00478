"""Leases: who may extend which."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from croniq_site.kernel.errors import Conflict, NotFound
from scheduler.models import QueueEntry
from scheduler.services.renew import renew, renew_claims, renew_held
from tests.factories import QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.conformance.snapshots import everything

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


def runner_of(entry):
    return entry.holder.runner.runner_id


@pytest.mark.parametrize("attempt", [None, 1])
def test_the_holder_extends_its_lease(now, attempt):
    entry = QueueEntryFactory(claimed=True)
    assert renew(entry.run_id, runner_of(entry), attempt, now + SECOND) == now + timedelta(seconds=61)
    entry.refresh_from_db()
    assert entry.lease_expires_at == now + timedelta(seconds=61)
    assert entry.deadline_at == now + timedelta(seconds=300)


def test_a_lease_is_never_shortened(now):
    entry = QueueEntryFactory(claimed=True)
    assert renew(entry.run_id, runner_of(entry), 1, now - SECOND) == now + timedelta(seconds=60)
    assert renew_held(entry.holder_id, [entry.run_id], now - SECOND) == {entry.run_id}
    entry.refresh_from_db()
    assert entry.lease_expires_at == now + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("trait", "wrong"),
    [
        ({"claimed": True}, {"runner_id": "somebody else"}),
        ({"claimed": True}, {"attempt": 2}),
        ({"claimed": True}, {"attempt": 0}),
        ({"stopping": True}, {}),
        ({"attempt": 1}, {"runner_id": "runner"}),
    ],
    ids=str,
)
def test_a_claim_that_is_not_theirs_is_not_renewed(now, trait, wrong):
    entry = QueueEntryFactory(**trait)
    said = {"runner_id": runner_of(entry) if entry.holder else "", "attempt": 1, **wrong}
    before = everything()
    with pytest.raises(Conflict) as refusal:
        renew(entry.run_id, said["runner_id"], said["attempt"], now + SECOND)
    assert refusal.value.code == "stale_claim"
    assert everything() == before


def test_a_finished_run_is_a_conflict_and_an_unknown_one_is_not_found(now):
    entry = QueueEntryFactory(claimed=True)
    QueueEntry.objects.all().delete()
    with pytest.raises(Conflict):
        renew(entry.run_id, runner_of(entry), 1, now)
    with pytest.raises(NotFound):
        renew(uuid4(), "runner", None, now)


def test_after_a_takeover_a_renew_without_attempt_extends_nothing(now):
    entry = QueueEntryFactory(claimed=True)
    RunnerInstanceFactory(runner=entry.holder.runner, deposed_at=now)
    before = everything()
    assert renew(entry.run_id, runner_of(entry), None, now + SECOND) == now + timedelta(seconds=60)
    assert everything() == before
    assert renew(entry.run_id, runner_of(entry), 1, now + SECOND) == now + timedelta(seconds=61)
    assert renew_held(entry.holder_id, [entry.run_id], now + 2 * SECOND) == {entry.run_id}


def test_a_takeover_of_another_runner_changes_nothing_for_this_one(now):
    entry = QueueEntryFactory(claimed=True)
    RunnerInstanceFactory(deposed_at=now)
    assert renew(entry.run_id, runner_of(entry), None, now + SECOND) == now + timedelta(seconds=61)


def test_a_poll_renews_what_the_instance_holds_and_nothing_else(now):
    mine = RunnerInstanceFactory()
    held = [QueueEntryFactory(claimed=True, holder=mine, job__lease_seconds=10 + n) for n in range(3)]
    not_listed = QueueEntryFactory(claimed=True, holder=mine)
    stopping = QueueEntryFactory(stopping=True, holder=mine)
    foreign = QueueEntryFactory(claimed=True)
    ready = QueueEntryFactory()
    others = QueueEntry.objects.exclude(pk__in=[entry.pk for entry in held]).order_by("pk")
    before = list(others.values())
    listed = [*(entry.run_id for entry in held), stopping.run_id, foreign.run_id, ready.run_id, uuid4()]
    assert renew_held(mine.pk, listed, now + SECOND) == {entry.run_id for entry in held}
    assert list(others.values()) == before
    for n, entry in enumerate(held):
        entry.refresh_from_db()
        assert entry.lease_expires_at == now + timedelta(seconds=11 + n)
    not_listed.refresh_from_db()
    assert not_listed.lease_expires_at == now + timedelta(seconds=60)


def test_nothing_listed_nothing_renewed(now, django_assert_num_queries, holder):
    with django_assert_num_queries(0):
        assert renew_held(holder.pk, [], now) == set()


def test_several_polls_renew_together_each_what_it_holds(now):
    one, other = QueueEntryFactory(claimed=True), QueueEntryFactory(claimed=True)
    mine = {(one.holder_id, one.run_id), (other.holder_id, other.run_id)}
    crossed = {(one.holder_id, other.run_id), (other.holder_id, one.run_id)}
    assert renew_claims(crossed, now + SECOND) == set()
    assert renew_claims(mine | crossed, now + SECOND) == mine
    assert set(QueueEntry.objects.values_list("lease_expires_at", flat=True)) == {now + timedelta(seconds=61)}
