"""Two who want the same slot, or change the rules while it is given. Each test tells which of them was first."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError

from runners.services.audit import SYSTEM
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import Job, QueueEntry, Slot
from scheduler.services.admit import admit
from scheduler.services.cancel import cancel_runs
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.groups import save_group
from scheduler.services.jobs import save_job
from scheduler.services.waiting import expire_waiting
from tests.factories import JobFactory, QueueEntryFactory, RunnerInstanceFactory, SlotFactory
from tests.scheduler.budgets.world import (
    SECOND,
    State,
    claim,
    group_of,
    limited_job,
    running,
    slots,
    state_of,
    states,
    waiting_run,
)
from tests.scheduler.planning.support import ACTOR
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def first():
    with Session() as session:
        yield session


@pytest.fixture
def second():
    with Session() as session:
        yield session


def start_second(second: Session, database: str, fn, *args, **kwargs):
    """Start it and, where it can be known, see it wait for the first one's lock."""
    pid = second.backend_pid if database == "postgresql" else None
    future = second.start(fn, *args, **kwargs)
    if pid is not None:
        poll_until(lambda: is_waiting_for_lock(pid) or future.done(), what="the second one waits")
        assert not future.done(), "it did not wait"
    return future


def edit(job: Job, now, **fields):
    return save_job({"job_key": job.job_key, **fields}, now, ACTOR, partial=True)


def ack_of(run_id, holder, status=AckStatus.SUCCESS, attempt=1):
    return Ack(run_id, attempt, holder.runner.runner_id, status)


def test_the_database_refuses_the_same_slot_twice(now):
    slot = SlotFactory()
    with pytest.raises(IntegrityError):
        SlotFactory(budget=slot.budget, n=slot.n)


def test_two_who_admit_at_once_give_the_last_slot_once(now, first, second, database):
    job = limited_job()
    runs = [waiting_run(job, now - SECOND), waiting_run(job, now)]
    first.begin()
    assert first.run(admit, now) == 1
    other = start_second(second, database, admit, now)
    first.commit()
    assert other.result(DEADLINE_SECONDS) == 0
    assert states(runs) == [State.READY, State.GATED]


def test_two_polls_at_one_instant_for_the_last_slot_two_hundred_times(now, first, second):
    """CC-02: never over the limit, no slot leaks. One runner ends its run while both look for the next."""
    job = limited_job(max_concurrent=2, max_queue_depth=1000)
    holders = [RunnerInstanceFactory(), RunnerInstanceFactory()]
    for n in range(210):
        waiting_run(job, now + timedelta(milliseconds=n))
    lane_ids = [job.lane_id]

    def poll(holder, held):
        if held:
            finish([ack_of(one.run_id, holder) for one in held], later)
        admit(later)
        return list(claim_due(later, 2, holder.pk, lane_ids))

    later = now + SECOND
    held: list = [[], []]
    done = 0
    for _ in range(200):
        futures = [
            session.start(poll, holder, mine)
            for session, holder, mine in zip((first, second), holders, held, strict=True)
        ]
        held = [future.result(DEADLINE_SECONDS) for future in futures]
        assert running() == sum(map(len, held)) <= 2
        assert Slot.objects.count() <= 2
        done += sum(map(len, held))
        if not QueueEntry.objects.exclude(state=State.CLAIMED).exists():
            break
    assert done >= 200
    for holder, mine in zip(holders, held, strict=True):
        finish([ack_of(one.run_id, holder) for one in mine], later)
    assert running() == 0
    assert Slot.objects.count() == QueueEntry.objects.filter(state=State.READY).count() <= 2


def test_an_ack_while_a_sweep_admits_leaves_no_free_slot_behind(now, first, second, database):
    """The sweep does not see the slot that is being freed; the ack waits for the sweep and hands it on."""
    job = limited_job()
    runs = [waiting_run(job, now - SECOND), waiting_run(job, now)]
    admit(now)
    holder = RunnerInstanceFactory()
    claim(now, holder)
    first.begin()
    assert first.run(admit, now) == 0
    ack = start_second(second, database, finish, [ack_of(runs[0], holder)], now)
    first.commit()
    ack.result(DEADLINE_SECONDS)
    assert states(runs) == ["completed", State.READY]


