"""RT-02, RT-03: the process that stores a failure dies after any of its statements. All of it is there, or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from runners.services.audit import SYSTEM
from scheduler.models import Attempt, DeadLetter, QueueEntry, Run, Slot
from scheduler.services.letters import replay_letter
from scheduler.services.release import reap_leases
from tests.factories import JobFactory, QueueEntryFactory, SlotFactory
from tests.support.database import database_url
from tests.support.races import together

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[3]
HOUR = timedelta(hours=1)
MOST_STATEMENTS = 40


def fail_all(entries: list[QueueEntry], now, folder: Path) -> list[int]:
    """Let a process say of each that it failed, killed after one statement more each time; return how they ended."""
    lines = [f"{entry.run_id} {entry.attempt} {entry.holder.runner.runner_id} {now.isoformat()}\n" for entry in entries]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.scheduler.conformance.dying"],
        cwd=ROOT,
        env={
            **os.environ,
            "DATABASE_URL": database_url(),
            "DJANGO_SETTINGS_MODULE": "croniq_site.settings",
            "CRONIQ_DATA_DIR": str(folder),
        },
        input="".join(lines),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    codes = [int(line) for line in ended.stdout.splitlines()]
    dead = codes.index(0)
    # It died after each of its statements, and was done once it had fewer than were needed to die.
    assert codes == [-signal.SIGKILL] * dead + [0] * (MOST_STATEMENTS - dead)
    assert dead > 5
    return codes


def claimed(now, **entry) -> list[QueueEntry]:
    """Forty runs of a limited job, each with its slot and somebody who runs it."""
    job = JobFactory(max_concurrent=100, max_retries=entry.get("max_attempts", 1) - 1, max_losses=0)
    entries = [QueueEntryFactory(job=job, claimed=True, **entry) for _ in range(MOST_STATEMENTS)]
    for number, one in enumerate(entries):
        SlotFactory(budget=f"job:{job.pk}", n=number, run=one.run)
    return entries


def test_between_death_and_letter_nobody_dies(now, tmp_path):
    entries = claimed(now, max_attempts=1, max_losses=0)
    codes = fail_all(entries, now, tmp_path)
    for entry, code in zip(entries, codes, strict=True):
        run, survived = Run.objects.get(pk=entry.run_id), code == 0
        assert (run.verdict, run.error) == (("dead", "boom") if survived else (None, ""))
        letters = list(DeadLetter.objects.filter(run=run).values_list("error", flat=True))
        assert letters == (["boom"] if survived else [])
        assert QueueEntry.objects.filter(pk=run.pk, state=QueueEntry.State.CLAIMED).exists() is not survived
        assert Slot.objects.filter(run=run).exists() is not survived
    # Whose process died has lost them by his lease: dead with a letter too, and told as what it was.
    assert reap_leases(now + HOUR).buried == codes.count(-signal.SIGKILL)
    assert set(Run.objects.values_list("verdict", flat=True)) == {"dead"}
    assert DeadLetter.objects.count() == MOST_STATEMENTS
    assert not QueueEntry.objects.exists()
    assert not Slot.objects.exists()
    letter = DeadLetter.objects.first()
    replays = together([partial(replay_letter, letter.pk, now + HOUR, SYSTEM)] * 5)
    assert len({replay.run_id for replay in replays}) == Run.objects.filter(kind="replay").count() == 1


def test_a_retry_is_stored_whole_or_not_at_all(now, tmp_path):
    entries = claimed(now, max_attempts=2)
    codes = fail_all(entries, now, tmp_path)
    for entry, code in zip(entries, codes, strict=True):
        entry.refresh_from_db()
        attempts = list(Attempt.objects.filter(run_id=entry.run_id).values_list("outcome", "error"))
        if code == 0:
            assert (entry.state, entry.attempt) == (QueueEntry.State.GATED, 1)
            assert entry.available_at > now
            assert attempts == [("failed", "boom")]
        else:
            assert (entry.state, entry.attempt) == (QueueEntry.State.CLAIMED, 1)
            assert attempts == []
        assert Slot.objects.filter(run_id=entry.run_id).exists() is (code != 0)
    assert reap_leases(now + HOUR).lost == codes.count(-signal.SIGKILL)
    assert set(QueueEntry.objects.values_list("attempt", flat=True)) == {1}
    assert Attempt.objects.count() == MOST_STATEMENTS
