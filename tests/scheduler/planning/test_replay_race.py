"""A run is done once more in the moment in which retention throws it away, on real connections."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from croniq_site.kernel.errors import NotFound
from runners.models import AuditEvent
from scheduler.models import DeadLetter, Run
from scheduler.services.bulk import one_by_one
from scheduler.services.letters import replay_letter
from scheduler.services.newest import drop_runs_beyond_newest
from scheduler.services.replays import replay_run
from scheduler.services.retention import drop_expired_letters, drop_old_runs
from tests.factories import DeadLetterFactory, RunFactory
from tests.scheduler.planning.support import ACTOR
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db(transaction=True)
YEAR = timedelta(days=365)


@pytest.fixture(autouse=True)
def retention(settings):
    settings.CRONIQ_RUN_RETENTION_SECONDS = 90 * 86_400


def refused_while(prune, replay, database) -> None:
    """``prune`` has deleted and not committed when ``replay`` begins, which is told that there is no such thing."""
    with Session() as pruner, Session() as person:
        pruner.begin()
        assert pruner.run(prune) >= 1
        pid = person.backend_pid if database == "postgresql" else None
        answer = person.start(replay)
        if pid is not None:  # SQLite's second writer waits in its driver
            poll_until(lambda: is_waiting_for_lock(pid), what="the replay waits for the run")
        pruner.commit()
        with pytest.raises(NotFound):
            answer.result(DEADLINE_SECONDS)
    assert not Run.objects.exists()
    assert not AuditEvent.objects.filter(action__contains="replayed").exists()


def test_a_run_that_retention_has_in_hand_is_gone_for_who_replays_it(now, database):
    run = RunFactory(dead=True)
    refused_while(lambda: drop_old_runs(now + YEAR), lambda: replay_run(run.pk, now + YEAR, ACTOR), database)


def test_of_many_the_one_that_retention_has_in_hand_is_refused_and_the_others_are_made(now, database):
    old = RunFactory(dead=True)
    young = RunFactory(job=old.job, dead=True, scheduled_for=now + YEAR, finished_at=now + YEAR)
    with Session() as pruner, Session() as person:
        pruner.begin()
        assert pruner.run(lambda: drop_old_runs(now + YEAR)) == 1
        pid = person.backend_pid if database == "postgresql" else None
        answer = person.start(
            one_by_one, [old.pk, young.pk], lambda run_id: replay_run(run_id, now + YEAR, ACTOR) is not None
        )
        if pid is not None:
            poll_until(lambda: is_waiting_for_lock(pid), what="the replay waits for the run")
        pruner.commit()
        done = answer.result(DEADLINE_SECONDS)
    assert done.changed == [young.pk]
    assert [(run_id, refusal.status) for run_id, refusal in done.refused] == [(old.pk, 404)]
    assert Run.objects.filter(replay_of=young.pk).count() == 1


def test_a_run_whose_letter_goes_with_it_is_gone_for_who_replays_the_letter(now, database):
    letter = DeadLetterFactory()

    def prune() -> int:
        return drop_expired_letters(now + YEAR) + drop_old_runs(now + YEAR)

    refused_while(prune, lambda: replay_letter(letter.pk, now + YEAR, ACTOR), database)
    assert not DeadLetter.objects.exists()


def test_a_run_that_somebody_replays_in_this_moment_is_left_to_the_next_pass(now, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    run = RunFactory(dead=True)
    with Session() as person, Session() as pruner:
        person.begin()
        replay = person.run(lambda: replay_run(run.pk, now + YEAR, ACTOR))
        assert pruner.run(lambda: drop_old_runs(now + YEAR)) == 0
        person.commit()
    assert drop_old_runs(now + YEAR) == 0  # a run that a kept one is the replay of stays
    assert set(Run.objects.values_list("pk", "replay_of")) == {(run.pk, None), (replay, run.pk)}


GATE = 4711
"""The advisory lock before which a statement stands still."""


def at_the_gate(prune):
    """Do ``prune`` with its look at runs held open: what it reads is as it was when it began, and it locks them only
    when the gate is free."""

    def held(execute, sql, params, many, context):
        if sql.startswith('SELECT "scheduler_run"') and "SKIP LOCKED" in sql:
            sql = sql.replace(" WHERE ", f" WHERE (SELECT pg_advisory_xact_lock_shared({GATE}) IS NOT NULL) AND ", 1)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(held):
        return prune()


@pytest.mark.parametrize("prune", [drop_old_runs, drop_runs_beyond_newest], ids=lambda prune: prune.__name__)
def test_a_replay_that_is_committed_while_retention_looks_keeps_its_original(now, settings, database, prune):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    settings.CRONIQ_RUN_RETENTION_SECONDS, settings.CRONIQ_KEEP_RUNS = 300 * 86_400, 1
    run = RunFactory(dead=True)
    gone = RunFactory(job=run.job, dead=True, scheduled_for=now - YEAR)
    young = RunFactory(job=run.job, dead=True, scheduled_for=now + YEAR / 2, finished_at=now + YEAR / 2)
    with Session() as gate, Session() as pruner:
        gate.begin()
        gate.run(lambda: connection.cursor().execute("SELECT pg_advisory_xact_lock(%s)", [GATE]))
        pid = pruner.backend_pid
        answer = pruner.start(at_the_gate, lambda: prune(now + YEAR))
        poll_until(lambda: is_waiting_for_lock(pid), what="the look at the runs stands before the gate")
        replay = replay_run(run.pk, now + YEAR, ACTOR)
        gate.commit()
        assert answer.result(DEADLINE_SECONDS) in (1, (1, 0))
    assert set(Run.objects.values_list("pk", "replay_of")) == {(run.pk, None), (young.pk, None), (replay, run.pk)}
    assert not Run.objects.filter(pk=gone.pk).exists()