def test_what_is_being_cancelled_is_left_alone_and_nobody_waits_in_a_circle(now, first, second, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    job = limited_job()
    runs = [waiting_run(job, now - SECOND), waiting_run(job, now)]
    first.begin()
    first.run(lambda: list(QueueEntry.objects.select_for_update().filter(pk=runs[0])))
    assert second.run(admit, now) == 1
    assert states(runs) == [State.GATED, State.READY]
    first.run(cancel_runs, [runs[0]], now, SYSTEM)
    first.commit()
    assert states(runs) == ["cancelled", State.READY]


def test_an_edit_that_limits_a_job_waits_for_the_claim_in_hand_and_counts_it(now, first, second, database):
    job = JobFactory()
    runs = [QueueEntryFactory(job=job, available_at=now - n * SECOND).run_id for n in (2, 1)]
    holder = RunnerInstanceFactory()
    first.begin()
    first.run(claim_due, now, 1, holder.pk, [job.lane_id])
    change = start_second(second, database, edit, job, now, max_concurrent=1)
    first.commit()
    change.result(DEADLINE_SECONDS)
    assert states(runs) == [State.CLAIMED, State.GATED]
    assert slots() == {f"job:{job.pk}": 1}
    finish([ack_of(runs[0], holder)], now)
    assert states(runs) == ["completed", State.READY]


def test_a_claim_while_a_limit_is_set_finds_nothing_of_that_job(now, first, second, database):
    job = JobFactory()
    run, holder = QueueEntryFactory(job=job).run_id, RunnerInstanceFactory()
    first.begin()
    first.run(edit, job, now, max_concurrent=1)
    claiming = second.start(claim_due, now, 1, holder.pk, [job.lane_id])
    if database == "postgresql":
        assert list(claiming.result(DEADLINE_SECONDS)) == []
    first.commit()
    claiming.result(DEADLINE_SECONDS)
    assert state_of(run) in (State.READY, State.CLAIMED)
    assert slots() == {f"job:{job.pk}": 1}


def test_an_attempt_that_fails_while_its_job_is_limited_goes_to_wait_for_a_slot(now, first, second, database):
    job = JobFactory(retry_base_seconds=60)
    entry = QueueEntryFactory(job=job, claimed=True)
    first.begin()
    first.run(finish, [ack_of(entry.run_id, entry.holder, AckStatus.FAILURE)], now)
    change = start_second(second, database, edit, job, now, max_concurrent=1)
    first.commit()
    change.result(DEADLINE_SECONDS)
    assert state_of(entry.run_id) == State.GATED


def test_a_limit_that_is_set_while_an_attempt_fails_is_seen_by_it(now, first, second, database):
    job = JobFactory(retry_base_seconds=60)
    entry = QueueEntryFactory(job=job, claimed=True)
    first.begin()
    first.run(edit, job, now, max_concurrent=1)
    ack = start_second(second, database, finish, [ack_of(entry.run_id, entry.holder, AckStatus.FAILURE)], now)
    first.commit()
    ack.result(DEADLINE_SECONDS)
    assert state_of(entry.run_id) == State.GATED
    assert not Slot.objects.exists()


def test_a_run_that_is_admitted_while_its_job_moves_to_another_group_has_slots_of_one_of_them_only(
    now, first, second, database
):
    old, new = group_of(1, "old"), group_of(1, "new")
    job = limited_job(max_concurrent=None, concurrency_group=old)
    run = waiting_run(job, now)
    first.begin()
    assert first.run(admit, now) == 1
    change = start_second(second, database, edit, job, now, concurrency_group="new")
    first.commit()
    change.result(DEADLINE_SECONDS)
    assert state_of(run) == State.READY
    assert slots() == {f"group:{new.pk}": 1}


def test_a_groups_limit_falls_while_its_last_slot_is_given(now, first, second, database):
    group = group_of(2)
    job = limited_job(max_concurrent=None, concurrency_group=group)
    runs = [waiting_run(job, now - SECOND), waiting_run(job, now)]
    first.begin()
    assert first.run(admit, now) == 2
    change = start_second(second, database, save_group, "db", 1, now, ACTOR, "default")
    first.commit()
    change.result(DEADLINE_SECONDS)
    assert states(runs) == [State.READY, State.GATED]


def test_completions_in_crossed_domains_do_not_wait_in_a_circle(now, first, second):
    """Each batch of acks frees slots of the same two jobs, in opposite order; fifty rounds."""
    jobs = [limited_job(max_concurrent=4, max_queue_depth=1000) for _ in range(2)]
    holder = RunnerInstanceFactory()
    for n in range(60):
        for job in jobs:
            waiting_run(job, now + timedelta(milliseconds=n))
    later = now + SECOND
    admit(later)
    for _ in range(12):
        held = claim(later, holder, 8)
        by_job = {job.pk: [one for one in held if one.job_id == job.pk] for job in jobs}
        pairs = [[by_job[jobs[0].pk][0], by_job[jobs[1].pk][0]], [by_job[jobs[1].pk][1], by_job[jobs[0].pk][1]]]
        futures = [
            session.start(finish, [ack_of(one.run_id, holder) for one in pair], later)
            for session, pair in zip((first, second), pairs, strict=True)
        ]
        for future in futures:
            future.result(DEADLINE_SECONDS)
        rest = [one for ones in by_job.values() for one in ones[2:]]
        finish([ack_of(one.run_id, holder) for one in rest], later)
        assert Slot.objects.count() == 8


def test_a_claim_that_was_first_keeps_its_run_from_the_queues_time(now, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    entry = QueueEntryFactory(job__queue_ttl_seconds=60, available_at=now - timedelta(hours=1))
    holder = RunnerInstanceFactory()
    with Session() as claiming, Session() as reaping:
        pid = reaping.backend_pid
        claiming.begin()
        assert len(claiming.run(claim_due, now, 1, holder.pk, [entry.lane_id])) == 1
        expired = reaping.start(expire_waiting, now)
        poll_until(lambda: is_waiting_for_lock(pid), what="the reaper waits for the claim")
        claiming.commit()
        assert expired.result(DEADLINE_SECONDS) == 0
    assert QueueEntry.objects.get().state == QueueEntry.State.CLAIMED
