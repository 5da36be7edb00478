"""An edit and a claim of the same runs, in every order: either the old claim or the new rule; never both, never
neither.

Three orders. *Claim first*: it is done and not committed when the edit comes, which waits for it. *Edit first*: the
claim passes over what is being edited (SQLite: waits for it). *Looked first*, PostgreSQL only: the claim has seen the
runs as they were and waits for its holder's row while the edit is done; then it takes what it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from runners.models import RunnerInstance
from runners.services.audit import Actor
from scheduler.domain.work import Ack, AckStatus, Claimed
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Run, Slot
from scheduler.services.admit import admit
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.groups import save_group
from scheduler.services.jobs import delete_job, save_job
from scheduler.services.pause import pause_job, resume_job
from tests.factories import QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.conformance.test_races import Waiter
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db(transaction=True)

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
ALICE = Actor("user", "alice")
State = QueueEntry.State
Edit = Callable[[], object]
ORDERS = ["claim first", "edit first", "looked first"]


@pytest.fixture
def job(now, db) -> Job:
    return save_job({"job_key": "demo:job"}, now, ALICE)[0]


@pytest.fixture
def runs(now, job) -> list[UUID]:
    """Two that are due; a claim of one takes the first."""
    return [QueueEntryFactory(job=job, available_at=now - n * SECOND).run_id for n in (2, 1)]


@pytest.fixture
def holder(db) -> RunnerInstance:
    return RunnerInstanceFactory()


@pytest.fixture(params=ORDERS)
def order(request, database) -> str:
    if request.param == "looked first" and database != "postgresql":
        pytest.skip("SQLite's claim is alone in the database while it looks")
    return request.param


@pytest.fixture
def meet(now, job, holder, order, database) -> Callable[[Edit], list[Claimed]]:
    """Let a claim of one run out of the job's lane meet the edit; return what it claimed."""

    def claim():
        return list(claim_due(now, 1, holder.pk, [job.lane_id]))

    def play(edit: Edit) -> list[Claimed]:
        with Session() as first, Session() as session:
            second = Waiter(session, database)
            first.begin()
            if order == "claim first":
                claimed = first.run(claim)
                editing = second.start(edit)
                first.commit()
                editing.result(DEADLINE_SECONDS)
                return claimed
            if order == "edit first":
                first.run(edit)
                claiming = second.session.start(claim)
                if database == "postgresql":
                    claiming.result(DEADLINE_SECONDS)
                first.commit()
                return claiming.result(DEADLINE_SECONDS)
            first.run(lambda: RunnerInstance.objects.select_for_update().get(pk=holder.pk))
            claiming = session.start(claim)
            poll_until(lambda: is_waiting_for_lock(second.pid), DEADLINE_SECONDS, what="the claim waits for its holder")
            edit()
            first.commit()
            return claiming.result(DEADLINE_SECONDS)

    return play


def change(now, **fields) -> Edit:
    return lambda: save_job({"job_key": "demo:job", **fields}, now, ALICE, partial=True)


def the_job() -> Job:
    return Job.objects.get(job_key="demo:job")


def unclaimed() -> list[QueueEntry]:
    return list(QueueEntry.objects.exclude(state=State.CLAIMED).order_by("available_at"))


def assert_claimed(claimed: Sequence[Claimed], holder: RunnerInstance, now) -> None:
    """The rows say what the claim says, and every number of it is of one moment."""
    rows = {entry.run_id: entry for entry in QueueEntry.objects.filter(state=State.CLAIMED)}
    assert set(rows) == {one.run_id for one in claimed}
    for one in claimed:
        entry = rows[one.run_id]
        assert (entry.holder_id, entry.attempt, entry.claimed_at) == (holder.pk, 1, now)
        assert (entry.lease_seconds, entry.timeout_seconds) == (one.lease_seconds, one.timeout_seconds)
        assert entry.lease_expires_at == now + timedelta(seconds=one.lease_seconds)
        assert entry.deadline_at == now + timedelta(seconds=one.timeout_seconds)


