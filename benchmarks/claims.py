"""Claim and complete in the database: our services as shipped, beside the prototype's bare SQL in the same run.

    python -m benchmarks.claims [--history 10000000] [--seconds 4] [--only rates,fair,head,future,snapshot]

Eight client processes on a durable PostgreSQL that is started for it. Exits 1 where a gate is missed. SQLite has
`benchmarks.sqlite_claims`.
"""

# ruff: noqa: S608, S311 - our own texts; chance is for spreading load
from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.backlog import PRIORITIES, ROUTES, TENANTS, make_history, make_holders, make_jobs, make_waiting
from benchmarks.gauge import (
    Report,
    core_seconds_of_postgres,
    durable_postgres,
    machine,
    percentile,
    sql,
    tidy,
)

CLIENTS = 8
WAITING = 600_000
GATES = {1: 2_500, 10: 12_000, 100: 20_000}
CAPABILITIES = [f"capability-{n}" for n in range(ROUTES)]
"""What every runner here can do: all of it, so that every lane is looked into."""


@dataclass
class Figures:
    """What clients did together: runs done, seconds on the clock and of cores, and how long each claim took."""

    runs: int = 0
    seconds: float = 0.0
    client: float = 0.0
    server: float = 0.0
    claims: list[float] = field(default_factory=list)
    by_lane: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.runs / self.seconds

    @property
    def per_core_second(self) -> float:
        return self.runs / (self.client + self.server)

    def __str__(self) -> str:
        return (
            f"{self.rate:8,.0f} runs/s, {self.per_core_second:8,.0f} a core second "
            f"(µs of a run: {self.client / max(self.runs, 1) * 1e6:4.0f} here, "
            f"{self.server / max(self.runs, 1) * 1e6:4.0f} PostgreSQL), claim p50 {percentile(self.claims, 0.5):.2f} "
            f"p99 {percentile(self.claims, 0.99):.1f} ms"
        )


Step = Callable[[], tuple[int, float, dict[int, int]]]
"""Claim and complete once; return how many runs, the claim's milliseconds, and how many of them from which lane."""


def together(make_step: Callable[[int], Step], seconds: float, clients: int = CLIENTS) -> Figures:
    """Let ``clients`` processes repeat their step for so long; ``make_step(n)`` is called in the process."""
    from django.db import connections

    connections.close_all()
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(clients + 1), context.SimpleQueue()
    processes = [
        context.Process(target=_client, args=(make_step, n, seconds, barrier, answers)) for n in range(clients)
    ]
    for process in processes:
        process.start()
    total = Figures(seconds=seconds)
    sql("SELECT 1")
    barrier.wait()
    server = core_seconds_of_postgres()
    for _ in processes:
        runs, client, claims, by_lane = answers.get()
        total.runs += runs
        total.client += client
        total.claims += claims
        for lane_id, number in by_lane.items():
            total.by_lane[lane_id] = total.by_lane.get(lane_id, 0) + number
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit("a client failed")
    total.server = core_seconds_of_postgres() - server
    return total


def _client(make_step: Callable[[int], Step], number: int, seconds: float, barrier, answers) -> None:
    step, runs, claims, lanes = make_step(number), 0, [], {}
    for _ in range(6):  # connect, prepare, plan
        step()
    barrier.wait()
    used, end = time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        done, milliseconds, by_lane = step()
        runs += done
        claims.append(milliseconds)
        for lane_id, count in by_lane.items():
            lanes[lane_id] = lanes.get(lane_id, 0) + count
        if not done:
            break
    answers.put((runs, time.process_time() - used, claims, lanes))


def shipped(holders: list[tuple[str, int]], k: int, *, completes: bool = True) -> Callable[[int], Step]:
    """A server's own way: lanes from its directory, tenants in its rotation, claim_batch, finish."""

    def make(number: int) -> Step:
        from scheduler.domain.work import Ack, AckAnswer, AckStatus, Ask
        from scheduler.queries.lanes import LaneDirectory, Rotation
        from scheduler.services.claim import claim_batch
        from scheduler.services.finish import finish

        runner_id, holder_id = holders[number]
        directory, rotation = LaneDirectory(), Rotation()
        directory.refresh()
        lanes = directory.lanes_for(CAPABILITIES, runner_id, None)

        def step() -> tuple[int, float, dict[int, int]]:
            turns = rotation.in_turn(lanes, directory)
            began = time.perf_counter()
            (outcome,) = claim_batch(now(), [Ask(holder_id, k)], turns)
            took = (time.perf_counter() - began) * 1e3
            by_lane: dict[int, int] = {}
            for one in outcome:
                by_lane[one.lane_id] = by_lane.get(one.lane_id, 0) + 1
            rotation.note(turns, frozenset(by_lane), directory)
            if completes and outcome:
                acks = [Ack(one.run_id, one.attempt, runner_id, AckStatus.SUCCESS, duration_ms=5) for one in outcome]
                if any(answer is not AckAnswer.ACCEPTED for answer in finish(acks, now())):
                    raise RuntimeError("a claim was lost")
            return len(outcome), took, by_lane

        return step

    return make


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - a client of the services, as the edge's clock


