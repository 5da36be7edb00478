"""Claim and complete on SQLite by one writer, as the server of a SQLite installation does it.

    python -m benchmarks.sqlite_claims [--history 3000000] [--seconds 4]

Exits 1 where a gate is missed.
"""

# ruff: noqa: S608 - our own texts
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from benchmarks.claims import PRIORITIES, ROUTES, TENANTS, now, shipped
from benchmarks.gauge import Report, percentile, sql, use_database

WAITING = 200_000
LEAST = 2_500
MOST_P99_MS = 50.0


def fill(history: int) -> None:
    """As `benchmarks.backlog`, in SQLite's words."""
    from django.db import connection, transaction

    from croniq_site.kernel.database import adapted

    jobs = [pk for (pk,) in sql("SELECT id FROM scheduler_job ORDER BY id")]
    base, at = now(), "strftime('%Y-%m-%d %H:%M:%f', julianday(%s) + n * %s)"
    new_id = "lower(printf('%012x', {start} + n) || '7' || hex(randomblob(9)) || '0')"
    numbers = "WITH RECURSIVE s(n) AS (VALUES(0) UNION ALL SELECT n + 1 FROM s WHERE n < %s) "
    job = f"({jobs[0]} + n % {len(jobs)})".replace("%", "%%")
    columns = "INSERT INTO scheduler_run (id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, reason, "
    with transaction.atomic(), connection.cursor() as cursor:
        if history:
            old = adapted(base - timedelta(days=90))
            cursor.execute(
                f"{columns} error, runner_id, verdict, claimed_at, finished_at, duration_ms) {numbers}"
                f"SELECT {new_id.format(start=0)}, {job}, 'scheduled', {at}, {at}, {at}, 1, '', '', 'old', "
                f"'completed', {at}, {at}, 5 FROM s",
                [history - 1, *([old, 80.0 / history] * 5)],
            )
        due = adapted(base - timedelta(hours=1))
        cursor.execute(
            f"{columns} error, runner_id) {numbers}"
            f"SELECT {new_id.format(start=10**12)}, {job}, 'triggered', {at}, {at}, {at}, 0, '', '', '' FROM s",
            [WAITING - 1, *([due, 1e-9] * 3)],
        )
        cursor.execute(
            "INSERT INTO scheduler_queueentry (run_id, job_id, lane_id, own_lane, state, available_at, attempt, "
            "max_attempts, losses, max_losses, lease_seconds, timeout_seconds, log_bytes) "
            "SELECT r.id, r.job_id, j.lane_id, 0, 0, r.scheduled_for, 0, 4, 0, 2, 60, 300, 0 "
            "FROM scheduler_run r JOIN scheduler_job j ON j.id = r.job_id WHERE r.verdict IS NULL ORDER BY r.id"
        )
    sql("ANALYZE")
    sql("PRAGMA wal_checkpoint(TRUNCATE)")


def measure(report: Report, history: int, seconds: float) -> None:
    from benchmarks.backlog import make_holders, make_jobs

    make_jobs(now(), TENANTS, ROUTES, PRIORITIES)
    holders = make_holders(1, now())
    fill(history)
    for k in (1, 10, 100):
        step, runs, claims, steps = shipped(holders, k)(0), 0, [], []
        used, began = time.process_time(), time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            at = time.perf_counter()
            done, took, _ = step()
            steps.append((time.perf_counter() - at) * 1e3)
            runs += done
            claims.append(took)
        used = time.process_time() - used
        name = f"SQLite, history {history:,}, k = {k}"
        report.line(
            f"{name}: {runs / passed:7,.0f} runs/s, {runs / used:7,.0f} a core second, claim p50 "
            f"{percentile(claims, 0.5):.2f} p99 {percentile(claims, 0.99):.1f} ms, both p99 "
            f"{percentile(steps, 0.99):.1f} ms"
        )
        report.gate(f"{name}: runs/s", runs / passed, least=LEAST)
        report.gate(f"{name}: claim p99 ms", percentile(claims, 0.99), most=MOST_P99_MS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=int, default=3_000_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="croniq-bench-") as folder:
        use_database(f"sqlite:///{Path(folder) / 'bench.sqlite3'}")
        measure(report, options.history, options.seconds)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
