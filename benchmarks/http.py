"""Runs done over HTTP: the real `manage.py serve` on a durable PostgreSQL, its default settings, 32 connections.

    python -m benchmarks.http [SECONDS]

Prints a table with the gates of issue 5 and exits 1 if one is missed. What each side uses of a core is read from /proc:
the client is a process of its own. "one" acks each run by itself, as every SDK does; "list" acks what a poll brought in
one request.
"""

# ruff: noqa: T201
from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from benchmarks.bed import ROOT, Bed, bed, core_seconds, machine

CONNECTIONS = 32
SECONDS = 8.0
WARM_SECONDS = 2.0
REQUESTS_GATE, REQUESTS_GOAL = 6_000, 16_000
DJANGO_GATE = 8.0


@dataclass(frozen=True)
class Point:
    """``k`` runs a poll; ``fill`` due runs that are made before it."""

    k: int
    words: str
    fill: int
    gate: int | None = None
    goal: int | None = None

    @property
    def name(self) -> str:
        return f"k={self.k}, acks: {self.words}"


POINTS = [
    Point(1, "one", 60_000, 2_500, 3_700),
    Point(10, "one", 80_000),
    Point(10, "list", 250_000, 9_000, 19_000),
    Point(100, "list", 350_000, 13_000, 28_000),
]
DJANGO = Point(1, "one", 10_000)


def measure(made: Bed, pid: int, url: str, point: Point, seconds: float) -> dict[str, Any]:
    """Load the server at ``url`` and return what the client counted and what each side used of a core."""
    waiting = made.scalar("SELECT count(*) FROM scheduler_queueentry WHERE state = 0")
    made.fill(max(0, point.fill - waiting))
    load(made, url, point, WARM_SECONDS)
    server, database = core_seconds(pid), made.database_seconds()
    found = load(made, url, point, seconds)
    found["server_seconds"] = core_seconds(pid) - server
    found["database_seconds"] = made.database_seconds() - database
    if found["bad"]:
        raise RuntimeError(f"{found['bad']} answers were refusals: {found['worst']}")
    if found["empty"] > 0.01 * found["polls"] + CONNECTIONS:
        raise RuntimeError(f"{found['empty']} of {found['polls']} polls were empty: the queue ran dry")
    return found


def load(made: Bed, url: str, point: Point, seconds: float) -> dict[str, Any]:
    where = urlsplit(url)
    arguments = [where.hostname, where.port, made.key, CONNECTIONS, point.k, seconds, point.words]
    command = [sys.executable, "-m", "benchmarks.load", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


HEAD = (
    f"{'':<20}{'runs/s':>8}{'gate':>8}{'goal':>8}{'req/s':>8}{'req/core-s':>11} | {'cores: server':>13}{'PG':>6}"
    f"{'client':>7} | {'us a run: server':>16}{'PG':>6} | p50/p99 ms: poll, ack"
)


def line_of(point: Point, found: dict[str, Any], name: str = "") -> str:
    requests, seconds, runs = found["polls"] + found["acks"], found["seconds"], max(1, found["runs"])
    server, database = found["server_seconds"], found["database_seconds"]
    return (
        f"{name or point.name:<20}{found['runs'] / seconds:>8,.0f}{point.gate or '':>8}{point.goal or '':>8}"
        f"{requests / seconds:>8,.0f}{requests / server:>11,.0f} | {server / seconds:>13.2f}{database / seconds:>6.2f}"
        f"{found['client_seconds'] / seconds:>7.2f} | {server / runs * 1e6:>16.0f}{database / runs * 1e6:>6.0f} | "
        f"{found['poll_p50_ms']:.1f}/{found['poll_p99_ms']:.1f}, {found['ack_p50_ms']:.1f}/{found['ack_p99_ms']:.1f}"
    )


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    missed: list[str] = []

    def judge(what: str, value: float, gate: float) -> None:
        if value < gate:
            missed.append(f"{what}: {value:,.1f} of {gate:,.0f}")

    print(machine())
    print(HEAD)
    requests_each = {}
    with bed() as made:
        for point in POINTS:
            with made.serve() as (pid, url):
                found = measure(made, pid, url, point, seconds)
            print(line_of(point, found), flush=True)
            requests_each[point] = (found["polls"] + found["acks"]) / found["server_seconds"]
            if point.gate:
                judge(point.name, found["runs"] / found["seconds"], point.gate)
        with made.running("-m", "benchmarks.through_django", says="Croniq serves ") as (pid, url):
            found = measure(made, pid, url, DJANGO, seconds / 2)
        print(line_of(DJANGO, found, "through Django, k=1"))
    through_django = (found["polls"] + found["acks"]) / found["server_seconds"]
    ours = requests_each[POINTS[0]]
    ratio = ours / through_django
    print(f"requests a core-second: {ours:,.0f} (gate {REQUESTS_GATE:,}, goal {REQUESTS_GOAL:,}), {ratio:.1f} x Django")
    judge("requests a core-second", ours, REQUESTS_GATE)
    judge("times the same through Django", ratio, DJANGO_GATE)
    print(machine())
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
