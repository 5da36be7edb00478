"""The materializer at size: 100,000 triggers, an hour ahead, on a PostgreSQL that is started for it.

    python -m benchmarks.materialize [TRIGGERS]

Half are cron (40 expressions in 3 zones), half intervals of 5 minutes to a day. Prints how long the first pass takes,
which share of a core the passes of the following simulated hour take, and what a tick costs when nothing is due.
"""

# ruff: noqa: T201, S311
from __future__ import annotations

import os
import random
import statistics
import sys
import time
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from tests.support.postgres import private_postgres

NOW = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)


def fill(number: int) -> None:
    from benchmarks.schedules import crontab_lines
    from scheduler.models import Job, Trigger
    from scheduler.services.lanes import lane_for

    pick = random.Random(5)
    lane = lane_for("default", [], [], 0)
    distinct = [
        (line, ("UTC", "Europe/Berlin", "America/New_York")[k % 3]) for k, line in enumerate(crontab_lines(120))
    ]
    common = {"tenant": "default", "lane": lane, "created_at": NOW, "updated_at": NOW}
    jobs = Job.objects.bulk_create([Job(job_key=f"bench:job-{n}", **common) for n in range(number)], batch_size=2000)
    triggers = []
    for n, job in enumerate(jobs):
        columns: dict[str, object]
        if n % 2:
            line, zone = pick.choice(distinct)
            columns = {"kind": "cron", "cron_expression": line, "timezone": zone}
        else:
            every = timedelta(minutes=pick.choice([5, 10, 15, 30, 60, 360, 1440]))
            columns = {"kind": "interval", "every": every, "anchor_at": NOW - every * pick.random()}
        triggers.append(
            Trigger(
                id=uuid4(), job=job, cursor_at=NOW, next_materialize_at=NOW, created_at=NOW, updated_at=NOW, **columns
            )
        )
    Trigger.objects.bulk_create(triggers, batch_size=2000)


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, on this process's core and on that of the server's process for this connection."""

    clock: float = 0.0
    here: float = 0.0
    server: float = 0.0
    triggers: int = 0
    runs: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.triggers:,} triggers, {self.runs:,} runs in {self.clock:.1f} s; "
            f"of a core {self.here:.1f} s here and {self.server:.1f} s in PostgreSQL"
        )


def core_seconds_of(pid: int) -> float:
    """Seconds of a core that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pass_at(now: datetime, server_pid: int) -> Cost:
    """What passes cost until all that is due is planned."""
    from scheduler.services.materialize import materialize

    clock, here, server, triggers, runs = time.perf_counter(), time.process_time(), core_seconds_of(server_pid), 0, 0
    while True:
        summary = materialize(now)
        triggers, runs = triggers + summary.triggers, runs + summary.inserted
        if summary.is_done:
            server = core_seconds_of(server_pid) - server
            return Cost(time.perf_counter() - clock, time.process_time() - here, server, triggers, runs)


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with private_postgres(reuse=False) as server:
        os.environ["DATABASE_URL"] = server.url
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection

        call_command("migrate", verbosity=0)
        fill(number)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]
        print(f"cold: {pass_at(NOW, pid)}")
        steady, now = Cost(), NOW
        while now < NOW + timedelta(hours=1):
            now += timedelta(seconds=15)
            steady += pass_at(now, pid)
        share = (steady.here + steady.server) / 36
        print(f"the hour after, a pass every 15 s: {steady}: {share:.2f} % of a core")
        ticks = [pass_at(now, pid).clock for _ in range(200)]
        print(f"a tick with nothing due: {statistics.median(ticks) * 1e3:.2f} ms (the fastest {min(ticks) * 1e3:.2f})")


if __name__ == "__main__":
    main()
