"""Ack: whose word counts, what it does, and what it is answered when it no longer counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest

from scheduler.domain.work import Ack, AckAnswer, AckStatus, LossCause
from scheduler.models import Attempt, DeadLetter, QueueEntry, Run, Slot
from scheduler.services.cancel import cancel_runs
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.release import release
from tests.factories import (
    ConcurrencyGroupFactory,
    QueueEntryFactory,
    RunnerFactory,
    RunnerInstanceFactory,
    SlotFactory,
)
from tests.scheduler.conformance.snapshots import SYSTEM_ACTOR, everything

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


def ack_of(entry, status=AckStatus.SUCCESS, **more):
    known = {
        "run_id": entry.run_id,
        "attempt": entry.attempt,
        "runner_id": entry.holder.runner.runner_id,
        "status": status,
    }
    return Ack(**{**known, **more})


def failure_of(entry, **more):
    return ack_of(entry, AckStatus.FAILURE, **more)


def waiting(entry):
    return QueueEntry.objects.filter(pk=entry.pk).first()


def test_success_ends_the_run_and_takes_it_out_of_the_queue(now):
    entry = QueueEntryFactory(claimed=True, attempt=2)
    assert finish([ack_of(entry, duration_ms=1234)], now + SECOND) == [AckAnswer.ACCEPTED]
    run = Run.objects.get(pk=entry.run_id)
    assert (run.verdict, run.problem, run.attempt, run.duration_ms) == ("completed", None, 2, 1234)
    assert (run.runner_id, run.claimed_at, run.finished_at) == (entry.holder.runner.runner_id, now, now + SECOND)
    assert waiting(entry) is None
    assert not Attempt.objects.exists()
    assert not DeadLetter.objects.exists()


@pytest.mark.parametrize("status", AckStatus)
def test_a_duration_that_the_runner_did_not_measure_is_that_of_the_claim(now, status):
    entry = QueueEntryFactory(claimed=True, attempt=4)
    finish([ack_of(entry, status)], now + timedelta(seconds=2, microseconds=345_999))
    assert Run.objects.get(pk=entry.run_id).duration_ms == 2345


@pytest.mark.parametrize("status", AckStatus)
def test_a_clock_that_went_back_makes_no_negative_duration(now, status):
    entry = QueueEntryFactory(claimed=True, attempt=4)
    finish([ack_of(entry, status)], now - SECOND)
    assert Run.objects.get(pk=entry.run_id).duration_ms == 0


def test_a_failure_with_attempts_left_waits_for_its_next_one(now):
    entry = QueueEntryFactory(
        claimed=True,
        job__retry_strategy="fixed",
        job__retry_base_seconds=7,
        job__retry_jitter=0,
        run__metadata={"k": 1},
        passed_over_at=now,
    )
    assert finish([failure_of(entry, error="boom", duration_ms=0)], now + SECOND) == [AckAnswer.ACCEPTED]
    after = waiting(entry)
    assert (after.state, after.attempt, after.max_attempts, after.losses) == (QueueEntry.State.READY, 1, 4, 0)
    assert after.available_at == now + timedelta(seconds=8)
    assert (after.holder_id, after.claimed_at, after.lease_expires_at, after.deadline_at) == (None,) * 4
    assert after.passed_over_at is None
    attempt = Attempt.objects.get()
    assert (attempt.run_id, attempt.attempt, attempt.outcome, attempt.cause) == (entry.run_id, 1, "failed", "")
    assert (attempt.error, attempt.duration_ms, attempt.runner_id) == ("boom", 0, entry.holder.runner.runner_id)
    assert (attempt.claimed_at, attempt.ended_at) == (now, now + SECOND)
    run = Run.objects.get(pk=entry.run_id)
    assert (run.verdict, run.attempt, run.finished_at) == (None, 0, None)
    assert run.scheduled_for == entry.run.scheduled_for


def test_the_back_off_of_the_job_is_used_with_its_jitter(now):
    job = {"job__retry_strategy": "exponential", "job__retry_base_seconds": 2, "job__retry_jitter": 0.5}
    waits = set()
    for seed in range(8):
        entry = QueueEntryFactory(claimed=True, attempt=3, **job)
        finish([failure_of(entry)], now, Random(seed))
        waits.add(waiting(entry).available_at - now)
    assert len(waits) > 1
    assert all(timedelta(seconds=4) <= wait <= timedelta(seconds=12) for wait in waits)


def test_a_failed_run_may_be_claimed_again_when_its_back_off_is_over(now, holder):
    entry = QueueEntryFactory(claimed=True, job__retry_strategy="fixed", job__retry_jitter=0)
    finish([failure_of(entry)], now)
    assert not claim_due(now + timedelta(seconds=1.999999), 1, holder.pk, [entry.lane_id])
    (again,) = claim_due(now + timedelta(seconds=2), 1, holder.pk, [entry.lane_id])
    assert (again.run_id, again.attempt, again.scheduled_for) == (entry.run_id, 2, entry.run.scheduled_for)


def test_the_last_failure_makes_the_run_dead_with_a_letter(now):
    entry = QueueEntryFactory(
        claimed=True,
        attempt=4,
        job__metadata={"a": 1, "b": 1},
        run__metadata={"b": 2},
        job__dead_letter_retention_seconds=60,
    )
    assert finish([failure_of(entry, error="no more", duration_ms=9)], now + SECOND) == [AckAnswer.ACCEPTED]
    run = Run.objects.get(pk=entry.run_id)
    assert (run.verdict, run.problem, run.reason, run.error) == ("dead", "dead", "retries_exhausted", "no more")
    assert (run.attempt, run.duration_ms, run.claimed_at, run.finished_at) == (4, 9, now, now + SECOND)
    assert run.runner_id == entry.holder.runner.runner_id
    letter = DeadLetter.objects.get()
    assert (letter.run_id, letter.job_id, letter.attempt) == (run.pk, entry.job_id, 4)
    assert (letter.error, letter.dead_reason, letter.metadata) == ("no more", "retries_exhausted", {"a": 1, "b": 2})
    assert (letter.scheduled_for, letter.fire_at) == (run.scheduled_for, entry.available_at)
    assert (letter.created_at, letter.expires_at) == (now + SECOND, now + timedelta(seconds=61))
    assert waiting(entry) is None
    assert not Attempt.objects.exists()


def test_letters_that_are_kept_for_ever_do_not_expire(now):
    entry = QueueEntryFactory(claimed=True, attempt=4, job__dead_letter_retention_seconds=0)
    finish([failure_of(entry)], now)
    assert DeadLetter.objects.get().expires_at is None


def test_without_dead_letters_the_run_is_failed(now):
    entry = QueueEntryFactory(claimed=True, attempt=4, job__dead_letter_enabled=False)
    finish([failure_of(entry)], now)
    run = Run.objects.get(pk=entry.run_id)
    assert (run.verdict, run.problem) == ("failed", "failed")
    assert not DeadLetter.objects.exists()


def test_at_most_once_is_one_attempt(now):
    entry = QueueEntryFactory(claimed=True, job__max_retries=0)
    finish([failure_of(entry)], now)
    assert Run.objects.get(pk=entry.run_id).verdict == "dead"


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempt": 1},
        {"attempt": 3},
        {"attempt": 0},
        {"attempt": -1},
        {"attempt": 2**40},
        {"runner_id": "somebody else"},
        {"runner_id": ""},
    ],
    ids=str,
)
@pytest.mark.parametrize("status", AckStatus)
def test_an_ack_of_another_attempt_or_runner_changes_nothing(now, wrong, status):
    entry = QueueEntryFactory(claimed=True, attempt=2)
    before = everything()
    assert finish([ack_of(entry, status, **wrong)], now) == [AckAnswer.STALE]
    assert everything() == before


@pytest.mark.parametrize("state", [QueueEntry.State.READY, QueueEntry.State.GATED, QueueEntry.State.HELD])
@pytest.mark.parametrize("status", AckStatus)
def test_an_ack_of_a_run_that_nobody_holds_changes_nothing(now, state, status):
    entry = QueueEntryFactory(state=state, attempt=1)
    before = everything()
    assert finish([Ack(entry.run_id, 1, "runner", status)], now) == [AckAnswer.STALE]
    assert everything() == before


def test_an_unknown_run_is_said_to_be_unknown(now):
    assert finish([Ack(uuid4(), 1, "runner", AckStatus.SUCCESS)], now) == [AckAnswer.UNKNOWN]


def test_no_acks_no_answers(now):
    assert finish([], now) == []


@pytest.mark.parametrize("status", AckStatus)
@pytest.mark.parametrize("attempt", [1, 4], ids=["attempts left", "the last attempt"])
def test_the_same_ack_again_changes_nothing_and_is_accepted_as_before(now, status, attempt):
    entry = QueueEntryFactory(claimed=True, attempt=attempt)
    ack = ack_of(entry, status, error="x")
    assert finish([ack], now) == [AckAnswer.ACCEPTED]
    before = everything()
    assert finish([ack, replace(ack, error="other words", duration_ms=3)], now + SECOND) == [AckAnswer.REPEATED] * 2
    assert everything() == before


def test_the_same_failure_again_is_known_also_when_the_next_attempt_is_claimed(now, holder):
    entry = QueueEntryFactory(claimed=True)
    ack = failure_of(entry)
    finish([ack], now)
    assert len(claim_due(now + timedelta(hours=1), 1, holder.pk, [entry.lane_id])) == 1
    before = everything()
    assert finish([ack], now) == [AckAnswer.REPEATED]
    assert everything() == before


@pytest.mark.parametrize("attempt", [1, 4], ids=["attempts left", "the last attempt"])
@pytest.mark.parametrize(
    ("first", "second"), [(AckStatus.SUCCESS, AckStatus.FAILURE), (AckStatus.FAILURE, AckStatus.SUCCESS)]
)
def test_another_verdict_comes_too_late(now, first, second, attempt):
    entry = QueueEntryFactory(claimed=True, attempt=attempt)
    finish([ack_of(entry, first)], now)
    before = everything()
    assert finish([ack_of(entry, second)], now) == [AckAnswer.STALE]
    assert finish([ack_of(entry, first, runner_id="somebody else")], now) == [AckAnswer.STALE]
    assert finish([ack_of(entry, first, attempt=attempt + 1)], now) == [AckAnswer.STALE]
    assert everything() == before


def test_of_two_equal_acks_in_one_batch_the_first_counts(now):
    entry = QueueEntryFactory(claimed=True)
    other = QueueEntryFactory(claimed=True)
    ack = ack_of(entry)
    answers = finish([ack, ack, ack_of(other), failure_of(entry)], now)
    assert answers == [AckAnswer.ACCEPTED, AckAnswer.REPEATED, AckAnswer.ACCEPTED, AckAnswer.STALE]
    twice = QueueEntryFactory(claimed=True)
    assert finish([failure_of(twice), failure_of(twice)], now) == [AckAnswer.ACCEPTED, AckAnswer.REPEATED]
    assert Attempt.objects.filter(run_id=twice.run_id).count() == 1


def test_a_batch_of_all_kinds_is_answered_in_its_order(now):
    good, bad, last, foreign = (QueueEntryFactory(claimed=True, attempt=n) for n in (1, 1, 4, 1))
    stopping = QueueEntryFactory(stopping=True)
    unknown = Ack(uuid4(), 1, "runner", AckStatus.FAILURE)
    acks = [
        unknown,
        failure_of(last),
        ack_of(good),
        failure_of(bad),
        ack_of(foreign, runner_id="somebody else"),
        ack_of(stopping),
    ]
    wanted = [
        AckAnswer.UNKNOWN,
        AckAnswer.ACCEPTED,
        AckAnswer.ACCEPTED,
        AckAnswer.ACCEPTED,
        AckAnswer.STALE,
        AckAnswer.WOUND_DOWN,
    ]
    assert finish(acks, now) == wanted
    verdicts = dict(Run.objects.values_list("pk", "verdict"))
    assert [verdicts[e.run_id] for e in (good, bad, last, foreign, stopping)] == [
        "completed",
        None,
        "dead",
        None,
        "cancelled",
    ]


def test_more_acks_than_one_transaction_takes(now, monkeypatch):
    monkeypatch.setattr("scheduler.services.finish.ACKS_PER_TRANSACTION", 2)
    entries = [QueueEntryFactory(claimed=True) for _ in range(5)]
    acks = [ack_of(entry, AckStatus.SUCCESS if n % 2 else AckStatus.FAILURE) for n, entry in enumerate(entries)]
    assert finish([*acks, *acks], now) == [AckAnswer.ACCEPTED] * 5 + [AckAnswer.REPEATED] * 5


def test_the_ack_of_a_holder_that_was_deposed_counts_for_nothing(now, lane):
    runner = RunnerFactory()
    old = RunnerInstanceFactory(runner=runner)
    QueueEntryFactory(job__lane=lane)
    (first,) = claim_due(now, 1, old.pk, [lane.pk])
    type(old).objects.filter(pk=old.pk).update(deposed_at=now)
    new = RunnerInstanceFactory(runner=runner)
    release([(first.run_id, 1)], now, LossCause.TAKEOVER)
    (second,) = claim_due(now, 1, new.pk, [lane.pk])
    assert (second.run_id, second.attempt) == (first.run_id, 2)
    before = everything()
    assert finish([Ack(first.run_id, 1, runner.runner_id, AckStatus.SUCCESS)], now) == [AckAnswer.STALE]
    assert everything() == before
    assert finish([Ack(first.run_id, 2, runner.runner_id, AckStatus.SUCCESS)], now) == [AckAnswer.ACCEPTED]


@pytest.mark.parametrize("status", AckStatus)
def test_the_holders_ack_of_a_cancelled_run_only_frees_its_place(now, status):
    entry = QueueEntryFactory(claimed=True)
    cancel_runs([entry.run_id], now, SYSTEM_ACTOR)
    cancelled = Run.objects.values().get(pk=entry.run_id)
    assert finish([ack_of(entry, status)], now + SECOND) == [AckAnswer.WOUND_DOWN]
    assert waiting(entry) is None
    assert Run.objects.values().get(pk=entry.run_id) == cancelled
    # The SDK may not have heard the answer and say it again.
    assert finish([ack_of(entry, status)], now + SECOND) == [AckAnswer.WOUND_DOWN]


def test_only_the_holder_winds_a_cancelled_run_down(now):
    entry = QueueEntryFactory(stopping=True)
    before = everything()
    assert finish([ack_of(entry, runner_id="somebody else")], now) == [AckAnswer.STALE]
    assert finish([ack_of(entry, attempt=2)], now) == [AckAnswer.STALE]
    assert everything() == before


def test_nothing_of_a_deleted_job_begins_again(now):
    entry = QueueEntryFactory(claimed=True, job__deleted_at=now)
    assert finish([failure_of(entry, error="boom")], now) == [AckAnswer.ACCEPTED]
    run = Run.objects.get(pk=entry.run_id)
    assert (run.verdict, run.reason, run.error) == ("failed", "job_deleted", "boom")
    assert waiting(entry) is None
    assert not DeadLetter.objects.exists()
    assert finish([failure_of(entry)], now) == [AckAnswer.REPEATED]


def test_a_claimed_run_of_a_deleted_job_completes(now):
    entry = QueueEntryFactory(claimed=True, job__deleted_at=now)
    assert finish([ack_of(entry)], now) == [AckAnswer.ACCEPTED]
    assert Run.objects.get(pk=entry.run_id).verdict == "completed"


def test_the_retry_of_a_paused_job_is_held_unless_somebody_triggered_it(now):
    scheduled = QueueEntryFactory(claimed=True, job__paused_at=now)
    triggered = QueueEntryFactory(claimed=True, job__paused_at=now, run__kind="triggered")
    finish([failure_of(scheduled), failure_of(triggered)], now)
    assert waiting(scheduled).state == QueueEntry.State.HELD
    assert waiting(triggered).state == QueueEntry.State.READY


LIMITS = {
    "its own limit": lambda: {"job__max_concurrent": 1},
    "its group's limit": lambda: {"job__concurrency_group": ConcurrencyGroupFactory()},
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("status", AckStatus)
@pytest.mark.parametrize("attempt", [1, 4], ids=["attempts left", "the last attempt"])
def test_a_run_of_a_limited_job_gives_its_slots_back_whatever_became_of_it(now, limit, status, attempt):
    entry = QueueEntryFactory(claimed=True, attempt=attempt, **LIMITS[limit]())
    SlotFactory(run=entry.run)
    other = SlotFactory()
    finish([ack_of(entry, status)], now)
    assert list(Slot.objects.all()) == [other]
    if status is AckStatus.FAILURE and attempt == 1:
        assert waiting(entry).state == QueueEntry.State.GATED


def test_runs_of_unlimited_jobs_never_touch_the_slots(now, django_assert_num_queries):
    entry = QueueEntryFactory(claimed=True)
    slot = SlotFactory(run=entry.run)
    finish([ack_of(entry)], now)
    assert Slot.objects.get() == slot
