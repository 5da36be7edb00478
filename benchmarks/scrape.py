"""What a scrape of /metrics costs beside 2,000,000 ended runs, on the database of DATABASE_URL (an empty one).

    DATABASE_URL=… python -m benchmarks.scrape [RUNS] [JOBS]

Half of the jobs have cron triggers beyond the horizon, half 20 planned runs each; one in ten has failed 500 times in a
row; 5,000 runners. Prints the first scrape of a process and those after it, cold and warm, in milliseconds on the clock
and of this process's core. A scrape of over a second is said, and the exit code is 1.
"""

# ruff: noqa: T201, S608
from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from datetime import timedelta

SCRAPES = 20
MOST_SECONDS = 1.0
RUNNERS = 5_000
PLANNED = 20
FAILURES = 500


def fill(runs: int, jobs: int) -> None:
    from django.db import connection

    from croniq_site.kernel.clock import DatabaseClock
    from croniq_site.kernel.database import adapted, is_postgresql
    from runners.models import ApiClient, Runner, RunnerInstance
    from scheduler.models import Job, Tally, Trigger
    from scheduler.services.lanes import lane_for

    now = DatabaseClock().now()
    lane = lane_for("default", ["gpu"], [], 0)
    made = Job.objects.bulk_create(
        [Job(job_key=f"bench:job-{n}", lane=lane, created_at=now, updated_at=now) for n in range(jobs)], batch_size=500
    )
    Trigger.objects.bulk_create(
        [
            Trigger(
                job=job,
                kind="cron",
                cron_expression=f"{n % 60} {n % 24} 1 * *",
                cursor_at=now + timedelta(hours=1),
                next_materialize_at=now + timedelta(hours=1),
                created_at=now,
                updated_at=now,
            )
            for n, job in enumerate(made)
        ],
        batch_size=500,
    )
    client = ApiClient.objects.create(name="bench", scopes=["work:poll"], created_at=now)
    runners = Runner.objects.bulk_create(
        [
            Runner(runner_id=f"r{n}", client=client, capabilities=["gpu"], created_at=now, last_poll_at=now)
            for n in range(RUNNERS)
        ],
        batch_size=500,
    )
    RunnerInstance.objects.bulk_create(
        [RunnerInstance(runner=one, instance_id="i", first_seen_at=now, last_poll_at=now) for one in runners],
        batch_size=500,
    )
    Tally.objects.bulk_create([Tally(kind="failed", label="dead", job_id=job.pk, count=1) for job in made])
    new_id, at, ahead = (
        "lower(hex(randomblob(16)))",
        "datetime(%s, '-' || n || ' seconds')",
        "datetime(%s, '+' || n || ' minutes')",
    )
    numbers = "(WITH RECURSIVE s(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT n FROM s) s"
    if is_postgresql():
        new_id, numbers = "gen_random_uuid()", "generate_series(1, {}) AS s(n)"
        at, ahead = "%s::timestamptz - n * interval '1 s'", "%s::timestamptz + n * interval '1 min'"
    columns = "id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, reason, error, runner_id"
    with connection.cursor() as cursor:
        first, instant = made[0].pk, adapted(now)
        verdict = f"CASE WHEN (n - 1) %% {jobs} %% 10 = 0 AND n <= {FAILURES * jobs} THEN 'dead' ELSE 'completed' END"
        cursor.execute(
            f"INSERT INTO scheduler_run ({columns}, verdict, problem, finished_at, duration_ms) "
            f"SELECT {new_id}, {first} + (n - 1) %% {jobs}, 'scheduled', {at}, {at}, {at}, 1, '', '', 'r', v, "
            f"CASE v WHEN 'dead' THEN v END, {at}, 5 FROM (SELECT n, {verdict} AS v FROM {numbers.format(runs)}) r",
            [instant] * 4,
        )
        cursor.execute(
            f"INSERT INTO scheduler_run ({columns}) "
            f"SELECT {new_id}, j.id, 'scheduled', {ahead}, {ahead}, %s, 0, '', '', '' "
            f"FROM scheduler_job j, {numbers.format(PLANNED)} WHERE j.id %% 2 = 0",
            [instant] * 3,
        )
        cursor.execute(
            "INSERT INTO scheduler_queueentry (run_id, job_id, lane_id, own_lane, state, available_at, attempt, "
            "max_attempts, losses, max_losses, lease_seconds, timeout_seconds, log_bytes) "
            "SELECT id, job_id, %s, %s, 0, scheduled_for, 0, 4, 0, 2, 60, 300, 0 FROM scheduler_run "
            "WHERE verdict IS NULL",
            [lane.pk, False],
        )
        cursor.execute("VACUUM ANALYZE" if is_postgresql() else "ANALYZE")
        if not is_postgresql():
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # of one transaction as large as the database


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrape", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=int, default=2_000_000)
    parser.add_argument("jobs", nargs="?", type=int, default=200)
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from croniq_site.kernel.clock import DatabaseClock
    from scheduler.metrics.exposition import exposition
    from scheduler.models import Job

    call_command("migrate", verbosity=0)
    if Job.objects.exists():
        sys.exit("DATABASE_URL names a database with jobs in it; the benchmark wants an empty one.")
    fill(arguments.runs, arguments.jobs)
    clocks, cores, size = [], [], 0
    for _ in range(SCRAPES + 1):
        began, core = time.perf_counter(), time.process_time()
        size = exposition(DatabaseClock().now(), "bench").count(b"\n")
        clocks.append(time.perf_counter() - began)
        cores.append(time.process_time() - core)
    first, rest = clocks[0], sorted(clocks[1:])
    print(
        f"{connection.display_name}: {arguments.runs:,} runs, {arguments.jobs:,} jobs, {size:,} lines; "
        f"first scrape {first * 1000:.0f} ms, "
        f"then median {statistics.median(rest) * 1000:.0f} ms, longest {rest[-1] * 1000:.0f} ms; "
        f"of this process's core {statistics.median(cores[1:]) * 1000:.0f} ms"
    )
    if max(clocks) > MOST_SECONDS:
        sys.exit(f"A scrape took over {MOST_SECONDS:g} s.")


if __name__ == "__main__":
    main()
