"""Losses, leases, burials: a run is never lost, and never started more often than its job allows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.models import AuditEvent
from scheduler.domain.work import Ack, AckAnswer, AckStatus, LossCause
from scheduler.models import Attempt, DeadLetter, QueueEntry, Run, Slot
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.release import ReapSummary, bury, reap_leases, release, wind_down
from tests.factories import NOW, JobFactory, QueueEntryFactory, RunnerInstanceFactory, SlotFactory
from tests.scheduler.conformance.snapshots import everything

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
LOSSES = [LossCause.LEASE, LossCause.TAKEOVER, LossCause.LOST_ANSWER]


@pytest.mark.parametrize("cause", LOSSES)
def test_a_lost_claim_is_counted_and_goes_back_at_once(now, cause):
    entry = QueueEntryFactory(claimed=True, available_at=now - timedelta(hours=1), job__tenant="acme")
    assert release([(entry.run_id, 1)], now + SECOND, cause) == 1
    after = QueueEntry.objects.get(pk=entry.pk)
    assert (after.state, after.attempt, after.losses, after.max_attempts) == (QueueEntry.State.READY, 1, 1, 5)
    assert after.available_at == now + SECOND
    assert after.holder_id is None
    attempt = Attempt.objects.get()
    assert (attempt.attempt, attempt.outcome, attempt.cause) == (1, "lost", cause.value)
    assert (attempt.runner_id, attempt.claimed_at) == (entry.holder.runner.runner_id, now)
    assert (attempt.ended_at, attempt.duration_ms) == (now + SECOND, 1000)
    event = AuditEvent.objects.get()
    assert (event.action, event.target_id, event.tenant) == ("run.lost", str(entry.run_id), "acme")
    assert event.diff["cause"] == cause.value
    assert Run.objects.get(pk=entry.run_id).verdict is None


@pytest.mark.parametrize("waits", [{}, {"waits_since": NOW - timedelta(hours=2)}], ids=["a fire", "asked for"])
def test_an_answer_that_nobody_was_there_to_hear_leaves_no_trace(now, lane, holder, waits):
    entry = QueueEntryFactory(job__lane=lane, available_at=now - timedelta(hours=1), **waits)
    before = everything()
    (claimed,) = claim_due(now, 1, holder.pk, [lane.pk])
    assert release([(claimed.run_id, 1)], now, LossCause.DISCONNECTED) == 1
    assert everything() == before
    assert claim_due(now, 1, holder.pk, [lane.pk])[0].attempt == 1
    assert entry.run_id == claimed.run_id


@pytest.mark.parametrize("cause", LossCause)
@pytest.mark.parametrize("attempt", [0, 1, 3])
def test_a_claim_with_another_attempt_is_not_released(now, cause, attempt):
    entry = QueueEntryFactory(claimed=True, attempt=2)
    before = everything()
    assert release([(entry.run_id, attempt)], now, cause) == 0
    assert everything() == before


@pytest.mark.parametrize("cause", LossCause)
@pytest.mark.parametrize("trait", [{"stopping": True}, {"attempt": 1}, {"attempt": 1, "state": QueueEntry.State.HELD}])
def test_what_is_not_claimed_is_not_released(now, cause, trait):
    entry = QueueEntryFactory(**trait)
    before = everything()
    assert release([(entry.run_id, 1)], now, cause) == 0
    assert everything() == before


def test_a_list_with_the_same_claim_twice_is_one_loss(now):
    first, second = QueueEntryFactory(claimed=True), QueueEntryFactory(claimed=True)
    claims = [(first.run_id, 1), (second.run_id, 1), (first.run_id, 1)]
    assert release(claims, now, LossCause.TAKEOVER) == 2
    assert Attempt.objects.count() == 2


@pytest.mark.parametrize(
    ("max_retries", "max_losses"), [(0, 0), (0, 2), (3, 2), (1, 0)], ids=lambda number: str(number)
)
def test_a_run_that_kills_every_runner_starts_a_bounded_number_of_times(now, lane, holder, max_retries, max_losses):
    job = JobFactory(lane=lane, max_retries=max_retries, max_losses=max_losses)
    entry = QueueEntryFactory(job=job)
    starts = 0
    for _ in range(20):
        claimed = claim_due(now, 1, holder.pk, [lane.pk])
        starts += len(claimed)
        now += timedelta(hours=1)
        reap_leases(now)
    assert starts == max_retries + 1 + max_losses
    run = Run.objects.get(pk=entry.run_id)
    assert (run.verdict, run.reason, run.attempt) == ("dead", "losses_exhausted", starts)
    assert DeadLetter.objects.get().attempt == starts
    assert not QueueEntry.objects.exists()
    assert Attempt.objects.filter(outcome="lost").count() == starts
    assert AuditEvent.objects.filter(action="run.lost").count() == starts
    assert AuditEvent.objects.filter(action="run.buried").count() == 1


def test_failures_and_losses_together_stay_within_the_bound(now, lane, holder):
    job = JobFactory(lane=lane, max_retries=2, max_losses=1)
    QueueEntryFactory(job=job)
    starts = 0
    for turn in range(20):
        for claimed in claim_due(now, 1, holder.pk, [lane.pk]):
            starts += 1
            if turn % 2:
                ack = Ack(claimed.run_id, claimed.attempt, holder.runner.runner_id, AckStatus.FAILURE, error="boom")
                assert finish([ack], now) == [AckAnswer.ACCEPTED]
        now += timedelta(hours=2)
        reap_leases(now)
    assert starts == 2 + 1 + 1
    assert Run.objects.get().verdict == "dead"


def test_the_last_loss_buries_the_run_and_keeps_what_its_last_attempt_said(now, lane, holder):
    job = JobFactory(lane=lane, max_retries=1, max_losses=0)
    entry = QueueEntryFactory(job=job)
    claim_due(now, 1, holder.pk, [lane.pk])
    finish([Ack(entry.run_id, 1, holder.runner.runner_id, AckStatus.FAILURE, error="disk full")], now)
    now += timedelta(hours=2)
    claim_due(now, 1, holder.pk, [lane.pk])
    assert release([(entry.run_id, 2)], now + SECOND, LossCause.LEASE) == 1
    run = Run.objects.get()
    assert (run.verdict, run.reason, run.error) == ("dead", "losses_exhausted", "disk full")
    assert (run.attempt, run.runner_id, run.claimed_at) == (2, holder.runner.runner_id, now)
    assert (run.finished_at, run.duration_ms) == (now + SECOND, 1000)
    assert DeadLetter.objects.get().error == "disk full"


def test_without_any_error_the_letter_says_what_happened(now):
    entry = QueueEntryFactory(claimed=True, attempt=4, losses=2)
    release([(entry.run_id, 4)], now, LossCause.TAKEOVER)
    assert Run.objects.get().error == "Attempt 4 was lost (takeover), and none is left."


def test_without_dead_letters_the_last_loss_makes_the_run_failed(now):
    entry = QueueEntryFactory(claimed=True, attempt=6, max_attempts=6, losses=2, job__dead_letter_enabled=False)
    release([(entry.run_id, 6)], now, LossCause.LEASE)
    assert Run.objects.get().verdict == "failed"
    assert not DeadLetter.objects.exists()


def test_the_lost_run_of_a_deleted_job_begins_no_more(now):
    entry = QueueEntryFactory(claimed=True, job__deleted_at=now)
    release([(entry.run_id, 1)], now, LossCause.LEASE)
    assert Run.objects.get().verdict == "failed"
    assert not QueueEntry.objects.exists()


@pytest.mark.parametrize("cause", LossCause)
def test_a_lost_run_of_a_limited_job_waits_to_be_admitted_again(now, cause):
    entry = QueueEntryFactory(claimed=True, job__max_concurrent=1)
    SlotFactory(run=entry.run)
    other = SlotFactory(budget=f"job:{entry.job_id}", n=1)
    release([(entry.run_id, 1)], now, cause)
    assert QueueEntry.objects.get().state == QueueEntry.State.GATED
    assert Slot.objects.get() == other


def test_a_run_with_attempts_left_is_not_buried(now):
    waiting = QueueEntryFactory(attempt=3, max_attempts=4)
    claimed = QueueEntryFactory(claimed=True, attempt=4)
    stopping = QueueEntryFactory(stopping=True, attempt=4)
    before = everything()
    assert bury([waiting.run_id, claimed.run_id, stopping.run_id], now) == []
    assert everything() == before


@pytest.mark.parametrize("trait", ["claimed", "stopping"])
def test_a_lease_ends_at_its_instant_and_not_a_microsecond_before(now, trait):
    entry = QueueEntryFactory(**{trait: True})
    before = everything()
    assert reap_leases(entry.lease_expires_at - timedelta(microseconds=1)) == ReapSummary()
    assert everything() == before
    assert reap_leases(entry.lease_expires_at).total == 1
    assert reap_leases(entry.lease_expires_at).total == 0


def test_the_reaper_loses_claims_and_forgets_handlers(now):
    claimed = QueueEntryFactory(claimed=True)
    last = QueueEntryFactory(claimed=True, attempt=6, max_attempts=6, losses=2)
    stopping = QueueEntryFactory(stopping=True, job__max_concurrent=1)
    SlotFactory(run=stopping.run)
    ready = QueueEntryFactory()
    assert reap_leases(now + timedelta(days=1)) == ReapSummary(lost=2, buried=1, wound_down=1)
    assert set(QueueEntry.objects.values_list("run_id", flat=True)) == {claimed.run_id, ready.run_id}
    assert Attempt.objects.get(run_id=claimed.run_id).cause == "lease"
    assert Run.objects.get(pk=stopping.run_id).verdict == "cancelled"
    assert Run.objects.get(pk=last.run_id).verdict == "dead"
    assert not Slot.objects.exists()


def test_the_oldest_lease_goes_first_and_no_more_than_asked_for(now):
    late = QueueEntryFactory(claimed=True, job__lease_seconds=20)
    early = QueueEntryFactory(claimed=True, job__lease_seconds=10)
    assert reap_leases(now + timedelta(days=1), limit=1).lost == 1
    assert Attempt.objects.get().run_id == early.run_id
    assert QueueEntry.objects.get(pk=late.pk).state == QueueEntry.State.CLAIMED


def test_only_stopping_runs_of_the_instance_are_wound_down(now):
    mine = RunnerInstanceFactory()
    gone = QueueEntryFactory(stopping=True, holder=mine, job__max_concurrent=1)
    SlotFactory(run=gone.run)
    claimed = QueueEntryFactory(claimed=True, holder=mine)
    foreign = QueueEntryFactory(stopping=True)
    ready = QueueEntryFactory()
    asked = [gone.run_id, claimed.run_id, foreign.run_id, ready.run_id]
    assert wind_down(mine.pk, asked, now) == 1
    assert set(QueueEntry.objects.values_list("run_id", flat=True)) == set(asked[1:])
    assert not Slot.objects.exists()
    assert wind_down(mine.pk, [], now) == 0


def test_more_leases_than_one_transaction_takes(now, monkeypatch):
    monkeypatch.setattr("scheduler.services.release.CLAIMS_PER_TRANSACTION", 2)
    for n in range(7):
        QueueEntryFactory(**{"stopping" if n % 3 == 0 else "claimed": True})
    first = reap_leases(now + timedelta(days=1), limit=5)
    assert first.total == 5
    rest = reap_leases(now + timedelta(days=1))
    assert (first.lost + rest.lost, first.wound_down + rest.wound_down) == (4, 3)
