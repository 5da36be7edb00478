"""Claim: who gets what, in which order, and what is written."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from runners.models import AuditEvent
from scheduler.domain.work import Ask, Buried
from scheduler.models import DeadLetter, QueueEntry, Run
from scheduler.services.claim import claim_batch, claim_due
from tests.factories import JobFactory, LaneFactory, QueueEntryFactory, RunnerInstanceFactory

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


def entry_in(lane, **more):
    return QueueEntryFactory(job__lane=lane, **more)


def ids(outcome):
    return [claimed.run_id for claimed in outcome]


def test_a_due_run_is_claimed_with_holder_lease_deadline_and_attempt(now, lane, holder):
    entry = entry_in(lane, job__lease_seconds=45, job__timeout_seconds=90.5, run__metadata={"a": [1, "ü"]})
    (claimed,) = claim_due(now + SECOND, 5, holder.pk, [lane.pk])
    assert claimed.run_id == entry.run_id
    assert claimed.job_id == entry.job_id
    assert claimed.attempt == 1
    assert claimed.holder_id == holder.pk
    assert claimed.available_at == now
    assert claimed.scheduled_for == entry.run.scheduled_for
    assert (claimed.lease_seconds, claimed.timeout_seconds) == (45, 90.5)
    assert claimed.metadata == {"a": [1, "ü"]}
    entry.refresh_from_db()
    assert entry.state == QueueEntry.State.CLAIMED
    assert entry.attempt == 1
    assert entry.holder_id == holder.pk
    assert entry.claimed_at == now + SECOND
    assert entry.lease_expires_at == now + timedelta(seconds=46)
    assert entry.deadline_at == now + timedelta(seconds=91.5)
    assert entry.available_at == now


def test_a_run_without_metadata_of_its_own_says_so(now, lane, holder):
    entry_in(lane)
    assert claim_due(now, 1, holder.pk, [lane.pk])[0].metadata is None


def test_a_run_is_due_at_its_instant_and_not_a_microsecond_before(now, lane, holder):
    entry_in(lane)
    assert not claim_due(now - timedelta(microseconds=1), 1, holder.pk, [lane.pk])
    assert len(claim_due(now, 1, holder.pk, [lane.pk])) == 1


def test_instants_with_and_without_fractions_are_compared_as_instants(now, lane, holder):
    # SQLite keeps them as text, and a whole second has no fraction there.
    later = entry_in(lane, available_at=now + timedelta(microseconds=1))
    whole = entry_in(lane, available_at=now)
    assert ids(claim_due(now, 5, holder.pk, [lane.pk])) == [whole.run_id]
    assert ids(claim_due(now + timedelta(microseconds=1), 5, holder.pk, [lane.pk])) == [later.run_id]


@pytest.mark.parametrize("state", [QueueEntry.State.GATED, QueueEntry.State.HELD])
def test_a_gated_or_held_run_is_not_claimed(now, lane, holder, state):
    entry_in(lane, state=state)
    assert not claim_due(now, 5, holder.pk, [lane.pk])


@pytest.mark.parametrize("trait", ["claimed", "stopping"])
def test_what_somebody_holds_is_not_claimed_again(now, lane, holder, trait):
    entry = entry_in(lane, **{trait: True})
    before = QueueEntry.objects.values().get(pk=entry.pk)
    assert not claim_due(now + timedelta(days=1), 5, holder.pk, [lane.pk])
    assert QueueEntry.objects.values().get(pk=entry.pk) == before


def test_only_the_lanes_that_are_named_are_served(now, lane, holder):
    other = entry_in(LaneFactory(require=["gpu"]))
    assert not claim_due(now, 5, holder.pk, [lane.pk])
    assert not claim_due(now, 5, holder.pk, [])
    assert ids(claim_due(now, 5, holder.pk, [other.lane_id])) == [other.run_id]


def test_never_more_than_asked_for(now, lane, holder):
    for _ in range(4):
        entry_in(lane)
    assert len(claim_due(now, 3, holder.pk, [lane.pk])) == 3
    assert QueueEntry.objects.filter(state=QueueEntry.State.CLAIMED).count() == 3
    assert len(claim_due(now, 0, holder.pk, [lane.pk])) == 0
    assert len(claim_due(now, -1, holder.pk, [lane.pk])) == 0
    assert len(claim_due(now, 10**9, holder.pk, [lane.pk])) == 1


def test_the_order_is_lane_by_preference_then_due_time_then_id(now, holder):
    low, high = LaneFactory(priority=0), LaneFactory(priority=5)
    assert low.pk < high.pk
    late = UUID(int=3 << 100)
    early = UUID(int=2 << 100)
    oldest = entry_in(low, available_at=now - timedelta(hours=1))
    b = entry_in(high, run__id=late, available_at=now - SECOND)
    a = entry_in(high, run__id=early, available_at=now - SECOND)
    c = entry_in(high, run__id=UUID(int=1 << 100), available_at=now)
    wanted = [a.run_id, b.run_id, c.run_id, oldest.run_id]
    taken = []
    for _ in range(4):
        taken += ids(claim_due(now, 1, holder.pk, [high.pk, low.pk]))
    assert taken == wanted
    QueueEntry.objects.update(
        state=QueueEntry.State.READY, holder=None, claimed_at=None, lease_expires_at=None, deadline_at=None
    )
    assert ids(claim_due(now, 10, holder.pk, [high.pk, low.pk])) == wanted


def test_a_deposed_instance_gets_nothing(now, lane, holder):
    entry_in(lane)
    deposed = RunnerInstanceFactory(runner=RunnerInstanceFactory().runner, deposed_at=now)
    assert not claim_due(now, 5, deposed.pk, [lane.pk])
    outcomes = claim_batch(now, [Ask(deposed.pk, 5), Ask(holder.pk, 5)], [[lane.pk]])
    assert [len(outcome) for outcome in outcomes] == [0, 1]


def test_an_unknown_instance_gets_nothing(now, lane):
    entry_in(lane)
    assert not claim_due(now, 5, 10**9, [lane.pk])


def test_a_run_that_the_poll_lists_is_never_in_its_answer(now, lane, holder):
    listed, other = entry_in(lane, available_at=now - SECOND), entry_in(lane)
    assert ids(claim_due(now, 5, holder.pk, [lane.pk], frozenset({listed.run_id}))) == [other.run_id]


def test_a_listed_run_goes_to_another_poll_of_the_same_batch(now, lane, holder):
    first, second = entry_in(lane, available_at=now - SECOND), entry_in(lane)
    other = RunnerInstanceFactory()
    asks = [Ask(holder.pk, 5, frozenset({first.run_id})), Ask(other.pk, 5, frozenset({second.run_id}))]
    outcomes = claim_batch(now, asks, [[lane.pk]])
    assert [ids(outcome) for outcome in outcomes] == [[second.run_id], [first.run_id]]


def test_two_runners_never_get_a_run_that_each_of_them_lists(now, lane, holder):
    entry = entry_in(lane)
    asks = [Ask(holder.pk, 5, frozenset({entry.run_id})), Ask(RunnerInstanceFactory().pk, 1, frozenset({entry.run_id}))]
    assert [len(outcome) for outcome in claim_batch(now, asks, [[lane.pk]])] == [0, 0]


def test_runs_are_dealt_out_in_turn_to_the_polls_that_wait_together(now, lane):
    entries = [entry_in(lane, available_at=now - timedelta(seconds=10 - n)).run_id for n in range(6)]
    holders = [RunnerInstanceFactory().pk for _ in range(3)]
    asks = [Ask(holders[0], 10), Ask(holders[1], 1), Ask(holders[2], 10)]
    outcomes = claim_batch(now, asks, [[lane.pk]])
    assert [ids(outcome) for outcome in outcomes] == [
        [entries[0], entries[3], entries[5]],
        [entries[1]],
        [entries[2], entries[4]],
    ]
    assert [{claimed.holder_id for claimed in outcome} for outcome in outcomes] == [{pk} for pk in holders]


def test_the_same_instance_may_ask_twice(now, lane, holder):
    for _ in range(3):
        entry_in(lane)
    outcomes = claim_batch(now, [Ask(holder.pk, 1), Ask(holder.pk, 1)], [[lane.pk]])
    assert [len(outcome) for outcome in outcomes] == [1, 1]
    assert not {*ids(outcomes[0])} & {*ids(outcomes[1])}


def test_a_due_run_whose_attempts_are_used_up_is_buried_and_the_next_one_claimed(now, lane, holder):
    job = JobFactory(lane=lane, tenant="acme")
    used_up = QueueEntryFactory(job=job, attempt=4, max_attempts=4, available_at=now - SECOND)
    good = entry_in(lane)
    outcome = claim_due(now, 1, holder.pk, [lane.pk])
    assert ids(outcome) == [good.run_id]
    assert outcome.buried == (Buried(used_up.run_id, job.pk, lane.pk, 4),)
    run = Run.objects.get(pk=used_up.run_id)
    assert (run.verdict, run.problem, run.attempt, run.finished_at) == ("dead", "dead", 4, now)
    assert run.reason == "retries_exhausted"  # none of them was lost
    assert not QueueEntry.objects.filter(pk=used_up.pk).exists()
    assert DeadLetter.objects.get().run_id == used_up.run_id
    event = AuditEvent.objects.get(action="run.buried")
    assert (event.target_id, event.tenant) == (str(used_up.run_id), "acme")


def test_burials_ride_along_when_nothing_was_claimed(now, lane, holder):
    entry_in(lane, attempt=4, max_attempts=4)
    outcome = claim_due(now, 1, holder.pk, [lane.pk])
    assert len(outcome) == 0
    assert len(outcome.buried) == 1


def test_an_attempt_is_counted_at_each_claim(now, lane, holder):
    entry_in(lane, attempt=2)
    assert claim_due(now, 1, holder.pk, [lane.pk])[0].attempt == 3


def test_five_hundred_at_once_and_the_rest_later(now, lane, holder):
    job = JobFactory(lane=lane)
    entries = QueueEntryFactory.build_batch(510, job=job)
    Run.objects.bulk_create(entry.run for entry in entries)
    QueueEntry.objects.bulk_create(entries)
    assert len(claim_due(now, 510, holder.pk, [lane.pk])) == 500
    outcomes = claim_batch(now, [Ask(holder.pk, 400), Ask(holder.pk, 400)], [[lane.pk]])
    assert [len(outcome) for outcome in outcomes] == [10, 0]
