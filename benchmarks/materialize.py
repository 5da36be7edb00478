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
from datetime import UTC, datetime, timedelta
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
    jobs = Job.objects.bulk_create(
        [Job(job_key=f"bench:job-{n}", **common) for n in range(number)], batch_size=2000
    )
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


def pass_at(now: datetime) -> tuple[float, float, int, int]:
    """Seconds on the clock and on this process's core, triggers and runs of passes until all that is due is planned."""
    from scheduler.services.materialize import materialize

    begin, cpu, triggers, runs = time.perf_counter(), time.process_time(), 0, 0
    while True:
        summary = materialize(now)
        triggers, runs = triggers + summary.triggers, runs + summary.inserted
        if summary.is_done:
            return time.perf_counter() - begin, time.process_time() - cpu, triggers, runs


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
        took, cpu, triggers, runs = pass_at(NOW)
        print(f"cold: {triggers:,} triggers, {runs:,} runs in {took:.1f} s ({cpu:.1f} s of a core in this process)")
        total = total_cpu = 0.0
        planned, now = 0, NOW
        while now < NOW + timedelta(hours=1):
            now += timedelta(seconds=15)
            took, cpu, _, runs = pass_at(now)
            total, total_cpu, planned = total + took, total_cpu + cpu, planned + runs
        print(f"the hour after, a pass every 15 s: {planned:,} runs in {total:.1f} s, {total / 36:.2f} % of the time")
        print(f"  of which this process computed {total_cpu:.1f} s")
        ticks = [pass_at(now)[0] for _ in range(200)]
        print(f"a tick with nothing due: {statistics.median(ticks) * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
