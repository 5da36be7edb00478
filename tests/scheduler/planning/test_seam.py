"""The seam: two materializers that pass when they please and are killed and started anew leave no fire out."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from runners.models import Heartbeat
from scheduler.models import QueueEntry, Run
from tests.scheduler.planning.support import make_job, make_trigger
from tests.scheduler.planning.told_clock import ToldClock
from tests.support.database import database_url
from tests.support.polling import poll_until

ROOT = Path(__file__).resolve().parents[3]
MINUTE = timedelta(minutes=1)
HORIZON_MINUTES = 10


def somebody_passed(since: datetime) -> None:
    poll_until(lambda: Heartbeat.objects.filter(kind="materialize", tick_at__gte=since).exists(), 120, what="a pass")


@pytest.mark.realtime
@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(300)
def test_two_materializers_of_which_each_is_killed_once_make_120_runs_in_two_hours(now, settings, tmp_path):
    settings.CRONIQ_HORIZON_SECONDS = HORIZON_MINUTES * 60
    clock = ToldClock(tmp_path / "clock")
    clock.set(now)
    job = make_job(now)
    make_trigger(job, now, cron_expression="* * * * *")
    environment = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "croniq_site.settings",
        "CRONIQ_DATA_DIR": str(tmp_path),
        "CRONIQ_HORIZON": f"{HORIZON_MINUTES}m",
    }
    chance = Random(6)

    def started() -> subprocess.Popen:
        command = [sys.executable, "-m", "tests.scheduler.planning.told_clock", str(clock.file), str(chance.random())]
        return subprocess.Popen(command, cwd=ROOT, env=environment)

    processes = [started() for _ in range(2)]
    try:
        passed = Heartbeat.objects.filter(kind="materialize", tick_at__isnull=False)
        poll_until(lambda: passed.count() == 2, 120, what="both have passed")
        for minute in range(1, 121):
            clock.set(now + minute * MINUTE)
            if minute == 67:  # one dies in whatever it does; the other goes on
                processes[0].kill()
            if minute == 70:
                processes.append(started())
            if minute == 90:  # nobody passes while three minutes go by; a new one comes while there are plans still
                for process in processes[1:]:
                    process.kill()
                    process.wait()
                processes.append(started())
            if not 90 <= minute < 93:
                somebody_passed(since=clock.now() - chance.randrange(HORIZON_MINUTES // 2 - 1) * MINUTE)
        processes[-1].terminate()
        assert [process.wait(60) for process in processes] == [-9, -9, -9, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    made = Run.objects.filter(scheduled_for__lte=now + 120 * MINUTE).order_by("scheduled_for")
    assert list(made.values_list("scheduled_for", flat=True)) == [now + n * MINUTE for n in range(1, 121)]
    assert QueueEntry.objects.count() == Run.objects.count()
    assert not job.skipped_spans.exists()
