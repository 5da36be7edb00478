"""Throw away a million ended runs while eight clients claim and complete others (issue 6, DB-03).

    python -m benchmarks.prune [RUNS] [--seconds 10]

On a durable PostgreSQL that is started for it. Two reapers prune, each in a process of its own, as two hosts would; the
clients go on in rounds of so many seconds until nothing old is left. Exits 1 where a gate is missed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from datetime import timedelta

from benchmarks.backlog import make_history, make_holders, make_jobs, make_waiting
from benchmarks.claims import CLIENTS, Figures, now, shipped, together
from benchmarks.gauge import Report, durable_postgres, machine, percentile, sql, tidy

REAPERS = 2
WAITING = 200_000
MOST_MS = 200
LINES = """
INSERT INTO scheduler_runlog (run_id, attempt, logged_at, level, message, fields)
SELECT r.id, 1, r.finished_at, 'info', 'said ' || n, '{}'
FROM (SELECT id, finished_at FROM scheduler_run WHERE verdict IS NOT NULL ORDER BY scheduled_for LIMIT %s) r,
    generate_series(1, 2) n
"""


def prune(gone) -> None:
    """What the reaper does of it, until there is no more; say how many calls that took."""
    from django.conf import settings

    from scheduler.services.retention import drop_old_lines, drop_old_runs

    settings.CRONIQ_RUN_RETENTION_SECONDS = settings.CRONIQ_LOG_RETENTION_SECONDS = 86_400.0
    calls, idle = 0, 0
    while idle < 3:  # what is left may be what the other one has in hand
        is_idle = not drop_old_lines(now()) and not drop_old_runs(now())
        calls, idle = calls + 1, idle + 1 if is_idle else 0
    gone.put(calls)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    report = Report()
    with durable_postgres() as server:
        report.line(f"PostgreSQL {server.version}; {machine()}")
        make_jobs(now())
        old = now() - timedelta(days=1)
        make_history(options.runs, old)
        sql(LINES, [options.runs // 10])
        make_waiting(WAITING, now())
        holders = make_holders(CLIENTS, now())
        tidy("scheduler_run", "scheduler_queueentry", "scheduler_runlog")
        quiet = together(shipped(holders, 1), options.seconds)
        report.line(f"nothing thrown away: {quiet}")
        context = multiprocessing.get_context("fork")
        gone = context.SimpleQueue()
        from django.db import connections

        connections.close_all()
        reapers = [context.Process(target=prune, args=(gone,)) for _ in range(REAPERS)]
        began = time.perf_counter()
        for reaper in reapers:
            reaper.start()
        busy, rounds = Figures(), 0
        while any(reaper.is_alive() for reaper in reapers):
            one = together(shipped(holders, 1), options.seconds)
            if any(reaper.is_alive() for reaper in reapers):
                report.line(f"{time.perf_counter() - began:5.0f} s: {one}")
            busy.runs, busy.seconds, rounds = busy.runs + one.runs, busy.seconds + one.seconds, rounds + 1
            busy.claims += one.claims
            if sql("SELECT count(*) FROM (SELECT 1 FROM scheduler_queueentry LIMIT 100000) q")[0][0] < 100_000:
                make_waiting(WAITING, now(), due=timedelta(0), seed=f"round-{rounds}")
        took = time.perf_counter() - began
        calls = sum(gone.get() for _ in reapers)
        each = f"{took / options.runs * 1e3:.2f} ms each, {calls:,} calls"
        report.line(f"thrown away in {took:.0f} s ({each}), beside {busy.rate:,.0f} claims a second")
        report.gate("claim p99 while runs are thrown away, ms", percentile(busy.claims, 0.99), most=MOST_MS)
        (left,) = sql("SELECT count(*) FROM scheduler_run WHERE finished_at < %s", [old])[0]
        report.gate("old runs that are left", left, most=0)
        (deadlocks,) = sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0]
        report.gate("deadlocks", deadlocks, most=0)
        report.gate("reapers that failed", sum(1 for reaper in reapers if reaper.exitcode), most=0)
        (lost,) = sql(
            "SELECT count(*) FROM scheduler_run r WHERE verdict IS NULL "
            "AND NOT EXISTS (SELECT 1 FROM scheduler_queueentry q WHERE q.run_id = r.id)"
        )[0]
        (orphans,) = sql(
            "SELECT count(*) FROM scheduler_queueentry q "
            "WHERE NOT EXISTS (SELECT 1 FROM scheduler_run r WHERE r.id = q.run_id AND r.verdict IS NULL)"
        )[0]
        report.gate("unfinished runs without their entry, or entries without their run", lost + orphans, most=0)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
