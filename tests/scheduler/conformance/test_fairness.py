"""Tenants share what there is: each has its share first, and who was served last goes last."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from scheduler.domain.work import Ack, AckStatus, Ask, ClaimOutcome
from scheduler.models import QueueEntry, Run
from scheduler.queries.lanes import LaneDirectory, Rotation
from scheduler.services.claim import claim_batch
from scheduler.services.finish import finish
from scheduler.sql import postgresql, sqlite
from scheduler.sql.rows import Seats
from tests.factories import JobFactory, LaneFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.conformance.test_plans import plan_of
from tests.support.races import Session

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


class Server:
    """A server as far as fairness goes: it claims in its rotation, for one runner."""

    def __init__(self, holder_id: int, tenant: str | None = None) -> None:
        self.holder_id, self.tenant = holder_id, tenant
        self.directory, self.rotation = LaneDirectory(), Rotation()

    def claim(self, now, k: int = 1) -> ClaimOutcome:
        self.directory.refresh()
        turns = self.rotation.in_turn(self.directory.lanes_for([], "r", self.tenant), self.directory)
        (outcome,) = claim_batch(now, [Ask(self.holder_id, k)], turns)
        served = frozenset(one.lane_id for one in (*outcome.claimed, *outcome.buried))
        self.rotation.note(turns, served, self.directory)
        return outcome

    def tenants(self, outcome: ClaimOutcome) -> str:
        """The tenants of what was claimed, in its order, a letter each."""
        return "".join(self.directory.tenant_of(claimed.lane_id) for claimed in outcome)


@pytest.fixture
def server(holder):
    return Server(holder.pk)


def queue(tenant: str, count: int = 1, **more) -> list[QueueEntry]:
    job = JobFactory(tenant=tenant, lane=LaneFactory(tenant=tenant))
    return [QueueEntryFactory(job=job, **more) for _ in range(count)]


def queue_many(tenants: list[str], each: int, now) -> None:
    """Put ``each`` due runs a tenant into the queue by two statements."""
    jobs = {tenant: JobFactory(tenant=tenant, lane=LaneFactory(tenant=tenant)) for tenant in tenants}
    entries = [
        QueueEntryFactory.build(job=job, lane=job.lane, available_at=now) for job in jobs.values() for _ in range(each)
    ]
    Run.objects.bulk_create([entry.run for entry in entries], batch_size=500)
    QueueEntry.objects.bulk_create(entries, batch_size=500)


def test_b_comes_within_the_next_two_claims_whatever_a_has_queued(now, server):
    queue_many(["a"], 10_000, now)
    assert server.tenants(server.claim(now)) == "a"
    queue("b")
    assert "b" in server.tenants(server.claim(now)) + server.tenants(server.claim(now))
    # Another server, which has served nobody yet, is as fast.
    queue("b")
    other = Server(server.holder_id)
    assert "b" in other.tenants(other.claim(now)) + other.tenants(other.claim(now))


def test_alone_a_gets_every_slot(now, server):
    queue("a", 30)
    LaneFactory(tenant="b")
    assert server.tenants(server.claim(now, 20)) == "a" * 20


def test_each_tenant_gets_its_share_first_and_the_rest_is_filled_up(now, server):
    queue("a", 10)
    queue("b", 10)
    queue("c", 1)
    # Ten seats, three tenants: four each at most, then what c left over.
    assert server.tenants(server.claim(now, 10)) == "aaaabbbbca"
    assert server.tenants(server.claim(now, 4)) == "aabb"


def test_the_share_is_of_tenants_with_something_due(now, server):
    queue("a", 10)
    queue("b", 10, available_at=now + SECOND)
    queue("c", 10, state=QueueEntry.State.HELD)
    queue("d", 3)
    assert server.tenants(server.claim(now, 8)) == "aaaaddda"


def test_priority_and_route_order_within_a_tenants_share_only(now, server):
    queue("b", 3)
    low, high = LaneFactory(tenant="a", priority=-5), LaneFactory(tenant="a", priority=5)
    job = JobFactory(tenant="a")
    for lane in (low, low, high):
        QueueEntryFactory(job=job, lane=lane, available_at=now - SECOND if lane is low else now)
    outcome = server.claim(now, 4)
    assert [claimed.lane_id for claimed in outcome][:2] == [high.pk, low.pk]
    assert server.tenants(outcome) == "aabb"


def test_everybody_of_1001_tenants_is_served_within_one_rotation(now, server):
    tenants = [f"t{number:04}" for number in range(1001)]
    queue_many(tenants, 2, now)
    served: list[str] = []
    for _ in range(11):
        served += [server.directory.tenant_of(claimed.lane_id) for claimed in server.claim(now, 91)]
    assert sorted(served) == tenants


def test_instant_retries_of_a_do_not_delay_b(now, server):
    """Every run of a fails at once and is due again at once, before all others of its lane."""
    for entry in queue("a", 5, available_at=now - timedelta(hours=1)):
        entry.job.retry_base_seconds = entry.job.retry_cap_seconds = 1e-6
        entry.job.save()
    queue("b", 5)
    runner = RunnerInstanceFactory._meta.model.objects.get(pk=server.holder_id).runner.runner_id
    order = ""
    for turn in range(8):
        at = now + turn * SECOND
        outcome = server.claim(at)
        order += server.tenants(outcome)
        for claimed in outcome:
            is_a = server.directory.tenant_of(claimed.lane_id) == "a"
            status = AckStatus.FAILURE if is_a else AckStatus.SUCCESS
            finish([Ack(claimed.run_id, claimed.attempt, runner, status)], at)
    assert order == "abababab"


def test_burials_of_a_are_a_turn_of_a(now, server):
    queue("a", 100, attempt=4, max_attempts=4)
    queue("b")
    assert len(server.claim(now)) == 0
    assert server.tenants(server.claim(now)) == "b"


def test_a_client_of_a_tenant_claims_only_its_tenants_runs(now, holder):
    queue("a", 3)
    queue("b", 3)
    server = Server(holder.pk, tenant="b")
    assert server.tenants(server.claim(now, 10)) == "bbb"
    assert len(server.claim(now, 10)) == 0


def test_a_listed_run_makes_no_tenant_hungry(now, holder):
    listed = queue("a")[0]
    queue("b", 4)
    lanes = [[listed.lane_id], [LaneFactory(tenant="b").pk]]
    asks = [Ask(holder.pk, 4, frozenset({listed.run_id}))]
    assert len(claim_batch(now, asks, lanes)[0]) == 4


@pytest.mark.django_db(transaction=True)
def test_a_run_that_is_let_go_between_the_looks_is_claimed_once(now, holder, database):
    """While another claim has a's first run in hand, a's share are the ones behind it."""
    if database != "postgresql":
        pytest.skip("SQLite's claims take turns")
    first, *_ = queue("a", 4, available_at=now)
    other = RunnerInstanceFactory()
    with Session() as rival:
        rival.begin()
        assert len(rival.run(claim_batch, now, [Ask(other.pk, 1)], [[first.lane_id]])[0]) == 1
        outcome = claim_batch(now, [Ask(holder.pk, 10)], [[first.lane_id]])[0]
        rival.rollback()
    assert len({claimed.run_id for claimed in outcome}) == len(outcome) == 3


def test_a_claim_looks_for_no_more_hungry_tenants_than_it_has_seats(now, holder, database):
    lanes = [[LaneFactory(tenant=f"t{number:03}").pk] for number in range(300)]
    queue_many([f"t{number:03}" for number in range(300)], 1, now)
    if database == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        plan = plan_of(postgresql.CLAIM, postgresql.claim_parameters(now, Seats([holder.pk], [2]), lanes, []))
        # Looking at all of them takes at least two blocks each; what earlier tests left in the index takes some, too.
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 450
    else:
        looks = []
        with connection.execute_wrapper(lambda execute, *call: looks.append(call[0]) or execute(*call)):
            claim_batch(now, [Ask(holder.pk, 2)], lanes)
        assert len([look for look in looks if look == sqlite.DUE]) <= 4
    assert QueueEntry.objects.filter(state=QueueEntry.State.CLAIMED).count() == 2
