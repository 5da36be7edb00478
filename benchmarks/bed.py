"""What the measurements over HTTP stand on: a durable PostgreSQL of their own, the real commands, cores by /proc."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.postgres import DURABLE, private_postgres

ROOT = Path(__file__).resolve().parent.parent
JOBS = 50
START_SECONDS = 60

FILL = """
WITH made AS (
    INSERT INTO scheduler_run (id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, reason, error,
        runner_id)
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
        || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid,
        jobs[1 + n %% array_length(jobs, 1)], 'triggered', clock_timestamp(), clock_timestamp(), clock_timestamp(), 0,
        '', '', ''
    FROM generate_series(1, %s) AS n, (SELECT array_agg(id) AS jobs FROM scheduler_job) j
    RETURNING id, job_id, scheduled_for
)
INSERT INTO scheduler_queueentry (run_id, job_id, lane_id, own_lane, state, available_at, attempt, max_attempts, losses,
    max_losses, lease_seconds, timeout_seconds, log_bytes)
SELECT m.id, m.job_id, j.lane_id, false, 0, m.scheduled_for, 0, 4, 0, 2, 60, 300, 0
FROM made m JOIN scheduler_job j ON j.id = m.job_id
"""


@dataclass
class Bed:
    """A migrated database and what runs on it. ``key`` opens everything that a runner and a producer do."""

    url: str
    postmaster: int | None
    key: str = ""
    job_keys: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def fill(self, runs: int) -> None:
        """Make ``runs`` due runs (PostgreSQL)."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(FILL, [runs])
            cursor.execute("VACUUM ANALYZE scheduler_queueentry, scheduler_run")

    def scalar(self, sql: str) -> int:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()[0]

    def database_seconds(self) -> float:
        """Seconds of a core that PostgreSQL has used, its ended processes among them."""
        return 0.0 if self.postmaster is None else core_seconds(self.postmaster)

    @contextlib.contextmanager
    def running(self, *arguments: str, says: str = "") -> Iterator[tuple[int, str]]:
        """Run a command until the block ends; yield its process and, once it says ``says``, what follows that."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE if says else subprocess.DEVNULL,
            text=True,
        )
        try:
            yield process.pid, _heard(process, says) if says else ""
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def serve(self, *arguments: str) -> contextlib.AbstractContextManager[tuple[int, str]]:
        """Run `manage.py serve` with its defaults; yield its process and its address."""
        return self.running("manage.py", "serve", "--port", "0", *arguments, says="Croniq serves ")


def _heard(process: subprocess.Popen[str], says: str) -> str:
    late = threading.Timer(START_SECONDS, process.kill)
    late.start()
    try:
        for line in process.stdout or ():
            if says in line:
                return line.partition(says)[2].strip()
    finally:
        late.cancel()
    raise RuntimeError(f"the process ended (or took {START_SECONDS} s) before it said {says!r}")


@contextlib.contextmanager
def bed(vendor: str = "postgresql") -> Iterator[Bed]:
    """Start the database, migrate it, make the jobs and a key. This process speaks to it through Django."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="croniq-bench-"))
        if vendor == "postgresql":
            server = stack.enter_context(private_postgres(reuse=False, settings=DURABLE))
            made = Bed(server.url, _postmaster_of(server.url))
        else:
            made = Bed(f"sqlite:///{folder}/croniq.sqlite3", None)
        made.environment = {"DATABASE_URL": made.url, "CRONIQ_DATA_DIR": folder, "CRONIQ_HTTPS": "0"}
        os.environ |= made.environment
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
        seed(made)
        yield made
        from django.db import connections

        connections.close_all()


def _postmaster_of(url: str) -> int:
    directory = Path(url.partition("host=")[2])
    return int((directory / "data" / "postmaster.pid").read_text().split()[0])


def seed(made: Bed) -> None:
    """Migrate the database that the environment names; make the jobs and the key."""
    import django

    django.setup()
    from django.core.management import call_command

    from croniq_site.kernel.clock import DatabaseClock
    from runners.services.clients import create_client, issue_key
    from scheduler.models import Job
    from scheduler.services.lanes import lane_for

    call_command("migrate", verbosity=0)
    now = DatabaseClock().now()
    lane = lane_for("default", [], [], 0)
    made.job_keys = [f"bench:job-{n}" for n in range(JOBS)]
    Job.objects.bulk_create(
        Job(
            job_key=key,
            tenant="default",
            lane=lane,
            metadata={"args": [1, 2, 3], "kwargs": {"x": 1}},
            max_queue_depth=1_000_000,
            created_at=now,
            updated_at=now,
        )
        for key in made.job_keys
    )
    made.key = issue_key(create_client("bench", ["admin"], now), now)


def core_seconds(pid: int) -> float:
    """Seconds of a core that a process, its children and what they have waited for used (Linux)."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
                used[int(entry)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    wanted, total = [pid], 0.0
    while wanted:
        one = wanted.pop()
        total += used.get(one, 0.0)
        wanted += children.get(one, [])
    return total


def memory_mib(pid: int) -> float:
    """Proportional memory of a process, in MiB (Linux)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no Pss")


def machine() -> str:
    """One line on where this was measured, and how busy it was: the figures mean little without."""
    model = "unknown"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}, load {load}"


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")
