"""What died is run once more, or thrown away."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest

from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.models import AuditEvent
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import Attempt, DeadLetter, QueueEntry, Run, Slot
from scheduler.services import queue
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish, time_out
from scheduler.services.jobs import delete_job, save_job
from scheduler.services.letters import delete_letter, delete_letters, replay_letter
from scheduler.services.pause import pause_job
from scheduler.services.release import reap_leases
from scheduler.services.retention import drop_expired_letters
from scheduler.services.trigger_runs import trigger_run
from tests.factories import DeadLetterFactory, JobFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.conformance.snapshots import everything
from tests.scheduler.planning.support import ACTOR, make_job, principal
from tests.support.races import Session, together

pytestmark = pytest.mark.django_db

SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


def kill(run_id, now) -> DeadLetter:
    """Let the run use up its one attempt."""
    holder = RunnerInstanceFactory()
    entry = QueueEntry.objects.get(run_id=run_id)
    claim_due(now, 1, holder.pk, [entry.lane_id])
    finish([Ack(run_id, entry.attempt + 1, holder.runner.runner_id, AckStatus.FAILURE, "boom")], now)
    return DeadLetter.objects.get(run_id=run_id)


@pytest.fixture
def letter(now, db) -> DeadLetter:
    """Of a triggered run with metadata, route and timeout of its own."""
    make_job(now, max_retries=0, require=["eu"], metadata={"a": 1})
    result = trigger_run("demo:job", now, metadata={"b": 2}, require=["gpu"], prefer=["ssd"], timeout_seconds="77s")
    return kill(result.run_id, now + SECOND)


def test_a_replay_is_a_new_run_of_the_same_instant_with_fresh_attempts_and_what_the_run_had_of_its_own(now, letter):
    save_job({"job_key": "demo:job", "max_retries": 5}, now, ACTOR, partial=True)
    Run.objects.filter(pk=letter.run_id).update(occurrence_at=now - HOUR)  # a calendar moved it
    replay = replay_letter(letter.pk, now + HOUR, ACTOR)
    original, run = letter.run, Run.objects.get(pk=replay.run_id)
    assert replay.is_new
    assert (run.kind, run.replay_of_id, run.verdict, run.attempt) == ("replay", original.pk, None, 0)
    assert replay.scheduled_for == run.scheduled_for == original.scheduled_for == now
    assert run.occurrence_at == now - HOUR
    assert (run.metadata, run.require, run.prefer, run.timeout_seconds) == ({"b": 2}, ["gpu"], ["ssd"], 77)
    entry = run.entry
    assert (entry.state, entry.available_at) == (QueueEntry.State.READY, now + HOUR)
    assert (entry.attempt, entry.max_attempts, entry.timeout_seconds, entry.own_lane) == (0, 6, 77, True)
    assert (entry.lane.require, entry.lane.prefer) == (["gpu"], ["ssd"])
    event = AuditEvent.objects.get(action="dead_letter.replayed")
    assert (event.target_id, event.diff["execution_id"]) == (str(letter.pk), str(run.pk))
    # The letter stays, the run it is of too.
    assert Run.objects.get(pk=original.pk).verdict == "dead"
    assert DeadLetter.objects.filter(pk=letter.pk).exists()


def test_a_replay_runs_and_may_die_again_with_a_letter_of_its_own(now, letter):
    replay = replay_letter(letter.pk, now + HOUR, ACTOR)
    again = kill(replay.run_id, now + HOUR)
    assert again.attempt == 1
    third = replay_letter(again.pk, now + 2 * HOUR, ACTOR)
    assert Run.objects.get(pk=third.run_id).replay_of_id == replay.run_id
    assert third.scheduled_for == now


def test_who_asks_again_gets_the_run_that_there_is_even_when_it_is_over_or_the_letter_too_old(now, letter):
    first = replay_letter(letter.pk, now + HOUR, ACTOR)
    kill(first.run_id, now + HOUR)
    save_job({"job_key": "demo:job", "dead_letter_replay_max_age": "1s"}, now, ACTOR, partial=True)
    before = everything()
    second = replay_letter(letter.pk, now + DAY, ACTOR)
    assert (second.run_id, second.is_new) == (first.run_id, False)
    assert everything() == before


def test_a_letter_that_is_too_old_is_replayed_only_by_force(now, letter):
    save_job({"job_key": "demo:job", "dead_letter_replay_max_age": "1h"}, now, ACTOR, partial=True)
    with pytest.raises(Conflict) as refused:
        replay_letter(letter.pk, letter.created_at + HOUR + timedelta(microseconds=1), ACTOR)
    assert refused.value.code == "stale_replay"
    assert not Run.objects.filter(kind="replay").exists()
    assert replay_letter(letter.pk, letter.created_at + DAY, ACTOR, force=True).is_new
    assert AuditEvent.objects.get(action="dead_letter.replayed").diff["forced"] is True


def test_at_its_greatest_age_it_is_still_replayed(now, letter):
    save_job({"job_key": "demo:job", "dead_letter_replay_max_age": "1h"}, now, ACTOR, partial=True)
    assert replay_letter(letter.pk, letter.created_at + HOUR, ACTOR).is_new


def test_a_replay_of_a_limited_job_waits_for_its_slot(now, letter):
    save_job({"job_key": "demo:job", "max_concurrent": 1}, now, ACTOR, partial=True)
    running = trigger_run("demo:job", now + HOUR).run_id
    waiting = replay_letter(letter.pk, now + HOUR, ACTOR).run_id
    assert QueueEntry.objects.get(run_id=running).state == QueueEntry.State.READY
    assert QueueEntry.objects.get(run_id=waiting).state == QueueEntry.State.GATED
    assert list(Slot.objects.values_list("run_id", flat=True)) == [running]


def test_a_pause_and_a_switched_off_job_do_not_hold_a_replay(now, letter):
    pause_job("demo:job", now)
    save_job({"job_key": "demo:job", "is_active": False}, now, ACTOR, partial=True)
    replay = replay_letter(letter.pk, now + HOUR, ACTOR)
    assert QueueEntry.objects.get(run_id=replay.run_id).state == QueueEntry.State.READY


def test_nothing_of_a_deleted_job_is_replayed(now, letter):
    delete_job("demo:job", now, ACTOR)
    with pytest.raises(Conflict) as refused:
        replay_letter(letter.pk, now, ACTOR)
    assert refused.value.code == "job_deleted"
    assert not Run.objects.filter(kind="replay").exists()


def test_letters_of_other_tenants_and_unknown_ones_are_none(now, letter):
    stranger = principal("admin", tenant="acme")
    before = everything()
    for verb in (replay_letter, delete_letter):
        for letter_id, who in ((letter.pk, stranger), (uuid4(), None)):
            with pytest.raises(NotFound):
                verb(letter_id, now, ACTOR, who)
    assert delete_letters(now, ACTOR, stranger, everything=True) == 0
    assert delete_letters(now, ACTOR, stranger, ids=[letter.pk]) == 0
    assert everything() == before


@pytest.mark.django_db(transaction=True)
def test_five_replays_at_once_are_one_run(now, letter):
    replays = together([partial(replay_letter, letter.pk, now + HOUR, ACTOR)] * 5)
    assert len({replay.run_id for replay in replays}) == 1
    assert sorted(replay.is_new for replay in replays) == [False] * 4 + [True]
    assert Run.objects.filter(kind="replay").count() == QueueEntry.objects.count() == 1
    assert AuditEvent.objects.filter(action="dead_letter.replayed").count() == 1


# Death and letter (RT-02, RT-03)


class Fault(RuntimeError):
    """The database dies between two statements."""


def fault(*_args, **_more):
    raise Fault


def test_between_death_and_letter_there_is_nothing(now, monkeypatch):
    """Killed between the two: neither, and the run is reaped later. Not killed: both."""
    entry = QueueEntryFactory(claimed=True, max_attempts=1, job__max_retries=0, max_losses=0)
    ack = Ack(entry.run_id, 1, entry.holder.runner.runner_id, AckStatus.FAILURE, "boom")
    before = everything()
    with monkeypatch.context() as broken:
        broken.setattr(queue.DeadLetter.objects, "bulk_create", fault)
        for killed in (lambda: finish([ack], now), lambda: time_out(now + HOUR, 10), lambda: reap_leases(now + HOUR)):
            with pytest.raises(Fault):
                killed()
            assert everything() == before
    assert reap_leases(now + HOUR).buried == 1
    assert Run.objects.get().verdict == "dead"
    assert DeadLetter.objects.get().run_id == entry.run_id


@pytest.mark.parametrize("statement", ["send_to_rest", "attempts"])
def test_a_fault_while_a_retry_is_stored_leaves_the_claim_to_be_reaped(now, monkeypatch, statement):
    entry = QueueEntryFactory(claimed=True)
    ack = Ack(entry.run_id, 1, entry.holder.runner.runner_id, AckStatus.FAILURE, "boom")
    before = everything()
    with monkeypatch.context() as broken:
        if statement == "attempts":
            broken.setattr(Attempt.objects, "bulk_create", fault)
        else:
            broken.setattr(queue, "give_back_slots", fault)  # after the entry was written
        with pytest.raises(Fault):
            finish([ack], now)
        assert everything() == before
    # The SDK says it again; or it has gone and the lease ends.
    assert reap_leases(now + timedelta(hours=1)).lost == 1
    entry.refresh_from_db()
    assert (entry.state, entry.attempt, entry.losses) == (QueueEntry.State.READY, 1, 1)


# Throwing away


def test_a_letter_is_thrown_away_and_its_run_stays(now, letter):
    delete_letter(letter.pk, now, ACTOR)
    assert not DeadLetter.objects.exists()
    assert Run.objects.get(pk=letter.run_id).verdict == "dead"
    assert AuditEvent.objects.get(action="dead_letter.deleted").target_id == str(letter.pk)
    with pytest.raises(NotFound):
        delete_letter(letter.pk, now, ACTOR)


def test_many_are_thrown_away_by_ids_by_job_and_all_of_a_tenant(now):
    one, other = JobFactory(job_key="a:one"), JobFactory(job_key="a:other")
    foreign = DeadLetterFactory(job__tenant="acme")
    letters = [DeadLetterFactory(job=job) for job in (one, one, one, other, other)]
    ours = principal("dead-letters:write", tenant="default")
    # Twice the same, unknown, of another job, of another tenant: none of them counts.
    ids = [str(letters[0].pk), str(letters[0].pk), str(uuid4()), str(letters[3].pk), str(foreign.pk)]
    assert delete_letters(now, ACTOR, ours, ids=ids, job_key="a:one") == 1
    assert delete_letters(now, ACTOR, ours, everything=True, job_key="a:one") == 2
    assert delete_letters(now, ACTOR, ours, everything=True, job_key="no:body") == 0
    assert delete_letters(now, ACTOR, ours, everything=True) == 2
    assert list(DeadLetter.objects.all()) == [foreign]
    events = AuditEvent.objects.filter(action="dead_letters.deleted").order_by("id")
    assert [(event.tenant, event.diff["count"]) for event in events] == [("default", count) for count in (1, 2, 2)]
    told = [pk for event in events for pk in event.diff["ids"]]
    assert sorted(told) == sorted(str(letter.pk) for letter in letters)


def test_twelve_hundred_go_in_batches_and_one_that_comes_later_stays(now):
    job = JobFactory()
    letters = DeadLetterFactory.build_batch(1200, job=job, created_at=now)
    Run.objects.bulk_create(letter.run for letter in letters)
    DeadLetter.objects.bulk_create(letters)
    later = DeadLetterFactory(job=job, created_at=now + SECOND)
    assert delete_letters(now, ACTOR, everything=True) == 1200
    assert list(DeadLetter.objects.all()) == [later]
    counts = [event.diff["count"] for event in AuditEvent.objects.filter(action="dead_letters.deleted").order_by("id")]
    assert counts == [500, 500, 200]


@pytest.mark.parametrize(
    ("field", "wish"),
    [
        ("ids", {}),
        ("ids", {"everything": False}),
        ("ids", {"ids": [], "everything": True}),
        ("ids", {"ids": "all"}),
        ("ids", {"ids": ["x"]}),
        ("ids", {"ids": [5]}),
        ("ids", {"ids": [None]}),
        ("ids", {"ids": ["x" * 36]}),
        ("ids", {"ids": [str(uuid4())] * 10_001}),
        ("all", {"everything": "yes"}),
        ("all", {"everything": 1}),
        ("job_key", {"everything": True, "job_key": "x"}),
        ("job_key", {"everything": True, "job_key": 5}),
    ],
)
def test_what_is_no_choice_of_letters_is_refused_by_field(now, letter, field, wish):
    with pytest.raises(InvalidInput) as refused:
        delete_letters(now, ACTOR, **wish)
    assert set(refused.value.fields) == {field}
    assert DeadLetter.objects.count() == 1


@pytest.mark.parametrize(("kept", "expires"), [("1d", DAY), ("0s", None)])
def test_letters_are_kept_as_long_as_the_job_says_and_zero_is_for_ever(now, kept, expires):
    make_job(now, max_retries=0, dead_letter_retention=kept)
    letter = kill(trigger_run("demo:job", now).run_id, now)
    assert letter.expires_at == (None if expires is None else now + expires)
    drop_expired_letters(now + DAY - SECOND)
    assert DeadLetter.objects.count() == 1
    drop_expired_letters(now + 10_000 * DAY)
    assert DeadLetter.objects.count() == (1 if expires is None else 0)


@pytest.mark.django_db(transaction=True)
def test_a_replay_while_its_letter_is_being_thrown_away_is_one_or_the_other(now, letter):
    with Session() as keeper, Session() as thrower:
        keeper.begin()
        replay = keeper.run(replay_letter, letter.pk, now, ACTOR)
        thrown = thrower.start(delete_letter, letter.pk, now, ACTOR)
        keeper.commit()
        thrown.result(30)
    assert not DeadLetter.objects.exists()
    assert Run.objects.get(pk=replay.run_id).replay_of_id == letter.run_id
    with pytest.raises(NotFound):
        replay_letter(letter.pk, now, ACTOR)
