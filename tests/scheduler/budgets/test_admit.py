"""Due runs of limited jobs get all their slots or none, in order, and hand them on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from croniq_site.kernel.database import write_transaction
from runners.services.audit import SYSTEM
from scheduler.domain.work import Ack, AckAnswer, AckStatus, LossCause
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Run, Slot
from scheduler.services.admit import admit, settle_later
from scheduler.services.cancel import cancel_runs
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.materialize import materialize
from scheduler.services.release import reap_leases, release, wind_down
from scheduler.services.trigger_runs import trigger_run
from scheduler.services.waiting import drop_stray_slots, gate_strays
from scheduler.workers import reaper
from tests.factories import (
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerInstanceFactory,
    SlotFactory,
    TriggerFactory,
)
from tests.scheduler.budgets.world import (
    SECOND,
    State,
    ack,
    claim,
    fire,
    group_of,
    limited_job,
    other_lane,
    slots,
    state_of,
    states,
    waiting_run,
)

pytestmark = pytest.mark.django_db

TICK = timedelta(microseconds=1)
TOMORROW = timedelta(days=1)


@pytest.fixture
def holder(db):
    return RunnerInstanceFactory()


def test_as_many_are_admitted_as_the_limit_allows_the_oldest_first(now):
    job = limited_job(max_concurrent=2)
    ids = [waiting_run(job, now - SECOND * age) for age in (1, 3, 2)]
    assert admit(now) == 2
    assert states(ids) == [State.GATED, State.READY, State.READY]
    assert sorted(Slot.objects.values_list("budget", "n", "admitted_at")) == [
        (f"job:{job.pk}", 0, now),
        (f"job:{job.pk}", 1, now),
    ]
    assert admit(now) == 0


def test_one_call_admits_about_as_many_as_it_is_asked_to(now):
    for _ in range(3):
        waiting_run(limited_job(), now)
    assert [admit(now, limit=2), admit(now, limit=2)] == [2, 1]


def test_in_a_group_priority_goes_before_age_and_age_before_id(now):
    group = group_of(3)
    plain = limited_job(max_concurrent=None, concurrency_group=group)
    urgent = limited_job(max_concurrent=None, concurrency_group=group, priority=5, lane=other_lane(5))
    old, twins = waiting_run(plain, now - SECOND), sorted(waiting_run(plain, now - SECOND / 2) for _ in range(2))
    first = waiting_run(urgent, now)
    admit(now)
    assert states([first, old, *twins]) == [State.READY, State.READY, State.READY, State.GATED]


def test_a_run_is_admitted_at_its_instant_and_not_a_microsecond_before(now):
    run = waiting_run(limited_job(), now)
    assert admit(now - TICK) == 0
    assert not Slot.objects.exists()
    assert admit(now) == 1
    assert state_of(run) == State.READY


def test_a_run_gets_all_its_slots_or_none(now, settings):
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 2
    group = group_of(1)
    first, second = (limited_job(concurrency_group=group) for _ in range(2))
    runs = [waiting_run(first, now - SECOND), waiting_run(second, now)]
    admit(now)
    assert states(runs) == [State.READY, State.GATED]
    assert slots() == {f"job:{first.pk}": 1, f"group:{group.pk}": 1, "tenant:default": 1}


def test_tenants_are_limited_each_by_itself(now, settings):
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 1
    jobs = [JobFactory(tenant=tenant, lane=other_lane(tenant=tenant)) for tenant in ("a", "a", "b")]
    runs = [waiting_run(job, now - age * SECOND) for age, job in zip((2, 1, 0), jobs, strict=True)]
    admit(now)
    assert states(runs) == [State.READY, State.GATED, State.READY]
    assert slots() == {"tenant:a": 1, "tenant:b": 1}


def test_what_is_blocked_blocks_nobody_else_in_its_group(now):
    group = group_of(2)
    busy, free = (limited_job(concurrency_group=group) for _ in range(2))
    runs = [waiting_run(busy, now - 2 * SECOND), waiting_run(busy, now - SECOND), waiting_run(free, now)]
    admit(now)
    assert states(runs) == [State.READY, State.GATED, State.READY]


def test_the_run_that_needs_most_is_passed_by_only_while_its_own_budgets_are_full(now, settings, holder):
    """It needs job, group and tenant; an endless crowd needs the tenant alone and is always there."""
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 2
    group = group_of(1)
    needy, rival, crowd = (
        limited_job(concurrency_group=group),
        limited_job(max_concurrent=None, concurrency_group=group),
        limited_job(max_concurrent=None),
    )
    waiting_run(rival, now - 9 * SECOND)
    waiting_run(crowd, now - 8 * SECOND)
    admit(now)
    held = claim(now, holder)
    most = waiting_run(needy, now - SECOND)
    for _ in range(20):
        waiting_run(crowd, now)
        waiting_run(rival, now)
    of_crowd, of_rival = sorted(held, key=lambda one: one.job_id == rival.pk)
    for _ in range(5):
        ack(of_crowd, holder, now)
        assert state_of(most) == State.GATED, "its group is busy"
        (of_crowd,) = claim(now, holder)
        assert of_crowd.job_id == crowd.pk
    ack(of_rival, holder, now)
    assert state_of(most) == State.READY


@pytest.mark.parametrize("end", ["success", "failure", "the last failure", "lost", "cancelled", "given back"])
def test_the_slot_is_handed_on_in_the_transaction_that_frees_it(now, holder, end):
    job = limited_job(max_retries=0 if end == "the last failure" else 3)
    # What is given back was there before: it would go first again.
    first, second = waiting_run(job, now if end == "given back" else now - SECOND), waiting_run(job, now)
    if end == "given back":
        QueueEntry.objects.filter(pk=second).update(available_at=now + SECOND)
    admit(now)
    if end == "cancelled":
        cancel_runs([first], now, SYSTEM)
    else:
        (held,) = claim(now, holder)
        assert held.run_id == first
        if end == "given back":
            QueueEntry.objects.filter(pk=second).update(available_at=now - SECOND)
            release([(first, 1)], now, LossCause.DISCONNECTED)
        elif end == "lost":
            assert reap_leases(now + timedelta(hours=1)).lost == 1
        else:
            ack(held, holder, now, AckStatus.SUCCESS if end == "success" else AckStatus.FAILURE)
    assert state_of(second) == State.READY
    assert Slot.objects.get().run_id == second


def test_a_running_singleton_that_is_cancelled_keeps_its_slot_until_its_handler_is_gone(now, holder):
    job = limited_job()
    first, second, third = (waiting_run(job, now + n * TICK) for n in range(3))
    later = now + SECOND
    admit(later)
    (held,) = claim(later, holder)
    cancel_runs([first], later, SYSTEM)
    for seconds in range(5):  # the handler needs five seconds
        admit(later + seconds * SECOND)
        reaper.run_once(later + seconds * SECOND)
        assert state_of(second) == State.GATED
        assert claim(later + seconds * SECOND, holder) == []
    assert ack(held, holder, later + 5 * SECOND) is AckAnswer.WOUND_DOWN
    assert state_of(second) == State.READY
    # Two other ways for a handler to be gone: a poll that does not list it, and its lease.
    (held,) = claim(later, holder)
    cancel_runs([second], later, SYSTEM)
    assert wind_down(holder.pk, [second], later) == 1
    assert state_of(third) == State.READY


def test_a_retry_gives_its_slot_up_while_it_backs_off_and_is_admitted_again(now, holder):
    job = limited_job(retry_base_seconds=60, retry_jitter=0)
    first, second = waiting_run(job, now - SECOND), waiting_run(job, now)
    admit(now)
    (held,) = claim(now, holder)
    ack(held, holder, now, AckStatus.FAILURE)
    assert states([first, second]) == [State.GATED, State.READY]
    (other,) = claim(now, holder)
    due = QueueEntry.objects.get(pk=first).available_at
    assert due == now + timedelta(seconds=60)
    assert admit(due) == 0, "the other one runs"
    ack(other, holder, due)
    (again,) = claim(due, holder)
    assert (again.run_id, again.attempt) == (first, 2)


def test_a_singleton_with_a_run_planned_for_tomorrow_runs_now_when_it_is_triggered(now, holder):
    job = limited_job()
    planned = waiting_run(job, now + TOMORROW)
    result = trigger_run(job.job_key, now)
    assert [one.run_id for one in claim(now, holder)] == [result.run_id]
    assert state_of(planned) == State.GATED
    assert slots() == {f"job:{job.pk}": 1}


def test_runs_of_unlimited_jobs_never_touch_budgets(now, holder, database):
    trigger = TriggerFactory()
    with CaptureQueriesContext(connection) as queries:
        materialize(now)
        trigger_run(trigger.job.job_key, now)
        (claimed,) = claim_due(now, 5, holder.pk, [trigger.job.lane_id])
        ack(claimed, holder, now)
    assert Run.objects.filter(verdict="completed").count() == 1
    touched = [q["sql"] for q in queries if "scheduler_slot" in q["sql"] or "advisory" in q["sql"]]
    # PostgreSQL's one statement of an ack names the table, for those of limited jobs.
    assert len(touched) == (1 if database == "postgresql" else 0)


def test_a_limit_that_was_lowered_is_kept_by_counting_all_that_runs(now):
    """Slot 0 of three is free again, the limit is two by now: nobody gets it."""
    job = limited_job(max_concurrent=2)
    for n in (1, 2):
        SlotFactory(budget=f"job:{job.pk}", n=n, run=QueueEntryFactory(job=job, claimed=True).run)
    waiting = waiting_run(job, now)
    assert admit(now) == 0
    assert state_of(waiting) == State.GATED


def test_a_backlog_longer_than_a_transaction_is_admitted_at_once(now):
    job = limited_job(max_concurrent=250)
    for _ in range(230):
        waiting_run(job, now)
    assert admit(now) == 230
    assert Slot.objects.count() == 230


@pytest.mark.parametrize("its_run", ["is over", "is gated"])
def test_a_slot_that_nobody_uses_is_found_and_handed_on(now, its_run):
    job = limited_job()
    run = RunFactory(job=job) if its_run == "is over" else Run.objects.get(pk=waiting_run(job, now + TOMORROW))
    SlotFactory(budget=f"job:{job.pk}", run=run)
    waiting = waiting_run(job, now)
    assert admit(now) == 0
    assert drop_stray_slots(now) == 1
    assert Slot.objects.get().run_id == waiting
    assert drop_stray_slots(now) == 0


def test_a_lost_singleton_is_admitted_again_within_its_lease_and_one_sweep(now, holder):
    """CC-01: killed mid-run, and back under a new id."""
    job = limited_job(lease_seconds=60)
    run = waiting_run(job, now)
    admit(now)
    claim(now, holder)
    back = RunnerInstanceFactory()
    assert claim(now + 59 * SECOND, back) == []
    reaper.run_once(now + 60 * SECOND)
    (again,) = claim(now + 60 * SECOND, back)
    assert (again.run_id, again.attempt) == (run, 2)
    ack(again, back, now + 61 * SECOND)
    assert not Slot.objects.exists()


def test_runs_that_were_claimable_when_tenants_were_first_limited_wait_for_slots(now, settings):
    job = JobFactory(max_queue_depth=1)
    due, planned = (QueueEntryFactory(job=job, available_at=now + n * TOMORROW).run_id for n in range(2))
    second = QueueEntryFactory(job=job, available_at=now + TICK).run_id
    assert gate_strays(now) == 0
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 1
    assert gate_strays(now + TICK) == 3
    assert states([due, second, planned]) == [State.GATED] * 3
    # What waited by then waits on: the rules are about what falls due under them.
    assert (admit(now + TICK), states([due, second])) == (1, [State.READY, State.GATED])
    assert gate_strays(now) == 0  # it has its slot
    assert state_of(due) == State.READY
    # And back: who is gated without any limit is let go.
    settings.CRONIQ_TENANT_MAX_CONCURRENT = None
    Job.objects.update(max_queue_depth=3)
    assert admit(now + TOMORROW) == 2
    assert state_of(planned) == State.READY


def test_the_group_of_a_budget_is_of_its_tenant_only(now):
    ours, theirs = group_of(1, tenant="a"), group_of(1, tenant="b")
    assert ours.name == theirs.name
    jobs = [limited_job(tenant=group.tenant, concurrency_group=group) for group in (ours, theirs)]
    runs = [waiting_run(job, now) for job in jobs]
    admit(now)
    assert states(runs) == [State.READY, State.READY]
    assert ConcurrencyGroup.objects.count() == 2


def test_finishing_many_hands_on_as_many(now, holder):
    job = limited_job(max_concurrent=5)
    runs = [waiting_run(job, now + n * TICK) for n in range(12)]
    later = now + SECOND
    admit(later)
    for size in (5, 5, 2):
        held = claim(later, holder)
        assert len(held) == size
        finish([Ack(one.run_id, one.attempt, holder.runner.runner_id, AckStatus.SUCCESS) for one in held], later)
    assert states(runs) == ["completed"] * 12
    assert not Slot.objects.exists()


def settled(domain: str, now) -> None:
    with write_transaction():
        settle_later([domain], now)


def test_what_moved_to_another_domain_is_not_admitted_under_the_lock_of_its_old_one(now, settings):
    """Two locks for one budget would be none: each would find the last slot free."""
    grouped, plain = limited_job(concurrency_group=group_of(1)), limited_job()
    run_ids = [waiting_run(job, now) for job in (grouped, plain)]
    settled(f"job:{grouped.pk}", now)
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 5
    settled(f"job:{plain.pk}", now)
    assert states(run_ids) == [State.GATED, State.GATED]
    settings.CRONIQ_TENANT_MAX_CONCURRENT = None
    settled("tenant:default", now)
    assert states(run_ids) == [State.GATED, State.GATED]
    settled(f"group:{grouped.concurrency_group_id}", now)
    settled(f"job:{plain.pk}", now)
    assert states(run_ids) == [State.READY, State.READY]


def test_a_fire_about_which_nothing_is_decided_yet_gets_no_slot(now, monkeypatch):
    """More fires than a transaction decides about: what the next one decides is not run before it."""
    monkeypatch.setattr("scheduler.services.admit.SKIPPED_PER_TRANSACTION", 2)
    job = limited_job(max_concurrent=10, max_queue_depth=1)
    run_ids = [fire(job, now - n * SECOND) for n in range(4, 0, -1)]
    settled(f"job:{job.pk}", now)
    assert states(run_ids) == [State.READY, "skipped", State.GATED, State.GATED]
    admit(now)
    assert states(run_ids) == [State.READY, "skipped", "skipped", "skipped"]
