"""The cost of the hot statements: what they read does not grow with what waits, nor with history."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from croniq_site.kernel.database import adapted
from scheduler.domain.work import Ack, AckStatus, Ask
from scheduler.models import QueueEntry
from scheduler.services.claim import claim_batch, claim_due
from scheduler.services.finish import finish
from scheduler.services.renew import renew_held
from scheduler.sql import postgresql, sqlite
from scheduler.sql.rows import Seats
from tests.factories import JobFactory, LaneFactory, QueueEntryFactory, RunnerInstanceFactory

pytestmark = pytest.mark.django_db

MANY = 20_000


@pytest.fixture
def busy_lane(now):
    """A lane in which 20,000 runs are due at the same instant, another 20,000 of them finished."""
    lane = LaneFactory()
    busy([lane], MANY, now)
    assert QueueEntry.objects.count() == MANY
    return lane


def busy(lanes, number, now, *, is_analyzed=True):
    """Make as many due runs in these lanes, dealt out in turn, and as many finished ones."""
    jobs = [JobFactory(lane=lane, tenant=lane.tenant) for lane in lanes]
    new_id, numbers = {
        "postgresql": ("gen_random_uuid()", f"generate_series(1, {2 * number}) AS s(n)"),
        "sqlite": (
            "lower(hex(randomblob(16)))",
            "(WITH RECURSIVE s(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM s "
            f"WHERE n < {2 * number}) SELECT n FROM s) AS s",
        ),
    }[connection.vendor]
    first = jobs[0].pk
    assert [job.pk for job in jobs] == list(range(first, first + len(jobs)))
    with connection.cursor() as cursor:
        # Triggered ones: they may share an instant.
        cursor.execute(
            "INSERT INTO scheduler_run (id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, reason, "
            "error, runner_id) "
            f"SELECT {new_id}, {first} + n - {len(jobs)} * (n / {len(jobs)}), 'triggered', %s, %s, %s, 0, '', '', '' "
            f"FROM {numbers}",
            [adapted(now)] * 3,
        )
        cursor.execute(
            "INSERT INTO scheduler_queueentry (run_id, job_id, lane_id, own_lane, state, available_at, attempt, "
            "max_attempts, losses, max_losses, lease_seconds, timeout_seconds, log_bytes) "
            "SELECT r.id, r.job_id, j.lane_id, %s, 0, %s, 0, 4, 0, 2, 60, 300, 0 FROM scheduler_run r "
            f"JOIN scheduler_job j ON j.id = r.job_id LIMIT {number}",
            [False, adapted(now)],
        )
        if is_analyzed:
            cursor.execute("ANALYZE")


def plan_of(statement: str, parameters: list) -> dict:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
        plan = cursor.fetchone()[0]
    return (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]


def nodes_of(plan: dict) -> list[dict]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes_of(child))]


def test_a_claim_reads_the_claimable_index_and_locks_only_what_it_takes(now, busy_lane, database):
    if database != "postgresql":
        pytest.skip("the plan of PostgreSQL; SQLite's is below")
    holder = RunnerInstanceFactory()
    parameters = postgresql.claim_parameters(now, Seats([holder.pk], [10]), [[busy_lane.pk]], [])
    plan = plan_of(postgresql.CLAIM, parameters)
    nodes = nodes_of(plan)
    assert "queue_entry_claimable" in {node.get("Index Name") for node in nodes}
    big = ("scheduler_run", "scheduler_queueentry")
    assert not [n for n in nodes if n["Node Type"] == "Seq Scan" and n["Relation Name"] in big]
    (locks,) = [n for n in nodes if n["Node Type"] == "LockRows" and reads(n)]
    assert locks["Actual Rows"] == 10
    # Ten rows of 20,000, each by a handful of pages; reading the queue once would be several hundred.
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 400
    assert QueueEntry.objects.filter(state=QueueEntry.State.CLAIMED).count() == 10


def reads(node: dict) -> bool:
    return any(n.get("Relation Name") == "scheduler_queueentry" for n in nodes_of(node))


def test_a_claim_that_finds_nothing_in_its_lanes_reads_nothing_of_the_others(now, busy_lane, database):
    if database != "postgresql":
        pytest.skip("the plan of PostgreSQL; SQLite's is below")
    empty = [LaneFactory(priority=n).pk for n in range(1, 20)]
    parameters = postgresql.claim_parameters(now, Seats([RunnerInstanceFactory().pk], [10]), [empty], [])
    plan = plan_of(postgresql.CLAIM, parameters)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 100


def test_an_ack_reads_by_key_only(now, busy_lane, database):
    if database != "postgresql":
        pytest.skip("the plan of PostgreSQL")
    holder = RunnerInstanceFactory()
    claimed = claim_due(now, 10, holder.pk, [busy_lane.pk])
    acks = [Ack(one.run_id, 1, holder.runner.runner_id, AckStatus.SUCCESS, duration_ms=5) for one in claimed]
    plan = plan_of(postgresql.complete_text(), postgresql.complete_parameters(acks, now, limited=False))
    big = ("scheduler_run", "scheduler_queueentry")
    assert not [n for n in nodes_of(plan) if n["Node Type"] == "Seq Scan" and n["Relation Name"] in big]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 800


def test_sqlite_claims_by_the_claimable_index_in_its_order(now, busy_lane, database):
    if database != "sqlite":
        pytest.skip("the plan of SQLite; PostgreSQL's is above")
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sqlite.DUE}", [busy_lane.pk, str(now), "[]", 10, 0])
        plan = "\n".join(row[3] for row in cursor.fetchall())
    assert "USING INDEX queue_entry_claimable (lane_id=? AND available_at<?)" in plan
    assert "TEMP B-TREE" not in plan


def test_the_text_of_a_statement_does_not_depend_on_how_many_rows_it_takes(now, database, lane):
    if database != "postgresql":
        pytest.skip("SQLite has nothing to prepare once for all connections")
    holders = [RunnerInstanceFactory() for _ in range(3)]
    texts = set()
    for k in (1, 3):
        asks = [Ask(holder.pk, k) for holder in holders[:k]]
        with CaptureQueriesContext(
            connection,
        ) as captured:
            claim_batch(now, asks, [[lane.pk], *([LaneFactory(tenant=f"t{n}").pk] for n in range(1, k))])
        (text,) = [q["sql"] for q in captured if "picked" in q["sql"]]
        texts.add(re.sub(r"'[^']*'|\b\d+\b", "?", text))
    assert len(texts) == 1


def test_a_claim_and_its_acks_are_a_fixed_number_of_statements(now, lane, holder, database):
    for _ in range(20):
        QueueEntryFactory(job__lane=lane)

    def statements(limit):
        with CaptureQueriesContext(connection) as claiming:
            claimed = claim_due(now, limit, holder.pk, [lane.pk])
        acks = [Ack(one.run_id, 1, holder.runner.runner_id, AckStatus.SUCCESS) for one in claimed]
        with CaptureQueriesContext(connection) as renewing:
            renew_held(holder.pk, [one.run_id for one in claimed], now)
        with CaptureQueriesContext(connection) as finishing:
            finish(acks, now)
        return [len([q for q in queries if "SAVEPOINT" not in q["sql"]]) for queries in (claiming, renewing, finishing)]

    assert statements(15) == statements(2) == ([1, 1, 1] if database == "postgresql" else [4, 2, 3])


def test_failures_are_a_fixed_number_of_statements(now, lane, holder):
    for _ in range(20):
        QueueEntryFactory(job=JobFactory(lane=lane))

    def statements(limit):
        claimed = claim_due(now, limit, holder.pk, [lane.pk])
        acks = [Ack(one.run_id, 1, holder.runner.runner_id, AckStatus.FAILURE) for one in claimed]
        with CaptureQueriesContext(connection) as finishing:
            finish(acks, now)
        return len(finishing)

    assert statements(15) == statements(2)


def test_closing_a_run_touches_no_index(now, database, lane, holder):
    if database != "postgresql":
        pytest.skip("heap-only updates are PostgreSQL's")
    with connection.cursor() as cursor:
        # Room for every new version beside the old one: then only a changed index keeps an update from being heap-only.
        cursor.execute("ALTER TABLE scheduler_run SET (fillfactor = 30)")
    for _ in range(30):
        QueueEntryFactory(job__lane=lane)
    claimed = claim_due(now, 30, holder.pk, [lane.pk])
    before = updates_of("scheduler_run")
    acks = [Ack(one.run_id, 1, holder.runner.runner_id, AckStatus.SUCCESS, duration_ms=5) for one in claimed]
    finish(acks, now + timedelta(seconds=1))
    after = updates_of("scheduler_run")
    # All that this transaction updated in the table, and all of it heap-only.
    assert (after[0] - before[0], after[1] - before[1]) == (30, 30)


def updates_of(table: str) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = %s", [table])
        return cursor.fetchone()
