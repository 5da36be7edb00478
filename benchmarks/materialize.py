"""The materializer at size: 100,000 triggers, an hour ahead, on a PostgreSQL that is started for it.

    python -m benchmarks.materialize [TRIGGERS] [--cronsim FOLDER]

Half are cron (40 expressions in 3 zones), half intervals of 5 minutes to a day. Prints what the first pass costs, which
share of a core the passes of the following simulated hour take, what a tick costs when nothing is due, and how the
evaluation of the cron triggers compares with cronsim (`pip install --target FOLDER cronsim`). A figure that misses its
gate is said, and the exit code is 1.

Seconds of a core, of this process and of the server's, are what is judged: other load on the machine lengthens the
seconds on the clock.
"""

# ruff: noqa: T201, S311
from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import statistics
import sys
import time
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import uuid4

from tests.support.postgres import DURABLE, private_postgres

NOW = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
TICKS = 500
SAMPLE = 3000

COLD_SECONDS = 10.0
STEADY_PERCENT = 1.0
TICK_MILLISECONDS = 1.0
TIMES_CRONSIM = 10.0


def fill(number: int) -> None:
    from benchmarks.schedules import crontab_lines
    from scheduler.models import Job, Trigger
    from scheduler.services.lanes import lane_for

    pick = random.Random(5)
    lane = lane_for("default", [], [], 0)
    lines = crontab_lines(40)
    common = {"tenant": "default", "lane": lane, "created_at": NOW, "updated_at": NOW}
    jobs = Job.objects.bulk_create([Job(job_key=f"bench:job-{n}", **common) for n in range(number)], batch_size=2000)
    triggers = []
    for n, job in enumerate(jobs):
        columns: dict[str, object]
        if n % 2:
            columns = {"kind": "cron", "cron_expression": pick.choice(lines), "timezone": pick.choice(ZONES)}
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

    @property
    def core(self) -> float:
        return self.here + self.server

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.triggers:,} triggers, {self.runs:,} runs in {self.clock:.1f} s; of a core {self.core:.1f} s: "
            f"{self.here:.1f} here and {self.server:.1f} in PostgreSQL"
        )


def core_seconds_of(pid: int) -> float:
    """Seconds of a core that a process has used (Linux), to the nanosecond that the scheduler counts."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


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


def cold_by(processes: int) -> float:
    """Seconds on the clock in which so many materializers together plan all of it, from the beginning."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE scheduler_queueentry, scheduler_run CASCADE")
        cursor.execute("UPDATE scheduler_trigger SET cursor_at = %s, next_materialize_at = %s", [NOW, NOW])
        cursor.execute("VACUUM ANALYZE scheduler_trigger")
    connection.close()  # before the fork: no two processes may share it
    context = multiprocessing.get_context("fork")
    start = context.Barrier(processes + 1)
    others = [context.Process(target=_plan_all, args=(start,)) for _ in range(processes)]
    for other in others:
        other.start()
    start.wait()
    clock = time.perf_counter()
    for other in others:
        other.join()
    if any(other.exitcode for other in others):
        raise AssertionError("a materializer failed")
    return time.perf_counter() - clock


def _plan_all(start: Barrier) -> None:
    from django.db import connection

    from scheduler.services.materialize import materialize

    connection.ensure_connection()
    start.wait()
    while not materialize(NOW).is_done:
        pass


def times_cronsim() -> tuple[float, float]:
    """Microseconds of a core for the fires of an hour of a cron trigger: ours, over all of them, and cronsim's."""
    from cronsim import CronSim

    from calendars.domain.zones import load_zone
    from scheduler.domain.occurrences import to_micro
    from scheduler.domain.window import PlainCron
    from scheduler.models import Trigger

    asked = list(Trigger.objects.filter(kind="cron").values_list("cron_expression", "timezone"))
    begin, end = to_micro(NOW), to_micro(NOW + HOUR)
    clock = time.process_time()
    found = [PlainCron(line, zone).instants(begin, end, 1000) for line, zone in asked]
    ours = (time.process_time() - clock) / len(asked)
    local = {zone: NOW.astimezone(load_zone(zone).info) for zone in ZONES}
    clock, theirs = time.process_time(), []
    for line, zone in asked[:SAMPLE]:
        instants = []
        for at in CronSim(line, local[zone]):
            if at > NOW + HOUR:
                break
            instants.append(to_micro(at))
        theirs.append(instants)
    sim = (time.process_time() - clock) / len(theirs)
    if [list(instants) for instants in found[: len(theirs)]] != theirs:
        raise AssertionError("cronsim says something else")
    return ours * 1e6, sim * 1e6


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("triggers", nargs="?", type=int, default=100_000)
    options.add_argument("--cronsim", metavar="FOLDER", default="")
    given = options.parse_args()
    sys.path += [given.cronsim] if given.cronsim else []
    try:
        import cronsim  # noqa: F401
    except ImportError:
        print("cronsim is needed: pip install --target FOLDER cronsim, then --cronsim FOLDER")
        return 2
    with private_postgres(reuse=False, settings=DURABLE) as server:
        os.environ["DATABASE_URL"] = server.url
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
        import django

        django.setup()
        return measure(given.triggers)


def measure(number: int) -> int:
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    fill(number)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    print(f"{number:,} triggers; the machine's load is {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    cold = pass_at(NOW, pid)
    print(f"cold: {cold}")
    steady, now = Cost(), NOW
    while now < NOW + HOUR:
        now += timedelta(seconds=5)
        steady += pass_at(now, pid)
    share = steady.core / 36
    print(f"steady, an hour of passes every 5 s: {steady}: {share:.2f} % of a core")
    ticks = [pass_at(now, pid) for _ in range(TICKS)]
    tick = sum(one.core for one in ticks) / TICKS * 1e3
    clock = statistics.median(one.clock for one in ticks) * 1e3
    print(f"a tick with nothing due: {tick:.2f} ms of a core; on the clock {clock:.2f} ms (median of {TICKS})")
    together = cold_by(2)
    print(f"cold, two materializers at once: {together:.1f} s on the clock")
    ours, sim = times_cronsim()
    print(f"the hour of a cron trigger: {ours:.2f} µs, cronsim {sim:.0f} µs: {sim / ours:.0f} times")
    print(f"the machine's load is {os.getloadavg()[0]:.1f}")
    missed = [
        f"{what}: {figure:.2f}, the gate is {gate:g}"
        for what, figure, gate, is_met in [
            ("cold, seconds of a core", cold.core, COLD_SECONDS, cold.core <= COLD_SECONDS),
            ("steady, percent of a core", share, STEADY_PERCENT, share <= STEADY_PERCENT),
            ("idle tick, ms of a core", tick, TICK_MILLISECONDS, tick <= TICK_MILLISECONDS),
            ("times cronsim", sim / ours, TIMES_CRONSIM, sim / ours >= TIMES_CRONSIM),
        ]
        if not is_met
    ]
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
