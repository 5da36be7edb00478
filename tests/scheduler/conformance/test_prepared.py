"""The hot statements on PostgreSQL: planned once, each a transaction by itself, and what that must not lose."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from scheduler.domain.work import Ack, AckAnswer, AckStatus, Ask
from scheduler.models import QueueEntry, Run, Slot
from scheduler.services import claim as claiming
from scheduler.services import finish as finishing
from scheduler.services.admit import admit
from scheduler.services.claim import claim_batch, claim_due
from scheduler.services.finish import finish
from scheduler.sql import postgresql, prepared
from scheduler.sql.rows import Seats
from tests.factories import LaneFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.budgets.world import limited_job, waiting_run
from tests.scheduler.conformance.test_plans import busy, nodes_of, plan_of, reads
from tests.support.races import Session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _on_postgresql(database):
    if database != "postgresql":
        pytest.skip("SQLite has no journeys to save: its statements are in one write transaction")


@pytest.fixture
def lane():
    return LaneFactory()


@pytest.fixture
def holder():
    return RunnerInstanceFactory()


def acks_of(claimed, holder):
    return [Ack(one.run_id, one.attempt, holder.runner.runner_id, AckStatus.SUCCESS) for one in claimed]


def statements() -> dict[str, tuple[str, int, int]]:
    """Prepared ones of this connection by the table expression that names them: name, generic and custom plans."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, statement, generic_plans, custom_plans FROM pg_prepared_statements")
        return {text.split()[1]: (name, generic, custom) for name, text, generic, custom in cursor.fetchall()}


def test_claims_and_acks_are_planned_once_for_any_number_of_runs(now, lane, holder):
    with Session() as session:
        for k in (1, 7, 2):
            for _ in range(k):
                QueueEntryFactory(job__lane=lane)
            claimed = session.run(claim_due, now, k, holder.pk, [lane.pk])
            session.run(finish, acks_of(claimed, holder), now)
        found = session.run(statements)
    assert {name: plans for name, (_, *plans) in found.items()} == {"current": [3, 0], "acks": [3, 0]}


def test_a_plan_of_an_empty_queue_is_not_kept_when_it_has_filled(now, lane, holder, monkeypatch):
    with Session() as session, connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE scheduler_queueentry")
        assert session.run(claim_due, now, 1, holder.pk, [lane.pk]).claimed == ()
        busy([lane], 5_000, now, is_analyzed=False)  # that would tell every connection to plan anew
        monkeypatch.setattr(prepared, "PLANS_KEPT_SECONDS", -1.0)
        assert len(session.run(claim_due, now, 1, holder.pk, [lane.pk])) == 1
        (name, *_) = session.run(statements)["current"]
        plan = session.run(explain, name)
    assert "Index Scan using queue_entry_claimable on scheduler_queueentry e" in plan
    assert "Seq Scan on scheduler_queueentry" not in plan


def explain(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (COSTS OFF) EXECUTE {name} ({', '.join(['NULL'] * 13)})")
        return "\n".join(line for (line,) in cursor.fetchall())


def test_a_claim_and_its_acks_are_one_journey_each(now, lane, holder):
    QueueEntryFactory(job__lane=lane)
    with CaptureQueriesContext(connection) as queries:
        claimed = claim_due(now, 1, holder.pk, [lane.pk])
        finish(acks_of(claimed, holder), now)
    assert len(queries) == 2


def test_what_was_claimed_is_told_although_the_burying_that_followed_failed(now, lane, holder, monkeypatch):
    """The claim was committed by itself. The used-up run that was found beside it is buried by the next claim."""
    live = QueueEntryFactory(job__lane=lane).run_id
    used_up = QueueEntryFactory(job__lane=lane, attempt=4, max_attempts=4).run_id
    with monkeypatch.context() as broken:
        broken.setattr(claiming, "bury", _fails)
        (outcome,) = claim_batch(now, [Ask(holder.pk, 5)], [[lane.pk]])
    assert [one.run_id for one in outcome] == [live]
    assert QueueEntry.objects.get(pk=live).holder_id == holder.pk
    assert Run.objects.get(pk=used_up).verdict is None
    (outcome,) = claim_batch(now, [Ask(holder.pk, 5)], [[lane.pk]])
    assert [one.run_id for one in outcome.buried] == [used_up]


def test_a_claim_of_which_only_the_burying_was_left_says_that_it_failed(now, lane, holder, monkeypatch):
    QueueEntryFactory(job__lane=lane, attempt=4, max_attempts=4)
    monkeypatch.setattr(claiming, "bury", _fails)
    with pytest.raises(OperationalError):
        claim_batch(now, [Ask(holder.pk, 5)], [[lane.pk]])


def _fails(*_: object) -> None:
    raise OperationalError("server closed the connection")


def test_lanes_of_some_hundreds_are_read_in_their_order_and_never_sorted(now, holder):
    """Not so few that sorting them costs nothing, not so many that it is out of the question."""
    lanes = [LaneFactory(tenant=f"t{n}") for n in range(20)]
    busy(lanes, 20_000, now)
    tenants = [(lane.pk,) for lane in lanes]
    plan = plan_of(postgresql.CLAIM, postgresql.claim_parameters(now, Seats([holder.pk], [10]), tenants, []))
    locks = [node for node in nodes_of(plan) if node["Node Type"] == "LockRows" and reads(node)]
    assert [node["Node Type"] for lock in locks for node in nodes_of(lock)] == ["LockRows", "Index Scan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 400


def test_an_ack_finds_its_entry_by_its_key_however_few_are_believed_to_be_claimed(now, lane, holder):
    busy([lane], 5_000, now)  # analyzed, when nobody had claimed anything
    claimed = claim_due(now, 100, holder.pk, [lane.pk])
    parameters = postgresql.complete_parameters(acks_of(claimed, holder), now, limited=False)
    plan = plan_of(postgresql.complete_text(), parameters)
    of_queue = [node for node in nodes_of(plan) if node.get("Relation Name") == "scheduler_queueentry"]
    assert {node["Index Name"] for node in of_queue if "Index Name" in node} == {"scheduler_queueentry_pkey"}


def test_a_run_with_slots_is_not_closed_where_they_could_not_be_handed_on(now, holder, monkeypatch):
    """Or the server dies between the two: then a slot would be free and nobody ready."""
    job = limited_job()
    run = waiting_run(job, now)
    admit(now)
    claimed = claim_due(now, 1, holder.pk, [job.lane_id])
    with monkeypatch.context() as broken:
        broken.setattr(finishing, "settle_jobs_later", lambda job_ids, now: _fails() if job_ids else None)
        with pytest.raises(OperationalError):
            finish(acks_of(claimed, holder), now)
    assert QueueEntry.objects.get(pk=run).state == QueueEntry.State.CLAIMED
    assert Slot.objects.filter(run_id=run).count() == 1
    assert finish(acks_of(claimed, holder), now) == [AckAnswer.ACCEPTED]
    assert not Slot.objects.exists()