ROUTES = {
    "require": {"require": ["gpu"]},
    "prefer": {"prefer": ["ssd"]},
    "priority": {"priority": 7},
    "tenant": {"tenant": "acme"},
    "pin": {"pin": "r1"},
}


@pytest.mark.parametrize("fields", ROUTES.values(), ids=ROUTES)
def test_an_edit_of_the_route(now, job, runs, holder, order, meet, fields):
    claimed = meet(change(now, **fields))
    assert [one.run_id for one in claimed] == (runs[:1] if order == "claim first" else [])
    assert_claimed(claimed, holder, now)
    rest = [run for run in runs if run not in {one.run_id for one in claimed}]
    assert [(entry.run_id, entry.state, entry.lane_id) for entry in unclaimed()] == [
        (run, State.READY, the_job().lane_id) for run in rest
    ]
    assert list(claim_due(now, 5, holder.pk, [job.lane_id])) == []
    assert [one.run_id for one in claim_due(now, 5, holder.pk, [the_job().lane_id])] == rest


def test_a_pause(now, job, runs, holder, order, meet):
    claimed = meet(lambda: pause_job("demo:job", now))
    assert [one.run_id for one in claimed] == (runs[:1] if order == "claim first" else [])
    assert_claimed(claimed, holder, now)
    assert {entry.state for entry in unclaimed()} == {State.HELD}
    assert list(claim_due(now, 5, holder.pk, [job.lane_id])) == []
    resume_job("demo:job", now)  # what had fallen due waits no more, and is told of
    verdicts = Run.objects.exclude(pk__in=[one.run_id for one in claimed]).values_list("verdict", "reason")
    assert set(verdicts) == {("skipped", "paused")}


def test_a_deletion(now, job, runs, holder, order, meet):
    claimed = meet(lambda: delete_job("demo:job", now, ALICE))
    assert [one.run_id for one in claimed] == (runs[:1] if order == "claim first" else [])
    assert_claimed(claimed, holder, now)
    assert unclaimed() == []
    gone = Run.objects.exclude(pk__in=[one.run_id for one in claimed])
    assert set(gone.values_list("verdict", flat=True)) == {"cancelled"}
    assert len(gone) == 2 - len(claimed)


@pytest.mark.parametrize("by", ["the job's limit", "a group", "a policy"])
def test_a_limit_that_is_set(now, job, runs, holder, meet, by):
    ConcurrencyGroup.objects.create(name="db", max_concurrent=1)
    fields = {"the job's limit": {"max_concurrent": 1}, "a group": {"concurrency_group": "db"}}
    claimed = meet(change(now, **fields.get(by, {"overlap": "queue_one"})))
    assert_claimed(claimed, holder, now)
    _one_slot_and_the_other_waits(claimed, runs, job, holder, now)


def test_a_limit_that_is_lowered(now, job, holder, meet):
    change(now, max_concurrent=2)()
    runs = _admitted(job, now, 2)
    claimed = meet(change(now, max_concurrent=1))
    assert_claimed(claimed, holder, now)
    _one_slot_and_the_other_waits(claimed, runs, job, holder, now)


def test_the_limit_of_a_group_that_is_lowered(now, job, holder, meet):
    ConcurrencyGroup.objects.create(name="db", max_concurrent=2)
    change(now, concurrency_group="db")()
    runs = _admitted(job, now, 2)
    claimed = meet(lambda: save_group("db", 1, now, ALICE, "default"))
    assert_claimed(claimed, holder, now)
    _one_slot_and_the_other_waits(claimed, runs, job, holder, now)