PROTOTYPE = Path(__file__).with_name("prototype.sql")


def make_prototype(waiting: int, history: int) -> None:
    text = PROTOTYPE.read_text()
    for statement in re.sub(r"(?m)--.*$", "", text[: text.index("-- MATERIALIZE")]).split(";"):
        if statement.strip():
            sql(statement)
    sql(
        "INSERT INTO r_lane (tenant_id, route_id, priority) SELECT t, r, p FROM "
        f"generate_series(0, {PRIORITIES - 1}) p, generate_series(0, {TENANTS - 1}) t, "
        f"generate_series(0, {ROUTES - 1}) r"
    )
    sql("SET synchronous_commit = off")
    sql(
        "INSERT INTO r_run (job_id, scheduled_at, state, attempt, started_at, finished_at) "
        "SELECT g % 100000, now() - interval '90 days' + (g / 100000) * interval '1 min', 2, 1, now(), now() "
        f"FROM generate_series(1, {history}) g ORDER BY g % 100000, g / 100000"
    )
    sql(
        "WITH r AS (INSERT INTO r_run (job_id, scheduled_at) SELECT g % 100000, date_trunc('second', now()) - "
        f"interval '1 h' + (g / 100000) * interval '1 s' FROM generate_series(1, {waiting}) g RETURNING *) "
        "INSERT INTO r_queue (id, job_id, scheduled_at, lane_id, state, available_at, max_attempts) "
        "SELECT id, job_id, scheduled_at, (id % 3) * 80 + (id / 3 % 20) * 4 + (id / 60 % 4) + 1, 0, scheduled_at, 3 "
        "FROM r"
    )
    sql("SET synchronous_commit = on")


def prototype(k: int) -> Callable[[int], Step]:
    """The prototype's statements as they are, prepared, each its own transaction; lanes shuffled, as it did."""

    def make(number: int) -> Step:
        import random

        import psycopg
        from django.db import connection

        pick, lanes = random.Random(number), []
        for priority in range(PRIORITIES):
            some = [priority * TENANTS * ROUTES + n + 1 for n in range(TENANTS * ROUTES)]
            pick.shuffle(some)
            lanes += some
        connection.ensure_connection()
        raw = psycopg.RawCursor(connection.connection)
        text = PROTOTYPE.read_text()
        claim, complete = (
            re.search(rf"prepare {name}\([^\n]*\) as\n(.*?);\n", text, re.DOTALL)[1]
            for name in ("r_claim", "r_complete")
        )
        claim = claim.replace("$4)", "$4::int)").replace("$6", "$6::interval")
        complete = complete.replace("unnest($1,$2)", "unnest($1::bigint[],$2::smallint[])").replace("$3", "$3::int")
        offsets, caps = [0] * len(lanes), [k] * len(lanes)

        def step() -> tuple[int, float, dict[int, int]]:
            began = time.perf_counter()
            raw.execute(claim, [lanes, offsets, caps, k, number, "30 s"], prepare=True)
            got = raw.fetchall()
            took = (time.perf_counter() - began) * 1e3
            raw.execute(complete, [[row[0] for row in got], [row[4] for row in got], number], prepare=True)
            if len(raw.fetchall()) != len(got):
                raise RuntimeError("a claim was lost")
            return len(got), took, {}

        return step

    return make


def rates(report: Report, history: int, seconds: float) -> None:
    """k = 1, 10, 100 on this history, the prototype before and after ours in the same minutes."""
    make_prototype(WAITING, history)
    make_jobs(now())
    make_history(history, now())
    make_waiting(WAITING, now())
    holders = make_holders(CLIENTS, now())
    for k, gate in GATES.items():
        tidy("r_run", "r_queue", "scheduler_run", "scheduler_queueentry")
        peer = together(prototype(k), seconds)
        tidy("scheduler_queueentry")
        ours = together(shipped(holders, k), seconds)
        report.line(f"k = {k}: prototype {peer}")
        report.line(f"k = {k}: Croniq    {ours}")
        report.line(
            f"k = {k}: to the prototype: rate {ours.rate / peer.rate:.2f}, "
            f"runs a core second {ours.per_core_second / peer.per_core_second:.2f}"
        )
        report.gate(f"claim + complete, k = {k}, {history:,} finished, runs/s", ours.rate, least=gate)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", default="rates,fair,head,future,snapshot", help="some of these, with commas between")
    options = parser.parse_args()
    from benchmarks import scenes

    report = Report()
    parts: dict[str, Callable[[], None]] = {
        "rates": lambda: rates(report, options.history, options.seconds),
        "fair": lambda: scenes.fair(report, options.seconds),
        "head": lambda: scenes.head(report),
        "future": lambda: scenes.future(report),
        "snapshot": lambda: scenes.snapshot(report, options.seconds),
    }
    with durable_postgres() as server:
        report.line(f"PostgreSQL {server.version}; {machine()}")
        for name in options.only.split(","):
            parts[name]()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
