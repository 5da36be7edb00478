"""Materializer and reaper: a pass, the loop around it, the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.db.migrations.recorder import MigrationRecorder

from croniq_site.kernel import migrated
from croniq_site.kernel.clock import DatabaseClock, ManualClock
from croniq_site.kernel.migrated import pending_migrations, require_migrated
from croniq_site.kernel.stop import StopToken
from runners.models import Heartbeat
from scheduler.models import DeadLetter, IdempotencyKey, Job, QueueEntry, Run
from scheduler.services.materialize import MaterializeSummary
from scheduler.services.pause import pause_job
from scheduler.workers import materializer, reaper
from scheduler.workers.process import Worker
from tests.factories import DeadLetterFactory, QueueEntryFactory
from tests.scheduler.planning.support import make_job, make_trigger, planned
from tests.support.database import database_url
from tests.support.polling import poll_until

SECOND = timedelta(seconds=1)
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.django_db
def test_a_pass_of_the_materializer_plans_what_is_due(clock_at):
    job = make_job(clock_at.now())
    make_trigger(job, clock_at.now(), every="1m")
    summary = materializer.run_once(clock_at.tick(timedelta(minutes=40)))
    assert (summary.triggers, summary.inserted, summary.is_done) == (1, 40, True)


@pytest.fixture
def clock_at(now) -> ManualClock:
    return ManualClock(now)


@pytest.mark.parametrize(
    ("summary", "pause"),
    [
        (MaterializeSummary(is_done=False), 0),
        (MaterializeSummary(), 5),
        (MaterializeSummary(next_due_at=timedelta(seconds=60)), 5),
        (MaterializeSummary(next_due_at=timedelta(seconds=2)), 2),
        (MaterializeSummary(next_due_at=timedelta(seconds=-9)), 0.25),
    ],
)
def test_the_materializer_sleeps_until_something_is_due_and_never_spins(now, summary, pause):
    if summary.next_due_at is not None:
        summary = MaterializeSummary(next_due_at=now + summary.next_due_at)
    assert materializer.pause_seconds(summary, now, 5.0) == pause


@pytest.mark.django_db
def test_a_pass_of_the_reaper_does_every_chore(now):
    late = now + timedelta(hours=2)
    lost = QueueEntryFactory(claimed=True, lease_expires_at=now)
    slow = QueueEntryFactory(claimed=True, lease_expires_at=late + SECOND, deadline_at=now)
    key_run = QueueEntryFactory().run
    IdempotencyKey.objects.create(job=key_run.job, key="k", run=key_run, created_at=now, expires_at=now)
    QueueEntry.objects.filter(run=key_run).delete()
    Run.objects.filter(pk=key_run.pk).update(verdict="completed", finished_at=now)
    letter = DeadLetterFactory(expires_at=now)
    kept = DeadLetterFactory(expires_at=None)
    make_job(now)
    pause_job("demo:job", now, until=now + SECOND)
    done = reaper.run_once(late).done
    expected = {"leases": 1, "deadlines": 1, "pauses": 1, "idempotency_keys": 1, "dead_letters": 1}
    assert {chore: count for chore, count in done.items() if count} == expected
    for entry in (lost, slow):
        entry.refresh_from_db()
        assert entry.holder_id is None
    assert list(DeadLetter.objects.all()) == [kept]
    assert letter.run.pk in Run.objects.values_list("pk", flat=True)
    assert not IdempotencyKey.objects.exists()
    assert Job.objects.get(job_key="demo:job").paused_at is None


@pytest.mark.django_db
@pytest.mark.parametrize("broken", list(reaper.CHORES))
def test_a_chore_that_fails_keeps_no_other_from_being_done(now, monkeypatch, broken):
    done = []

    def chore(name):
        def work(*_):
            if name == broken:
                raise ValueError("a row that nobody thought of")
            done.append(name)
            return 0

        return work

    monkeypatch.setattr(reaper, "CHORES", {name: chore(name) for name in reaper.CHORES})
    summary = reaper.run_once(now)
    assert summary.failed == (broken,)
    assert set(done) == set(reaper.CHORES) - {broken}


@pytest.mark.django_db
def test_a_database_that_is_away_ends_the_pass(now, monkeypatch):
    def away(*_):
        raise OperationalError("gone")

    monkeypatch.setattr(reaper, "CHORES", {"leases": away, "deadlines": pytest.fail})
    with pytest.raises(OperationalError):
        reaper.run_once(now)


def test_a_full_batch_means_that_there_is_more(now, monkeypatch):
    monkeypatch.setattr(reaper, "CHORES", {"leases": lambda now, limit: limit, "deadlines": lambda now, limit: 0})
    assert not reaper.run_once(now).is_done
    monkeypatch.setattr(reaper, "CHORES", {"leases": lambda now, limit: limit - 1})
    assert reaper.run_once(now).is_done


@pytest.mark.django_db(transaction=True)  # the loop lets go of its connection between passes
def test_a_worker_shows_that_it_lives_when_it_last_worked_and_that_it_ended(clock_at):
    stop = StopToken()
    passes = []

    def work(now):
        passes.append(now)
        clock_at.tick()
        if len(passes) == 3:
            stop.stop()
        return 0.0

    start = clock_at.now()
    Worker("materialize", work, clock_at).run(stop)
    assert passes == [start, start + SECOND, start + 2 * SECOND]
    row = Heartbeat.objects.get()
    assert (row.kind, row.pid, row.started_at) == ("materialize", os.getpid(), start)
    assert (row.tick_at, row.beat_at, row.ended_at) == (start + 3 * SECOND,) * 3


@pytest.mark.django_db
def test_a_pass_that_failed_is_no_tick(clock_at):
    def work(now):
        raise ValueError("no luck")

    worker = Worker("reap", work, clock_at)
    with pytest.raises(ValueError, match="no luck"):
        worker.step()
    assert Heartbeat.objects.get().tick_at is None


@pytest.mark.django_db
def test_materialize_once_plans_all_that_is_due_and_exits(capsys):
    now = DatabaseClock().now()
    jobs = [make_job(now, f"demo:job-{n}") for n in range(2)]
    for job in jobs:
        make_trigger(job, now, every="10m")
    QueueEntry.objects.all().delete()
    Run.objects.all().delete()
    type(jobs[0].triggers.get()).objects.update(cursor_at=now, next_materialize_at=now)
    call_command("materialize", once=True)
    assert [len(planned(job)) for job in jobs] == [6, 6]
    assert "2 triggers planned: 12 runs" in capsys.readouterr().out
    row = Heartbeat.objects.get(kind="materialize")
    assert row.tick_at
    assert row.ended_at


@pytest.mark.django_db
def test_reap_once_does_all_that_is_due_and_exits(capsys):
    entry = QueueEntryFactory(claimed=True)  # its lease ended long ago
    call_command("reap", once=True)
    entry.refresh_from_db()
    assert entry.state == QueueEntry.State.READY
    assert "leases: 1" in capsys.readouterr().out


@pytest.mark.django_db
def test_reap_once_says_what_failed(monkeypatch):
    def broken(*_):
        raise ValueError("no luck")

    monkeypatch.setattr(reaper, "CHORES", {"leases": broken})
    with pytest.raises(CommandError, match="leases"):
        call_command("reap", once=True)


@pytest.mark.parametrize("seconds", ["0", "nan", "-1", "soon", "3601"])
@pytest.mark.parametrize("command", ["materialize", "reap"])
def test_a_pause_that_is_none_is_refused(command, seconds):
    with pytest.raises(CommandError):
        call_command(command, f"--interval={seconds}")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("command", "options"),
    [("materialize", ["--once"]), ("reap", ["--once"]), ("create_api_key", ["deploys", "--scopes", "jobs:read"])],
)
def test_a_database_that_lacks_migrations_is_said_in_one_sentence(command, options):
    MigrationRecorder.Migration.objects.filter(app__in=["scheduler", "runners"]).delete()
    lacking = len(pending_migrations())
    assert lacking >= 2
    with pytest.raises(CommandError) as refusal:
        call_command(command, *options)
    assert str(refusal.value) == f"The database lacks {lacking} migrations. Run manage.py migrate."


def test_a_database_that_is_away_is_waited_for_by_workers_and_said_by_commands(monkeypatch):
    def away():
        raise OperationalError("connection refused")

    monkeypatch.setattr(migrated, "pending_migrations", away)
    require_migrated(waits=True)
    with pytest.raises(CommandError, match=r"^The database cannot be opened: connection refused$"):
        require_migrated()


@pytest.mark.django_db
def test_a_worker_that_waited_for_the_database_does_not_work_on_tables_of_another_version(clock_at):
    """Its command let it pass: the database was away. It ends, and whoever started it starts it anew."""
    MigrationRecorder.Migration.objects.filter(app="scheduler").delete()
    stop = StopToken()

    def work(at):
        stop.stop()
        return 0.0

    with pytest.raises(SystemExit, match=r"Run manage\.py migrate"):
        Worker("reap", work, clock_at).run(stop)
    assert not stop.is_set
    assert not Heartbeat.objects.exists()


@pytest.mark.django_db
def test_a_worker_says_when_it_starts_and_when_it_stops(clock_at, caplog):
    stop = StopToken()

    def work(at):
        stop.stop()
        return 0.0

    with caplog.at_level("INFO", logger="scheduler.workers.process"):
        Worker("reap", work, clock_at).run(stop)
    assert [record.getMessage() for record in caplog.records] == ["reap: started", "reap: stopped"]


@pytest.mark.realtime
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("command", ["materialize", "reap"])
def test_a_process_works_until_sigterm_and_ends_in_good_order(command, tmp_path):
    environment = {**os.environ, "DATABASE_URL": database_url(), "CRONIQ_DATA_DIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "manage.py", command, "--interval", "0.2"], cwd=ROOT, env=environment, stderr=subprocess.PIPE
    )
    try:
        poll_until(lambda: Heartbeat.objects.filter(kind=command, tick_at__isnull=False).exists(), 30)
        if command == "materialize":
            now = DatabaseClock().now()
            job = make_job(now)
            make_trigger(job, now, every="10m")
            QueueEntry.objects.all().delete()
            Run.objects.all().delete()
            job.triggers.update(cursor_at=now, next_materialize_at=now)
            poll_until(lambda: len(planned(job)) == 6)
        else:
            entry = QueueEntryFactory(claimed=True)
            poll_until(lambda: QueueEntry.objects.get(pk=entry.pk).state == QueueEntry.State.READY)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()
    assert Heartbeat.objects.get(kind=command).ended_at is not None
