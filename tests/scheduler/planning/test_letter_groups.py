"""Letters by what their errors have in common, from the run that dies to the group that is worked off."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import Conflict
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import DeadLetter, QueueEntry
from scheduler.queries.letter_groups import LetterChoice, letter_groups, letter_ids, workload
from scheduler.services import letter_groups as service
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.letter_groups import discard_letters, replay_letters
from scheduler.services.letters import delete_letter
from scheduler.services.trigger_runs import trigger_run
from tests.factories import DeadLetterFactory, JobFactory, RunFactory, RunnerInstanceFactory
from tests.scheduler.planning.support import ACTOR, make_job
from tests.support.races import together

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


def let_die(error: str, now) -> None:
    result = trigger_run("demo:job", now)
    holder = RunnerInstanceFactory()
    entry = QueueEntry.objects.get(run_id=result.run_id)
    claim_due(now, 1, holder.pk, [entry.lane_id])
    finish([Ack(result.run_id, 1, holder.runner.runner_id, AckStatus.FAILURE, error)], now)


def test_a_letter_says_what_its_error_has_in_common_with_others(now):
    make_job(now, max_retries=0)
    for error in ("row 17 is broken", "row 18 is broken", ""):
        let_die(error, now)
    groups, total = letter_groups(LetterChoice(), 10)
    assert [(group.fingerprint, group.letters) for group in groups] == [
        ("row <n> is broken", 2),
        ("retries exhausted", 1),
    ]
    assert total == 2


def test_thousands_of_letters_are_counted_right(now):
    jobs = [JobFactory() for _ in range(5)]
    runs = [RunFactory.build(job=jobs[n % 5], dead=True, kind="triggered") for n in range(2_000)]
    type(runs[0]).objects.bulk_create(runs)
    letters = [
        DeadLetterFactory.build(job=run.job, run=run, fingerprint=f"kind {n % 3}", created_at=now - n * SECOND)
        for n, run in enumerate(runs)
    ]
    DeadLetter.objects.bulk_create(letters)
    groups, total = letter_groups(LetterChoice(), 2)
    assert [(group.letters, group.waiting, group.jobs) for group in groups] == [(667, 667, 5), (667, 667, 5)]
    assert total == 3
    choice = LetterChoice(fingerprint="kind 1", job_key=jobs[0].job_key)
    load = workload(choice, now)
    assert load.total == load.ready == len(letter_ids(choice)) == len([n for n in range(0, 2000, 5) if n % 3 == 1])
    assert load.letter_ids[0] == letters[max(n for n in range(0, 2000, 5) if n % 3 == 1)].pk


@pytest.mark.django_db(transaction=True)
def test_two_who_replay_a_group_at_once_make_each_run_once(now):
    job = make_job(now, max_queue_depth=100)
    letters = [DeadLetterFactory(job=job, fingerprint="boom") for _ in range(6)]
    choice = LetterChoice(fingerprint="boom")
    done = together([lambda: replay_letters(choice, 6, now, ACTOR), lambda: replay_letters(choice, 6, now, ACTOR)])
    assert sum(one.made for one in done) == 6
    assert QueueEntry.objects.count() == len(letters)


@pytest.mark.django_db(transaction=True)
def test_two_who_throw_a_group_away_at_once_count_each_letter_once(now):
    job = JobFactory()
    for _ in range(6):
        DeadLetterFactory(job=job, fingerprint="boom")
    choice = LetterChoice(fingerprint="boom")

    def discard() -> int:
        try:
            return discard_letters(choice, 6, now, ACTOR)
        except Conflict:
            return 0  # it came after the other's end and found another number than was shown

    assert sum(together([discard, discard])) == 6
    assert not DeadLetter.objects.exists()


def test_a_letter_that_goes_while_its_group_is_replayed_is_left_out(now, monkeypatch):
    job = make_job(now, max_queue_depth=100)
    kept, gone = (DeadLetterFactory(job=job, fingerprint="boom", created_at=now + n * SECOND) for n in (0, 1))
    replay = service.replay_letter

    def and_meanwhile(letter_id, *args, **options):
        if letter_id == kept.pk:
            delete_letter(gone.pk, now, ACTOR)
        return replay(letter_id, *args, **options)

    monkeypatch.setattr(service, "replay_letter", and_meanwhile)
    done = replay_letters(LetterChoice(fingerprint="boom"), 2, now, ACTOR)
    assert (done.made, done.refused, done.left) == (1, 1, 0)
