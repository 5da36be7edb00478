"""What a run writes and a claim reads in PostgreSQL, on an empty history and on a long one: the same, or it fails.

    python -m benchmarks.wal [--history 10000000] [--runs 4000]

On a durable server of its own without autovacuum: nobody else writes, so the figures hardly depend on the machine.
Exits 1 where a gate is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.backlog import drop_waiting, make_history, make_holders, make_jobs, make_waiting
from benchmarks.gauge import Report, durable_postgres, sql, tidy

K = 10
EXPLAINED = 9
DEEP = 100_000
"""Waiting runs where buffers are counted: so many that the index that finds a run has its three levels without a
history too; ten million need no fourth."""
MOST_WAL = 1.10
MOST_BUFFERS = 1.05
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
Tenants = list[tuple[int, ...]]


@dataclass(frozen=True)
class Cost:
    """``wal`` bytes a run, claim and completion; ``images`` whole pages in it a run; ``buffers`` of a claim of ten."""

    wal: float
    images: float
    buffers: float

    def __str__(self) -> str:
        return (
            f"{self.wal:6,.0f} bytes of WAL a run ({self.images:.2f} whole pages), {self.buffers:.0f} buffers a claim"
        )


def cost(runs: int, holder: tuple[str, int], tenants: Tenants, now: datetime) -> Cost:
    """Count the buffers of claims, then what ``runs`` runs of many jobs write, claimed and completed by tens right
    after a checkpoint, which makes each page's first change whole."""
    from scheduler.domain.work import Ack, AckAnswer, AckStatus, Ask
    from scheduler.services.claim import claim_batch
    from scheduler.services.finish import finish

    runner_id, holder_id = holder
    make_waiting(DEEP, NOW, seed=f"deep-{now}")
    tidy("scheduler_run", "scheduler_queueentry", "runners_runnerinstance")
    buffers = [buffers_of_a_claim(holder_id, tenants, now) for _ in range(EXPLAINED)]
    drop_waiting()
    make_waiting(runs + len(tenants) * 100, NOW, seed=f"wal-{now}")
    tidy("scheduler_run", "scheduler_queueentry")
    before, images_before = wal_so_far()
    for turn in range(runs // K):
        first = turn * K % len(tenants)
        (outcome,) = claim_batch(now, [Ask(holder_id, K)], [*tenants[first:], *tenants[:first]])
        acks = [Ack(one.run_id, one.attempt, runner_id, AckStatus.SUCCESS, duration_ms=5) for one in outcome]
        if len(acks) != K or finish(acks, now) != [AckAnswer.ACCEPTED] * K:
            raise RuntimeError("a claim was lost")
    after, images_after = wal_so_far()
    drop_waiting()
    return Cost((after - before) / runs, (images_after - images_before) / runs, statistics.median(buffers))


def wal_so_far() -> tuple[int, int]:
    """Bytes, and whole pages in them."""
    ((position,),) = sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")
    # Reported by each backend when it is idle, at most once a second.
    sql("SELECT pg_stat_clear_snapshot(), pg_stat_force_next_flush()")
    ((images,),) = sql("SELECT wal_fpi FROM pg_stat_wal")
    return position, images


def buffers_of_a_claim(holder_id: int, tenants: Tenants, now: datetime) -> int:
    from django.db import transaction

    from scheduler.sql import postgresql
    from scheduler.sql.rows import Seats

    with transaction.atomic():
        # The plan of big tables also where they are small: else the empty history is read whole and looks dear.
        sql("SET LOCAL enable_seqscan = off")
        sql("SET LOCAL enable_bitmapscan = off")
        parameters = postgresql.claim_parameters(now, Seats([holder_id], [K]), tenants, [])
        ((plan,),) = sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {postgresql.CLAIM}", parameters)
        transaction.set_rollback(True)
    top = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=4_000)
    options = parser.parse_args()
    report = Report()
    with durable_postgres({"autovacuum": "off"}) as server:
        make_jobs(NOW)
        (holder,) = make_holders(1, NOW)
        tenants = [
            tuple(ids) for (ids,) in sql("SELECT array_agg(id) FROM scheduler_lane GROUP BY tenant ORDER BY tenant")
        ]
        found = {}
        for hours, history in enumerate((0, options.history), 1):
            make_history(history, NOW)
            found[history] = cost(options.runs, holder, tenants, NOW + timedelta(hours=hours))
            report.line(f"PostgreSQL {server.version}, {history:10,} finished runs: {found[history]}")
    empty, long = found[0], found[options.history]
    report.gate(f"WAL bytes a run, {options.history:,} to 0 finished", long.wal / empty.wal, most=MOST_WAL)
    name = f"buffers of a claim, {options.history:,} to 0 finished"
    report.gate(name, long.buffers / empty.buffers, most=MOST_BUFFERS)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
