"""What was copied under load and restored after every process was killed goes on: by the commands of docs/deploy.md."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from croniq_site.kernel.clock import DatabaseClock
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import Lane, Run
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from tests.e2e.installation import ROOT, installation
from tests.factories import RunnerInstanceFactory
from tests.scheduler.planning.support import make_job, make_trigger
from tests.support.database import database_url
from tests.support.polling import poll_until
from tests.support.postgres import find_binaries
from tests.support.races import in_thread

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
SECOND = timedelta(seconds=1)
JOBS = 3
BEFORE_US = 30
"""Fires of each job that had fallen due when the installation began."""


def told_by_the_page(command: str) -> str:
    """The block of shell in docs/deploy.md that this command is in."""
    (block,) = [
        b for b in re.findall(r"```sh\n(.*?)```", (ROOT / "docs/deploy.md").read_text(), re.DOTALL) if command in b
    ]
    return block


def follow(block: str, backups: Path, **env: str) -> None:
    """In a shell, with ours for what the page calls /backups and python."""
    assert "/backups/croniq-1" in block
    block = block.replace("/backups/", f"{backups}/").replace("python ", f"{sys.executable} ")
    path = os.pathsep.join([str(find_binaries()), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-eu", "-c", block], cwd=ROOT, env={**os.environ, "PATH": path, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def place_to_restore_to(database: str, folder: Path) -> Iterator[str]:
    """The URL of a new database: on SQLite the file as its killed processes left it, with its log; else empty."""
    if database == "sqlite":
        for left in ("", "-wal", "-shm"):
            shutil.copy(f"{connection.settings_dict['NAME']}{left}", folder / f"croniq.sqlite3{left}")
        yield f"sqlite:///{folder / 'croniq.sqlite3'}"
        return
    name = f"restored_{os.getpid()}"
    here, database_name = database_url(), connection.settings_dict["NAME"]
    with psycopg.connect(here, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield here.replace(f"/{database_name}", f"/{name}")
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def work(name: str, over: threading.Event) -> int:
    """Claim and complete what is due, but for one in five, which is left to its lease; return how many it completed."""
    holder, lanes = RunnerInstanceFactory(runner__runner_id=name), list(Lane.objects.values_list("pk", flat=True))
    taken = done = 0
    while not over.wait(0.02):
        claimed = claim_due(DatabaseClock().now(), 3, holder.pk, lanes)
        acks = [Ack(r.run_id, r.attempt, name, AckStatus.SUCCESS) for n, r in enumerate(claimed, taken) if n % 5]
        taken += len(claimed)
        done += len(finish(acks, DatabaseClock().now()))
    return done


def test_a_backup_under_load_restores_to_a_state_in_which_every_fire_still_becomes_exactly_one_run(database, tmp_path):
    began = DatabaseClock().now().replace(microsecond=0) - BEFORE_US * SECOND
    jobs = [
        make_job(began, f"demo:{n}", catch_up="all", max_catch_up=1_000, max_queue_depth=10_000) for n in range(JOBS)
    ]
    for job in jobs:
        make_trigger(job, began, every="1s")
    over, completed = threading.Event(), Run.objects.filter(verdict="completed")
    with installation((), serve=False) as site:
        for command in ("materialize", "reap"):
            site.start(command, CRONIQ_HORIZON="1m")
        poll_until(lambda: Lane.objects.exists() and Run.objects.exists(), 120, what="runs are planned")
        at_work = [in_thread(work, name, over) for name in ("first", "second")]
        try:
            poll_until(lambda: completed.count() > 20, 60, what="runs end")
            at_least = Run.objects.count()
            command = {"sqlite": "manage.py backup", "postgresql": "pg_dump"}[database]
            follow(told_by_the_page(f"{command} "), tmp_path, DATABASE_URL=database_url())
            then = completed.count()
            poll_until(lambda: completed.count() > then, 60, what="runs end that no backup knows")
            make_job(DatabaseClock().now(), "demo:after-the-backup")
            for process in site.processes:
                assert site.stop(process, signal.SIGKILL) == -signal.SIGKILL
        finally:
            over.set()
            done = [future.result(60) for future in at_work]
    assert min(done) > 0
    (data := tmp_path / "data").mkdir()
    with place_to_restore_to(database, data) as url:
        env = {"DATABASE_URL": url, "CRONIQ_DATA_DIR": str(data), "CRONIQ_HORIZON": "1m"}
        restore = {"sqlite": "rm -f croniq.sqlite3", "postgresql": "pg_restore"}[database]
        follow(told_by_the_page(restore), tmp_path, **env)
        until = DatabaseClock().now().replace(microsecond=0) + 60 * SECOND
        told = subprocess.run(
            [sys.executable, "-m", "tests.scheduler.upkeep.restored", until.isoformat()],
            cwd=ROOT,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
        )
        assert told.returncode == 0, told.stderr
        told = json.loads(told.stdout)
    assert told["before"] >= at_least
    assert sorted(told["jobs"]) == [job.job_key for job in jobs]  # and nothing that came after the backup
    seconds = range(1, int((until - began) / SECOND) + 1)
    expected = Counter((job.job_key, (began + n * SECOND).isoformat()) for job in jobs for n in seconds)
    assert Counter((job_key, at) for job_key, at, _ in told["fires"]) == expected
    assert {verdict for *_, verdict in told["fires"]} == {"completed"}
