"""Deadlines: an attempt that runs past its timeout fails, and its handler is waited for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.domain.work import Ack, AckAnswer, AckStatus
from scheduler.models import Attempt, DeadLetter, QueueEntry, Run, Slot
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish, time_out
from tests.factories import QueueEntryFactory, SlotFactory
from tests.scheduler.conformance.snapshots import everything

pytestmark = pytest.mark.django_db


def ack_of(entry, status=AckStatus.SUCCESS):
    return Ack(entry.run_id, entry.attempt, entry.holder.runner.runner_id, status)


def waiting(entry):
    return QueueEntry.objects.filter(pk=entry.pk).first()


def test_a_deadline_that_has_come_fails_the_attempt(now):
    entry = QueueEntryFactory(claimed=True, job__timeout_seconds=30, job__retry_strategy="fixed", job__retry_jitter=0)
    assert time_out(now + timedelta(seconds=29.999999), 10) == 0
    assert time_out(now + timedelta(seconds=30), 10) == 1
    after = waiting(entry)
    assert (after.state, after.attempt) == (QueueEntry.State.READY, 1)
    assert after.available_at == now + timedelta(seconds=32)
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.error, attempt.duration_ms) == (
        "timed_out",
        "The attempt ran past its timeout.",
        30_000,
    )
    assert time_out(now + timedelta(seconds=31), 10) == 0


@pytest.mark.parametrize("status", AckStatus)
def test_the_ack_of_an_attempt_that_timed_out_changes_nothing(now, status, holder):
    entry = QueueEntryFactory(claimed=True)
    time_out(now + timedelta(hours=1), 10)
    before = everything()
    assert finish([ack_of(entry, status)], now) == [AckAnswer.WOUND_DOWN]
    assert everything() == before
    assert len(claim_due(now + timedelta(hours=3), 1, holder.pk, [entry.lane_id])) == 1
    before = everything()
    assert finish([ack_of(entry, status)], now) == [AckAnswer.WOUND_DOWN]
    assert everything() == before


@pytest.mark.parametrize("status", AckStatus)
def test_the_last_attempt_that_times_out_is_dead_and_its_handler_winds_down(now, status):
    entry = QueueEntryFactory(claimed=True, attempt=4, job__max_concurrent=1)
    SlotFactory(run=entry.run)
    assert time_out(now + timedelta(hours=1), 10) == 1
    run = Run.objects.get(pk=entry.run_id)
    assert (run.verdict, run.reason, run.attempt) == ("dead", "timed_out", 4)
    assert DeadLetter.objects.get().dead_reason == "timed_out"
    stopping = waiting(entry)
    assert (stopping.state, stopping.lease_expires_at) == (QueueEntry.State.STOPPING, entry.lease_expires_at)
    assert Slot.objects.count() == 1
    assert finish([ack_of(entry, status)], now) == [AckAnswer.WOUND_DOWN]
    assert waiting(entry) is None
    assert Slot.objects.count() == 0
    assert finish([ack_of(entry, status)], now) == [AckAnswer.WOUND_DOWN]
    assert Run.objects.get(pk=entry.run_id).verdict == "dead"


def test_what_stops_already_has_no_deadline(now):
    """It has its verdict, and its handler winds down: to fail it once more would break the reaper at each pass."""
    QueueEntryFactory(stopping=True)
    before = everything()
    assert time_out(now + timedelta(days=1), 10) == 0
    assert everything() == before


def test_deadlines_are_taken_oldest_first_and_no_more_than_asked_for(now):
    late = QueueEntryFactory(claimed=True, job__timeout_seconds=20)
    early = QueueEntryFactory(claimed=True, job__timeout_seconds=10)
    assert time_out(now + timedelta(hours=1), 1) == 1
    assert Attempt.objects.get().run_id == early.run_id
    assert time_out(now + timedelta(hours=1), 1) == 1
    assert waiting(late).state == QueueEntry.State.READY


def test_more_deadlines_than_one_transaction_takes(now, monkeypatch):
    monkeypatch.setattr("scheduler.services.finish.ACKS_PER_TRANSACTION", 2)
    for _ in range(5):
        QueueEntryFactory(claimed=True)
    assert time_out(now + timedelta(hours=1), 3) == 3
    assert time_out(now + timedelta(hours=1), 10) == 2
