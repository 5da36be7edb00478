"""What a claim meets besides a full queue: many tenants, a gated head, a future of higher priority, a dump."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import timedelta

import psycopg

from benchmarks.backlog import make_holders, make_jobs, make_waiting
from benchmarks.claims import CLIENTS, Figures, Step, now, shipped, together
from benchmarks.gauge import Report, sql, tidy

MANY = 1_000
BIG = 1_000_000
WAITING = 50_000
CLAIMS = 300
HELD_SECONDS = 45.0
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def _anew(*, tenants: int, routes: int = 1, priorities: int = 1) -> list[int]:
    """Forget all jobs and what waits, and make others."""
    sql("TRUNCATE scheduler_queueentry, scheduler_run, scheduler_slot, scheduler_job, scheduler_lane CASCADE")
    return make_jobs(now(), tenants=tenants, routes=routes, priorities=priorities, jobs=2)


def _alone(k: int, holders: list[tuple[str, int]]) -> float:
    """Median milliseconds of the claims of one client that completes nothing."""
    tidy("scheduler_queueentry")
    step = shipped(holders, k, completes=False)(0)
    return statistics.median([step()[1] for _ in range(CLAIMS)])


def fair(report: Report, seconds: float) -> None:
    """One tenant has far more due than can be done, a thousand others twenty each, all newer."""
    lanes = _anew(tenants=MANY + 1)
    make_waiting(BIG, now(), due=-2 * HOUR, lanes=lanes[:1], seed="big")
    make_waiting(20 * MANY, now(), due=-timedelta(minutes=1), step=timedelta(0), lanes=lanes[1:], seed="small")
    holders = make_holders(CLIENTS, now())
    for k in (10, 1):
        tidy("scheduler_queueentry", "scheduler_run")
        # One client: its rotation comes around once in 1,001 tenants; what it claims until then is one run of each.
        step = shipped(holders, k)(0)
        served: dict[int, int] = {}
        claims = 0
        while len(served) <= MANY and claims * k <= 2 * (MANY + 1):
            _, _, by_lane = step()
            claims += 1
            for lane_id, number in by_lane.items():
                served[lane_id] = served.get(lane_id, 0) + number
        rotation = claims * k / (MANY + 1)
        report.line(
            f"1,001 tenants, k = {k}: all served after {claims} claims; the big one got {served.get(lanes[0], 0)}"
        )
        report.gate(f"1,001 tenants, one with 1M due, k = {k}: rotations until all were served", rotation, most=1.01)
    figures = together(shipped(holders, 10), seconds)
    report.line(f"1,001 tenants, k = 10, {CLIENTS} clients: {figures}")


def head(report: Report) -> None:
    """A hundred thousand due runs of limited jobs stand gated before what may run."""
    _anew(tenants=1)
    make_waiting(WAITING, now(), due=-HOUR, seed="ready")
    holders = make_holders(1, now())
    empty = {k: _alone(k, holders) for k in (10, 1)}
    make_waiting(100_000, now(), due=-2 * HOUR, state=1, seed="gated")
    for k, alone in empty.items():
        gated = _alone(k, holders)
        report.line(f"100,000 gated at the head, k = {k}: claim p50 {gated:.2f} ms, empty head {alone:.2f} ms")
        report.gate(f"100,000 gated at the head, k = {k}: claim p50 to that of an empty head", gated / alone, most=2.0)


def future(report: Report) -> None:
    """A million planned runs of higher priority fall due later."""
    lanes = _anew(tenants=1, priorities=2)
    make_waiting(WAITING, now(), due=-HOUR, lanes=lanes[:1], seed="due")
    holders = make_holders(1, now())
    without = {k: _alone(k, holders) for k in (10, 1)}
    make_waiting(BIG, now(), due=HOUR, lanes=lanes[1:], seed="future")
    for k, alone in without.items():
        planned = _alone(k, holders)
        report.line(f"1M future runs of higher priority, k = {k}: claim p50 {planned:.2f} ms, none {alone:.2f} ms")
        report.gate(f"1M future runs of higher priority, k = {k}: claim p50 to that without", planned / alone, most=1.5)


def snapshot(report: Report, seconds: float) -> None:
    """A dump keeps a snapshot open: what was claimed meanwhile stays at the head of the claimable index.

    As much falls due as is done, all in one lane.
    """
    from django.db import connection

    _anew(tenants=1)
    holders = make_holders(CLIENTS, now())
    make_waiting(20_000, now(), due=-HOUR, seed="before")
    tidy("scheduler_queueentry", "scheduler_run")
    before = together(_refilled(holders), seconds * 2)
    parameters = connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}
    with psycopg.connect(**parameters) as dump:
        dump.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        dump.execute("SELECT count(*) FROM scheduler_lane").fetchall()
        held = together(_refilled(holders), HELD_SECONDS)
        ((dead,),) = sql("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'scheduler_queueentry'")
        dump.rollback()
    tidy("scheduler_queueentry")
    after = together(_refilled(holders), seconds * 2)
    for name, figures in (("before", before), ("snapshot held", held), ("after", after)):
        report.line(f"{name:14} {figures}")
    report.line(f"{dead:,} dead entries in the end; claim p50 in the last tenth {_late(held):.1f} ms")
    report.gate(
        f"a snapshot held open for {HELD_SECONDS:.0f} s: rate to that before", held.rate / before.rate, least=0.5
    )


def _late(figures: Figures) -> float:
    return statistics.median(figures.claims[-max(1, len(figures.claims) // 10) :])


def _refilled(holders: list[tuple[str, int]]) -> Callable[[int], Step]:
    def make(number: int) -> Step:
        step = shipped(holders, 10)(number)

        def with_more() -> tuple[int, float, dict[int, int]]:
            done, took, by_lane = step()
            make_waiting(done, now(), due=timedelta(0), step=timedelta(0), seed=f"{number}-{time.perf_counter_ns()}")
            return done, took, by_lane

        return with_more

    return make
