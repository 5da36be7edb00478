"""Move a SQLite installation with a million runs to PostgreSQL, be killed on the way, go on, and compare.

    python -m benchmarks.move [--runs 1000000]

PostgreSQL is a durable one of its own. Exits 1 where a gate is missed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from benchmarks.claims import PRIORITIES, ROUTES, TENANTS, now
from benchmarks.gauge import Report, use_database
from benchmarks.sqlite_claims import WAITING, fill
from tests.support.postgres import DURABLE, private_postgres

ROOT = Path(__file__).resolve().parent.parent
MOST_SECONDS_A_MILLION = 300.0
MOST_MIB = 300.0


def begin_and_kill(source: str, target: str, at_runs: int) -> int:
    """Start a move and kill it once ``at_runs`` runs are on the other side; return how many there are then."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "move_to_postgres", "--to", target],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": source},
        stdout=subprocess.DEVNULL,
    )
    with psycopg.connect(target, autocommit=True) as other:
        while process.poll() is None:
            count = other.execute("SELECT count(*) FROM scheduler_run").fetchone()[0]
            if count >= at_runs:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        return other.execute("SELECT count(*) FROM scheduler_run").fetchone()[0]


def most_memory_mib() -> float:
    """The most that any child of this process had."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    options = parser.parse_args()
    report = Report()
    with (
        tempfile.TemporaryDirectory(prefix="croniq-bench-") as folder,
        private_postgres(reuse=False, settings=DURABLE) as server,
    ):
        source = f"sqlite:///{Path(folder) / 'bench.sqlite3'}"
        os.environ |= {"CRONIQ_DATA_DIR": folder}
        use_database(source)
        from benchmarks.backlog import make_jobs

        make_jobs(now(), TENANTS, ROUTES, PRIORITIES)
        fill(max(0, options.runs - WAITING))
        env = {**os.environ, "DATABASE_URL": server.url}
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, env=env, check=True)
        there = begin_and_kill(source, server.url, options.runs // 3)
        report.line(f"killed when {there:,} of {options.runs:,} runs were there")
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "manage.py", "move_to_postgres", "--to", server.url],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": source},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds = time.perf_counter() - began
        report.line(done.stdout.strip().splitlines()[-1])
        with psycopg.connect(server.url) as other:
            runs, waiting = other.execute(
                "SELECT (SELECT count(*) FROM scheduler_run), (SELECT count(*) FROM scheduler_queueentry)"
            ).fetchone()
        report.line(f"{runs:,} runs, {waiting:,} of them waiting; the rest and the comparison took {seconds:.0f} s")
        report.gate("runs that are there, of those that should be", runs / options.runs, least=1.0)
        report.gate(
            "seconds a million runs, most of them copied, all compared",
            seconds / options.runs * 1e6,
            most=MOST_SECONDS_A_MILLION,
        )
        report.gate("memory of the move, MiB", most_memory_mib(), most=MOST_MIB)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
