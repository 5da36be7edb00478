"""Retention on demand and by number: what goes, what stays, what is said of it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.sessions.models import Session as WebSession
from django.core.management import CommandError, call_command
from django.db import connection

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.management.commands.makemessages import is_sentence
from scheduler.models import Attempt, DeadLetter, QueueEntry, Run, RunLog
from scheduler.queries import upkeep
from scheduler.queries.prunable import KINDS, prunable
from scheduler.queries.upkeep import SqliteFile, sqlite_file
from scheduler.services import newest
from scheduler.services.newest import NewestKept, drop_runs_beyond_newest
from scheduler.services.serving import take_the_only_server
from scheduler.workers import pruner, reaper
from tests.factories import (
    AlertExemptionFactory,
    AlertFactory,
    AttemptFactory,
    AuditEventFactory,
    DeadLetterFactory,
    HeartbeatFactory,
    IdempotencyKeyFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    RunnerFactory,
    RunnerInstanceFactory,
    SkippedSpanFactory,
    SlotFactory,
)

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)


@pytest.fixture(autouse=True)
def _off(settings):
    settings.CRONIQ_RUN_RETENTION_SECONDS = settings.CRONIQ_LOG_RETENTION_SECONDS = 0.0
    settings.CRONIQ_AUDIT_RETENTION_SECONDS = 0.0
    settings.CRONIQ_KEEP_RUNS = None


def ended(at, **more):
    return RunFactory(
        **{"verdict": "completed", "attempt": 1, "scheduled_for": at, "claimed_at": at, "finished_at": at, **more}
    )


def history(now, job, count):
    """Runs of a job an hour apart, oldest first, the newest two days ago."""
    return [ended(now - 2 * DAY - n * HOUR, job=job).pk for n in reversed(range(count))]


def kept(job):
    return list(Run.objects.filter(job=job).order_by("scheduled_for").values_list("pk", flat=True))


def prune(*arguments):
    out = StringIO()
    call_command("prune", *arguments, stdout=out)
    lines = [line.split() for line in out.getvalue().splitlines()]
    return out.getvalue(), {line[0]: int(line[1]) for line in lines if line[0] in KINDS and line[1].isdigit()}


def test_the_newest_of_each_job_stay_and_what_hangs_on_the_others_goes_with_them(now, settings):
    settings.CRONIQ_KEEP_RUNS = 3
    busy, calm = JobFactory(), JobFactory()
    runs, few = history(now, busy, 5), history(now, calm, 3)
    AttemptFactory(run_id=runs[0])
    RunLogFactory(run_id=runs[0])
    assert NewestKept()(now) == 2
    assert kept(busy) == runs[2:]
    assert kept(calm) == few
    assert not Attempt.objects.exists()
    assert not RunLog.objects.exists()
    assert NewestKept()(now) == 0


def test_two_runs_of_one_instant_are_told_apart_by_their_ids(now, settings):
    settings.CRONIQ_KEEP_RUNS = 1
    job, at = JobFactory(), now - 2 * DAY
    pair = sorted(ended(at, job=job, kind="triggered").pk for _ in range(2))
    assert NewestKept()(now) == 1
    assert kept(job) == pair[1:]


def test_it_is_off_until_somebody_asks_for_it(now):
    job = JobFactory()
    runs = history(now, job, 3)
    assert drop_runs_beyond_newest(now) == (0, 0)
    assert kept(job) == runs


def test_what_is_younger_than_a_day_stays_whatever_its_number(now, settings):
    """A fire that is forgotten while a clock can be stepped back to before it would be run a second time."""
    settings.CRONIQ_KEEP_RUNS = 1
    job = JobFactory()
    young = ended(now - DAY, job=job)
    late = ended(now - 2 * DAY, job=job, finished_at=now - HOUR)
    old = ended(now - DAY - TICK, job=job)
    newest_one = ended(now - HOUR, job=job)
    ahead = ended(now + HOUR, job=job, verdict="skipped", problem="skipped", attempt=0, claimed_at=None)
    assert NewestKept()(now) == 1
    assert kept(job) == [late.pk, young.pk, newest_one.pk, ahead.pk]
    assert not Run.objects.filter(pk=old.pk).exists()


def test_a_fire_that_was_skipped_ahead_of_its_time_is_none_of_the_newest(now, settings):
    settings.CRONIQ_KEEP_RUNS = 1
    job = JobFactory()
    runs = history(now, job, 1)
    ended(now + HOUR, job=job, verdict="skipped", problem="skipped", attempt=0, claimed_at=None, finished_at=now)
    assert NewestKept()(now) == 0
    assert kept(job)[:1] == runs


def test_runs_that_somebody_still_needs_stay_and_count_as_what_they_are(now, settings):
    settings.CRONIQ_KEEP_RUNS = 1
    job, at = JobFactory(), now - 3 * DAY
    unfinished = QueueEntryFactory(job=job, run__scheduled_for=at).run
    stopping = QueueEntryFactory(job=job, stopping=True, run__scheduled_for=at + HOUR).run
    lettered = DeadLetterFactory(job=job, expires_at=None, run__scheduled_for=at + 2 * HOUR).run
    slotted = ended(at + 3 * HOUR, job=job)
    SlotFactory(run=slotted)
    original = ended(at + 4 * HOUR, job=job)
    replay = ended(at + 5 * HOUR, job=job, kind="replay", replay_of=original)
    plain = ended(at + 6 * HOUR, job=job)
    Run.objects.filter(pk__in=[stopping.pk, lettered.pk]).update(finished_at=at)
    last = ended(at + 7 * HOUR, job=job)
    assert NewestKept()(now) == 2  # the plain one and the replay; what it repeats goes after it
    assert set(kept(job)) == {run.pk for run in (unfinished, stopping, lettered, slotted, original, last)}
    assert NewestKept()(now) == 1
    assert not Run.objects.filter(pk__in=[plain.pk, replay.pk, original.pk]).exists()


def test_a_batch_is_bounded_and_the_next_goes_on_where_it_ended(now, settings, monkeypatch):
    settings.CRONIQ_KEEP_RUNS = 1
    monkeypatch.setattr(newest, "JOBS_PER_PASS", 2)
    monkeypatch.setattr(newest, "RUNS_PER_TRANSACTION", 2)
    jobs = [JobFactory() for _ in range(5)]
    for job in jobs:
        history(now, job, 4)
    chore, counts = NewestKept(), []
    while Run.objects.count() > 5:
        counts.append(chore(now, 4))
        assert len(counts) < 10
    assert max(counts) == 4
    assert sum(counts) == 15
    assert Counter(Run.objects.values_list("job", flat=True)) == dict.fromkeys((job.pk for job in jobs), 1)
    # Round again: a job that has grown meanwhile is found, by whichever pass comes to it.
    history(now + 9 * DAY, jobs[0], 2)
    assert sum(chore(now + 9 * DAY, 4) for _ in range(4)) == 2


def test_a_skipped_run_that_is_revived_while_it_is_looked_for_stays(now, settings, monkeypatch):
    settings.CRONIQ_KEEP_RUNS = 1
    job = JobFactory()
    revived = ended(now - 3 * DAY, job=job, verdict="skipped", problem="skipped", attempt=0, claimed_at=None)
    history(now, job, 1)

    def batches(ids, size):
        Run.objects.filter(pk=revived.pk).update(verdict=None, problem=None, finished_at=None)
        QueueEntryFactory(run=revived, job=job)
        return [ids]

    monkeypatch.setattr(newest, "chunks", batches)
    assert NewestKept()(now) == 0
    assert QueueEntry.objects.filter(run=revived).exists()


def test_the_reaper_keeps_the_newest_too(now, settings):
    settings.CRONIQ_KEEP_RUNS = 1
    history(now, JobFactory(), 3)
    assert reaper.run_once(now).done["newest_runs"] == 2


@pytest.fixture
def rich(settings):
    """One of everything that is due to go, beside one of everything that is not. Real time: the command takes it."""
    now = DatabaseClock().now()
    settings.CRONIQ_RUN_RETENTION_SECONDS = 90 * 86_400
    settings.CRONIQ_LOG_RETENTION_SECONDS = 30 * 86_400
    settings.CRONIQ_RUNNER_RETENTION_SECONDS = 30 * 86_400
    settings.CRONIQ_AUDIT_RETENTION_SECONDS = 30 * 86_400
    settings.CRONIQ_KEEP_RUNS = 2
    job = JobFactory()
    history(now, job, 5)
    ended(now - 91 * DAY)
    ended(now - 89 * DAY)
    for age in (31, 29):
        RunLogFactory(run=ended(now - 40 * DAY), logged_at=now - age * DAY)
        RunnerFactory(last_poll_at=now - age * DAY)
        AuditEventFactory(created_at=now - (age + 1) * DAY)
        SkippedSpanFactory(recorded_at=now - (age + 60) * DAY)
        WebSession.objects.create(session_key=f"key-{age}", session_data="", expire_date=now + (30 - age) * DAY)
    for age in (8, 6):
        RunnerInstanceFactory(deposed_at=now - age * DAY, runner__last_poll_at=now)
        HeartbeatFactory(beat_at=now - age * DAY)
    for age in (31, 29):
        said = {"state": "delivered", "next_at": None, "finished_at": now - age * DAY, "ended_at": now - age * DAY}
        AlertFactory(created_at=now - age * DAY, **said)
        AlertFactory(created_at=now - age * DAY)  # waits
        AlertExemptionFactory(created_at=now - (age + 1) * DAY, until=now - age * DAY)
    for left in (-HOUR, HOUR):
        at = now - 100 * DAY
        # Once its letter is gone, the run may go too: it is older than runs are kept.
        old = RunFactory(dead=True, scheduled_for=at, finished_at=at, claimed_at=at)
        DeadLetterFactory(job=old.job, run=old, expires_at=now + left)
        IdempotencyKeyFactory(run=ended(now - 2 * DAY), expires_at=now + left)
    return now


DUE = {
    "idempotency_keys": 1,
    "dead_letters": 1,
    "log_lines": 1,
    "runs": 1,
    "newest_runs": 3,
    "gaps": 1,
    "audit": 1,
    "instances": 1,
    "runners": 1,
    "heartbeats": 1,
    "sessions": 1,
    "alerts": 2,
}


def test_a_dry_run_counts_what_would_go_and_changes_nothing(rich):
    before = Run.objects.count(), DeadLetter.objects.count(), RunLog.objects.count()
    written, counts = prune("--dry-run")
    assert counts == DUE
    assert "would go" in written
    assert (Run.objects.count(), DeadLetter.objects.count(), RunLog.objects.count()) == before


def test_all_that_was_counted_goes_and_what_was_kept_for_it_too(rich):
    runs = Run.objects.count()
    _, counts = prune()
    # The run whose letter went is one more.
    assert counts == DUE | {"runs": 2}
    assert Run.objects.count() == runs - 5
    assert prune("--dry-run")[1] == dict.fromkeys(KINDS, 0)
    assert prune()[1] == dict.fromkeys(KINDS, 0)


def test_small_batches_end_in_the_same(rich):
    assert pruner.prune(DatabaseClock().now(), limit=3) == DUE | {"runs": 2}


@pytest.mark.parametrize("kind", list(KINDS))
def test_each_kind_is_a_chore_of_the_reaper_and_counts_nothing_where_there_is_nothing(now, kind):
    assert kind in reaper.CHORES
    assert prunable(now, kind) == 0


def test_every_chore_that_throws_away_by_age_can_be_asked_for():
    others = {
        "clock", "missed_fires", "leases", "deadlines", "pauses", "maintenance", "queue_ttl", "queue_depth",
        "unclaimed", "stray_runs", "stray_slots", "admit", "tallies", "alert_rules",
    }  # fmt: skip
    assert set(reaper.CHORES) - others == set(KINDS)


def test_what_is_kept_for_ever_is_said_so(settings):
    assert upkeep.kept_for() == [
        "Runs are kept for ever (CRONIQ_RUN_RETENTION).",
        "Of each job all runs are kept (CRONIQ_KEEP_RUNS).",
        "Log lines are kept as long as their runs (CRONIQ_LOG_RETENTION).",
        "The audit is kept for ever (CRONIQ_AUDIT_RETENTION).",
    ]
    settings.CRONIQ_RUN_RETENTION_SECONDS, settings.CRONIQ_KEEP_RUNS = 90 * 86_400.0, 500
    assert upkeep.kept_for()[:2] == [
        "Runs are kept for 90d (CRONIQ_RUN_RETENTION).",
        "Of each job the newest 500 runs are kept (CRONIQ_KEEP_RUNS).",
    ]
    settings.CRONIQ_AUDIT_RETENTION_SECONDS = 30 * 86_400.0
    assert upkeep.kept_for()[3] == "The audit is kept for 30d (CRONIQ_AUDIT_RETENTION)."
    # Each is a sentence that the catalogue has: it is said in the language of the page.
    assert all(is_sentence(said) for said in upkeep.kept_for())
    out = StringIO()
    with pytest.raises(CommandError):  # no process runs, which is not what is asked here
        call_command("doctor", stdout=out)
    assert "retention    Of each job the newest 500 runs are kept (CRONIQ_KEEP_RUNS)." in out.getvalue()


MIB = upkeep.MIB


@pytest.mark.parametrize(
    ("file", "advice"),
    [
        (SqliteFile(100 * MIB, 16 * MIB, 0), []),
        (SqliteFile(100 * MIB, 300 * MIB, 0), ["write-ahead log has 300 MiB"]),
        (SqliteFile(200 * MIB, 0, 100 * MIB), ["100 of 200 MiB of the database file are free"]),
        (SqliteFile(200 * MIB, 0, 40 * MIB), []),
        (SqliteFile(900 * MIB, 0, 100 * MIB), []),
    ],
)
def test_advice_is_given_where_something_can_be_done(file, advice):
    said = list(file.advice())
    assert len(said) == len(advice)
    assert all(part in sentence for part, sentence in zip(advice, said, strict=True))


@pytest.mark.django_db(transaction=True)
def test_free_space_goes_back_to_the_disk_while_nobody_serves(database):
    if database != "sqlite":
        assert sqlite_file() is None
        with pytest.raises(CommandError, match="SQLite"):
            prune("--vacuum")
        return
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE filler (data BLOB)")
        cursor.execute("INSERT INTO filler VALUES (zeroblob(2000000))")
        cursor.execute("DROP TABLE filler")
    assert sqlite_file().free >= 2_000_000
    lock = take_the_only_server()
    with pytest.raises(CommandError, match="served already"):
        prune("--vacuum")
    lock.close()
    assert "The file had" in prune("--vacuum")[0]
    file = sqlite_file()
    assert (file.free, file.log) == (0, 0)
    take_the_only_server().close()  # it was given back