def test_a_limit_that_is_removed(now, job, holder, order, meet):
    change(now, max_concurrent=1)()
    runs = _admitted(job, now, 1)
    runs.append(QueueEntryFactory(job=job, state=State.GATED, available_at=now, waits_since=now).run_id)
    claimed = meet(change(now, max_concurrent=None))
    assert_claimed(claimed, holder, now)
    assert not Slot.objects.exists()
    assert {entry.state for entry in unclaimed()} == {State.READY}
    again = claim_due(now, 5, holder.pk, [job.lane_id])
    assert {one.run_id for one in [*claimed, *again]} == set(runs)


def _admitted(job: Job, now, count: int) -> list[UUID]:
    runs = [
        QueueEntryFactory(job=job, state=State.GATED, available_at=now - n * SECOND, waits_since=now).run_id
        for n in range(count, 0, -1)
    ]
    assert admit(now) == count
    return runs


def _one_slot_and_the_other_waits(claimed: list[Claimed], runs: list[UUID], job: Job, holder, now) -> None:
    """The limit is one by now, and the claim had at most one run."""
    assert Slot.objects.count() == 1
    if not claimed:
        assert Slot.objects.get().run_id == runs[0]
        claimed = list(claim_due(now, 5, holder.pk, [job.lane_id]))
    assert [one.run_id for one in claimed] == runs[:1]
    assert Slot.objects.get().run_id == runs[0]
    assert [entry.state for entry in unclaimed()] == [State.GATED]
    assert list(claim_due(now, 5, holder.pk, [job.lane_id])) == []
    finish([Ack(runs[0], 1, holder.runner.runner_id, AckStatus.SUCCESS)], now)
    assert [one.run_id for one in claim_due(now, 5, holder.pk, [job.lane_id])] == runs[1:]


@pytest.mark.parametrize(("field", "column"), [("lease", "lease_seconds"), ("timeout", "timeout_seconds")])
def test_a_lease_or_a_timeout(now, job, runs, holder, order, meet, field, column):
    """The claim is whole by the rule that it found, and its next attempt follows the new one."""
    before = getattr(job, column)
    claimed = meet(change(now, **{field: 77}))
    assert_claimed(claimed, holder, now)
    assert [getattr(one, column) for one in claimed] == ([before] if order == "claim first" else [77] * len(claimed))
    assert {getattr(entry, column) for entry in unclaimed()} == {77}
    held = [*claimed, *claim_due(now, 5, holder.pk, [job.lane_id])]
    assert {one.run_id for one in held} == set(runs)
    finish([Ack(one.run_id, 1, holder.runner.runner_id, AckStatus.FAILURE) for one in held], now)
    again = claim_due(now + HOUR, 5, holder.pk, [job.lane_id])
    assert [getattr(one, column) for one in again] == [77, 77]


def test_an_attempt_that_ends_while_the_lease_is_edited_waits_with_the_new_one(now, job, database):
    for is_edit_first in (False, True):
        entry = QueueEntryFactory(job=job, claimed=True)
        lease = 30 + is_edit_first
        ack = Ack(entry.run_id, 1, entry.holder.runner.runner_id, AckStatus.FAILURE)
        steps = [lambda ack=ack: finish([ack], now), change(now, lease=lease, timeout=lease + 1)]
        with Session() as first, Session() as session:
            first.begin()
            first.run(steps[is_edit_first])
            waiting = Waiter(session, database).start(steps[not is_edit_first])
            first.commit()
            waiting.result(DEADLINE_SECONDS)
        entry.refresh_from_db()
        assert (entry.state, entry.lease_seconds, entry.timeout_seconds) == (State.READY, lease, lease + 1)


def test_a_timeout_that_a_trigger_asked_for_stays_with_its_run(now, job):
    entry = QueueEntryFactory(job=job, claimed=True, run__timeout_seconds=9, timeout_seconds=9)
    change(now, timeout=77)()
    finish([Ack(entry.run_id, 1, entry.holder.runner.runner_id, AckStatus.FAILURE)], now)
    entry.refresh_from_db()
    assert entry.timeout_seconds == 9
