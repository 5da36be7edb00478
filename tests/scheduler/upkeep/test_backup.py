"""`manage.py backup`: one instant of a database in use, whole or not at all; and what a restored one goes on with."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from scheduler.domain.work import Ack, AckStatus
from scheduler.models import Lane, Run
from scheduler.services import backup
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.workers import materializer
from tests.factories import RunFactory, RunnerInstanceFactory
from tests.scheduler.planning.support import make_job, make_trigger
from tests.support.database import database_url
from tests.support.polling import poll_until
from tests.support.races import Session, in_thread

ROOT = Path(__file__).resolve().parents[3]
SECOND = timedelta(seconds=1)


@pytest.fixture
def sqlite_only(database):
    if database != "sqlite":
        pytest.skip("PostgreSQL is backed up by its own tools")


def back_up(file: Path) -> str:
    out = StringIO()
    call_command("backup", str(file), stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_on_postgresql_it_says_how_that_is_done_and_exits_with_2(database, tmp_path):
    if database == "sqlite":
        pytest.skip("of PostgreSQL")
    with pytest.raises(CommandError) as refusal:
        back_up(tmp_path / "copy")
    assert refusal.value.returncode == 2
    assert "pg_dump" in str(refusal.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_a_copy_holds_what_was_committed_and_not_what_is_under_way(tmp_path):
    run = RunFactory()
    with Session() as writer:
        writer.begin()
        writer.run(lambda: RunFactory(job=run.job, scheduled_for=run.scheduled_for + SECOND))
        # Whoever writes is not waited for; a copy that took a lock would wait for twenty seconds and then fail.
        written = back_up(tmp_path / "copy.sqlite3")
        writer.commit()
    assert "checked" in written
    copy = sqlite3.connect(tmp_path / "copy.sqlite3")
    assert copy.execute("SELECT id FROM scheduler_run").fetchall() == [(run.pk.hex,)]
    copy.close()
    assert stat.S_IMODE((tmp_path / "copy.sqlite3").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["copy.sqlite3"]
    assert Run.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_nothing_is_replaced_also_what_appears_while_it_is_copied(tmp_path, monkeypatch):
    target = tmp_path / "copy"
    target.write_text("last week's")
    with pytest.raises(CommandError, match="is there already"):
        back_up(target)
    target.unlink()
    copies = backup._copy

    def somebody_else_is_faster(source, part):
        copies(source, part)
        target.write_text("another's")

    monkeypatch.setattr(backup, "_copy", somebody_else_is_faster)
    with pytest.raises(CommandError, match="is there already"):
        back_up(target)
    assert target.read_text() == "another's"
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_a_copy_that_is_not_sound_never_gets_its_name(tmp_path, monkeypatch):
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys=OFF")
        cursor.execute(
            "INSERT INTO scheduler_runlog (run_id, attempt, logged_at, level, message, fields) "
            "VALUES ('00000000000000000000000000000000', 1, '2026-01-01', 'info', '', '{}')"
        )
        try:
            with pytest.raises(CommandError, match=r"not sound.*scheduler_runlog"):
                back_up(tmp_path / "copy")
        finally:
            cursor.execute("DELETE FROM scheduler_runlog")
            cursor.execute("PRAGMA foreign_keys=ON")
    assert not list(tmp_path.iterdir())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(CommandError, match="cannot be written"):
        back_up(tmp_path / "nowhere" / "copy")


@pytest.mark.realtime
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_a_backup_under_load_restores_to_a_state_in_which_every_fire_still_becomes_exactly_one_run(
    tmp_path, now, settings
):
    """A materializer and two claimers at work while another process copies; then the copy alone goes on."""
    settings.CRONIQ_HORIZON_SECONDS = 60.0
    job = make_job(now, catch_up="all", max_catch_up=1_000, max_queue_depth=1_000)
    make_trigger(job, now, every="1s")
    over, planned, turns = threading.Event(), 0, itertools.count()

    def plan():
        nonlocal planned
        while not over.wait(0.01) and planned < 900:
            planned += 1
            materializer.run_once(now + planned * SECOND)

    def work(name):
        holder = RunnerInstanceFactory(runner__runner_id=name)
        lanes = list(Lane.objects.values_list("pk", flat=True))
        done = 0
        while not over.is_set():
            claimed = claim_due(now + planned * SECOND, 3, holder.pk, lanes)
            # One in five is left to its lease: claims without a verdict are in the copy too.
            acks = [Ack(run.run_id, run.attempt, name, AckStatus.SUCCESS) for run in claimed if next(turns) % 5]
            done += len(finish(acks, now + planned * SECOND))
        return done

    at_work = [in_thread(plan), in_thread(work, "first"), in_thread(work, "second")]
    copy = tmp_path / "croniq.sqlite3"
    try:
        poll_until(lambda: planned > 20 and Run.objects.filter(verdict="completed").count() > 20, 60, what="runs end")
        at_least = Run.objects.count()
        done = _process("manage.py", "backup", str(copy), DATABASE_URL=database_url())
        assert "checked" in done
    finally:
        over.set()
        outcomes = [future.result(60) for future in at_work]
    assert min(outcomes[1:]) > 0
    until = now + (planned + 60) * SECOND
    told = json.loads(
        _process(
            "-m",
            "tests.scheduler.upkeep.restored",
            until.isoformat(),
            DATABASE_URL=f"sqlite:///{copy}",
            CRONIQ_HORIZON="1m",
        )
    )
    assert told["before"] >= at_least
    assert told["jobs"] == [job.job_key]
    expected = {(now + n * SECOND).isoformat() for n in range(1, planned + 61)}
    assert Counter(at for _, at, _ in told["fires"]) == Counter(expected)
    assert {verdict for _, _, verdict in told["fires"]} == {"completed"}


def _process(*arguments: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
