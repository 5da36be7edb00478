"""How soon a run starts: the real `serve`, `materialize` and `reap`, runners that wait, and a clock.

    python -m benchmarks.latency [SECONDS of the schedule, 250]

Trigger to start in a waiting runner on PostgreSQL and on SQLite, how late a schedule of one second starts, and what
2,000 waiting polls cost and wait while the API is under load. Exits 1 if a gate of issue 5 is missed.
"""

# ruff: noqa: T201, S311
from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import uvloop

from benchmarks.bed import ROOT, Bed, bed, machine, memory_mib, percentile

SAMPLES = 150
SQLITE = "--sqlite"
SCHEDULE_SECONDS = 250
WAITING = 2_000
LOAD_SECONDS = 20.0
CYCLE_SECONDS = 32.0
"""Longer than a poll is held: each of them ends and begins again within it."""
COUNTED_AFTER_SECONDS = 12.0
"""A session that rests tells PostgreSQL what it did ten seconds late."""
STATEMENTS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


class Client:
    """One keep-alive connection. As many requests as there are, one after the other."""

    def __init__(self, url: str, key: str) -> None:
        where = urlsplit(url)
        self._where = where.hostname, where.port
        self._head = f"host: {where.netloc}\r\nauthorization: ApiKey {key}\r\ncontent-type: application/json\r\n"

    async def open(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection(*self._where)
        return self

    async def post(self, path: str, body: Any) -> dict[str, Any]:
        text = json.dumps(body)
        self._writer.write(f"POST {path} HTTP/1.1\r\n{self._head}content-length: {len(text)}\r\n\r\n{text}".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{path}: {head[:60]!r} {answer[:300]!r}")
        return json.loads(answer)

    def close(self) -> None:
        self._writer.close()


class Runner:
    """Polls, notes when each run came, and says that it is done."""

    def __init__(self, client: Client, name: str, capabilities: tuple[str, ...] = ()) -> None:
        self._client = client
        self._body = {"runner_id": name, "instance_id": "i", "capabilities": capabilities, "max_inflight": 1}
        self.came: dict[str, float] = {}
        self.late: list[tuple[str, float]] = []

    async def work(self) -> None:
        while True:
            answer = await self._client.post("/v1/work/poll", {**self._body, "inflight": []})
            tick, now = time.perf_counter(), datetime.now(UTC)  # noqa: TID251 - it measures the clock
            for run in answer["work"]:
                self.came[run["execution_id"]] = tick
                due = datetime.fromisoformat(run["scheduled_for"])
                self.late.append((run["scheduled_for"], (now - due).total_seconds() * 1e3))
                word = {"runner_id": self._body["runner_id"], "execution_id": run["execution_id"]}
                await self._client.post("/v1/work/ack", {**word, "status": "success", "attempt": run["attempt"]})


async def triggers(client: Client, job_key: str, runners: list[Runner], samples: int) -> list[float]:
    """Trigger one run after the other; return how many ms after the call began each came to a runner."""
    asked: dict[str, float] = {}
    for _ in range(samples):
        await asyncio.sleep(random.uniform(0.04, 0.12))
        began = time.perf_counter()
        made = await client.post("/v1/trigger", {"job_key": job_key})
        asked[made["execution_id"]] = began
    await asyncio.sleep(1.0)
    came = {run_id: tick for runner in runners for run_id, tick in runner.came.items()}
    return [(came[run_id] - began) * 1e3 for run_id, began in asked.items() if run_id in came]


@contextlib.contextmanager
def everything(made: Bed) -> Iterator[tuple[int, str]]:
    """Run the server and both workers."""
    with (
        made.serve() as (pid, url),
        made.running("manage.py", "materialize"),
        made.running("manage.py", "reap"),
    ):
        yield pid, url


async def idle_trigger(made: Bed, url: str) -> list[float]:
    producer = await Client(url, made.key).open()
    runner = Runner(await Client(url, made.key).open(), "idle")
    task = asyncio.create_task(runner.work())
    await triggers(producer, made.job_keys[0], [runner], 10)
    found = await triggers(producer, made.job_keys[0], [runner], SAMPLES)
    task.cancel()
    return found


async def schedule(made: Bed, url: str, seconds: float) -> tuple[list[float], int]:
    """Return how late each fire of a schedule of one second came, in ms, and how many were missed."""
    producer = await Client(url, made.key).open()
    runner = Runner(await Client(url, made.key).open(), "second", ("second",))
    task = asyncio.create_task(runner.work())
    body = {"job_key": "bench:second", "schedule": "1s", "capabilities": ["second"]}
    await producer.post("/v1/jobs/register", body)
    await asyncio.sleep(3.0)
    runner.late.clear()
    await asyncio.sleep(seconds)
    task.cancel()
    at = sorted({datetime.fromisoformat(text) for text, _ in runner.late})
    expected = round((at[-1] - at[0]).total_seconds()) + 1 if at else round(seconds)
    return [late for _, late in runner.late], expected - len(at)


def seed_crowd() -> tuple[str, str]:
    """Make a tenant whose runners wait: a job of it and a key."""
    from croniq_site.kernel.clock import DatabaseClock
    from runners.domain.scopes import RUNNER_SCOPES
    from runners.services.clients import create_client, issue_key
    from scheduler.models import Job
    from scheduler.services.lanes import lane_for

    now = DatabaseClock().now()
    # Of their own capability: the load's key sees every tenant.
    lane = lane_for("crowd", ["crowd"], [], 0)
    job = Job.objects.create(
        job_key="bench:crowd",
        tenant="crowd",
        require=["crowd"],
        lane=lane,
        max_queue_depth=1_000_000,
        created_at=now,
        updated_at=now,
    )
    return job.job_key, issue_key(create_client("crowd", RUNNER_SCOPES, now, tenant="crowd"), now)


def commit(job_key: str) -> tuple[str, float]:
    """Make a run from this process, as another server or a worker does; return it and when that was committed."""
    from croniq_site.kernel.clock import DatabaseClock
    from scheduler.services.trigger_runs import trigger_run

    run_id = trigger_run(job_key, DatabaseClock().now()).run_id
    return str(run_id), time.perf_counter()


async def crowd(made: Bed, pid: int, url: str, job_key: str, key: str) -> dict[str, float]:
    """Let 2,000 runners wait; wake one at a time while others use the API; then leave them alone."""
    runners = [Runner(await Client(url, key).open(), f"crowd-{n}", ("crowd",)) for n in range(WAITING)]
    tasks = [asyncio.create_task(runner.work()) for runner in runners]
    producer = await Client(url, made.key).open()
    ask = asyncio.to_thread  # Django does not speak to a database in an event loop's thread
    arrived = "SELECT count(*) FROM runners_runner WHERE runner_id LIKE 'crowd-%'"
    began = time.perf_counter()
    while await ask(made.scalar, arrived) < WAITING:
        await asyncio.sleep(0.1)
    arriving = time.perf_counter() - began
    await ask(made.fill, 80_000)
    where = urlsplit(url)
    words = [where.hostname, where.port, made.key, 32, 1, LOAD_SECONDS, "one"]
    load = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load", *map(str, words)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    await asyncio.sleep(2.0)
    gc.collect()
    gc.disable()  # a look at all these runners here is a pause that is not the server's
    await ask(commit, job_key)  # connects
    await asyncio.sleep(1.0)
    committed = []
    for _ in range(SAMPLES):
        await asyncio.sleep(random.uniform(0.02, 0.08))
        committed.append(await ask(commit, job_key))
    by_api = await triggers(producer, job_key, runners, SAMPLES // 3)
    gc.enable()
    is_loaded = load.poll() is None
    memory = memory_mib(pid)
    await ask(load.wait)
    came = {run_id: tick for runner in runners for run_id, tick in runner.came.items()}
    wakes = [(came[run_id] - at) * 1e3 for run_id, at in committed if run_id in came]
    await asyncio.sleep(COUNTED_AFTER_SECONDS)
    before = await ask(made.scalar, STATEMENTS)
    await asyncio.sleep(CYCLE_SECONDS)
    statements = (await ask(made.scalar, STATEMENTS) - before) / CYCLE_SECONDS
    for task in tasks:
        task.cancel()
    return {
        "arriving": arriving,
        "p50": percentile(wakes, 0.5),
        "p99": percentile(wakes, 0.99),
        "lost": SAMPLES - len(wakes) if is_loaded else SAMPLES,
        "api": percentile(by_api, 0.5),
        "memory": memory,
        "statements": statements,
    }


class Judge:
    def __init__(self) -> None:
        self.missed = 0

    def __call__(self, what: str, value: float, gate: float, unit: str = " ms") -> None:
        is_missed = not value <= gate
        self.missed += is_missed
        print(f"  {what}: {value:.1f}{unit} (gate {gate:g}){'  MISSED' if is_missed else ''}", flush=True)

    def triggers(self, found: list[float], p50: float, p99: float) -> None:
        self("p50", percentile(found, 0.5), p50)
        self("p99", percentile(found, 0.99), p99)
        self("lost", SAMPLES - len(found), 0, "")


def on_postgresql(judge: Judge, seconds: float) -> None:
    with bed() as made, everything(made) as (pid, url):
        print("trigger to start in a waiting runner, PostgreSQL", flush=True)
        judge.triggers(uvloop.run(idle_trigger(made, url)), 6, 20)
        print(f"lateness of a schedule of 1 s over {seconds:g} s", flush=True)
        late, gaps = uvloop.run(schedule(made, url, seconds))
        judge("p50", percentile(late, 0.5), 10)
        judge("p99", percentile(late, 0.99), 40)
        judge("missed fires", gaps, 0, "")
        print(f"  latest: {max(late, default=0):.1f} ms of {len(late)}")
        print(f"{WAITING} waiting polls under load", flush=True)
        found = uvloop.run(crowd(made, pid, url, *seed_crowd()))
        judge("wake p99", found["p99"], 20)
        judge("lost", found["lost"], 0, "")
        print(f"  wake p50: {found['p50']:.1f} ms; triggered over the API meanwhile: p50 {found['api']:.1f} ms")
        print(f"  the first arrival of all of them: {found['arriving']:.1f} s")
        judge("memory of the server", found["memory"], 250, " MiB")
        judge("transactions while each poll ends and begins again", found["statements"], 10, "/s")


def on_sqlite(judge: Judge) -> None:
    with bed("sqlite") as made, everything(made) as (_, url):
        print("trigger to start in a waiting runner, SQLite", flush=True)
        judge.triggers(uvloop.run(idle_trigger(made, url)), 35, 80)


def main() -> int:
    judge = Judge()
    if sys.argv[1:] == [SQLITE]:  # a process of its own: Django knows one database for good
        on_sqlite(judge)
        return int(judge.missed > 0)
    print(machine())
    on_postgresql(judge, float(sys.argv[1]) if len(sys.argv) > 1 else SCHEDULE_SECONDS)
    sqlite = subprocess.run([sys.executable, "-m", "benchmarks.latency", SQLITE], cwd=ROOT, check=False)
    print(machine())
    return int(judge.missed > 0 or sqlite.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
