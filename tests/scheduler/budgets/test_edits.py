"""Limits that change while runs wait and run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.models import AuditEvent
from scheduler.domain.work import AckStatus
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Slot
from scheduler.services.admit import admit
from scheduler.services.groups import delete_group, save_group
from scheduler.services.jobs import delete_job, save_job
from scheduler.services.pause import pause_job, resume_job
from scheduler.workers import reaper
from tests.factories import JobFactory, QueueEntryFactory, RunnerInstanceFactory, TriggerFactory
from tests.scheduler.budgets.world import (
    SECOND,
    State,
    ack,
    claim,
    group_of,
    limited_job,
    running,
    slots,
    state_of,
    states,
    waiting_run,
)
from tests.scheduler.planning.support import ACTOR, make_job, principal

pytestmark = pytest.mark.django_db


def edit(job: Job, now, **fields: object) -> Job:
    return save_job({"job_key": job.job_key, **fields}, now, ACTOR, partial=True)[0]


@pytest.fixture
def holder(db):
    return RunnerInstanceFactory()


def test_a_limit_that_is_raised_admits_more_at_once_and_one_that_is_lowered_takes_back_what_nobody_claimed(now):
    job = limited_job(max_concurrent=2)
    runs = [waiting_run(job, now - n * SECOND) for n in (4, 3, 2, 1)]
    admit(now)
    edit(job, now, max_concurrent=3)
    assert states(runs) == [State.READY] * 3 + [State.GATED]
    edit(job, now, max_concurrent=1)
    assert states(runs) == [State.READY] + [State.GATED] * 3
    assert slots() == {f"job:{job.pk}": 1}


def test_what_runs_keeps_its_slot_when_the_limit_falls_and_counts(now, holder):
    job = limited_job(max_concurrent=3)
    runs = [waiting_run(job, now - n * SECOND) for n in (5, 4, 3, 2)]
    admit(now)
    held = claim(now, holder)
    edit(job, now, max_concurrent=1)
    for one in held[:2]:
        ack(one, holder, now)
        assert state_of(runs[3]) == State.GATED
    ack(held[2], holder, now)
    assert state_of(runs[3]) == State.READY


def test_a_limit_that_is_removed_lets_all_go_also_what_is_planned(now, holder):
    job = limited_job()
    runs = [waiting_run(job, now), waiting_run(job, now), waiting_run(job, now + timedelta(days=1))]
    admit(now)
    (held,) = claim(now, holder)
    edit(job, now, max_concurrent=None)
    assert sorted(states(runs)) == [State.READY, State.READY, State.CLAIMED]
    assert not Slot.objects.exists()
    ack(held, holder, now)
    assert len(claim(now, holder)) == 1


def test_a_limit_that_is_set_counts_what_runs_already(now, holder):
    job = make_job(now)
    runs = [waiting_run(job, now - n * SECOND) for n in (3, 2, 1)]
    QueueEntry.objects.update(state=State.READY, waits_since=None)
    planned = waiting_run(job, now + SECOND)
    QueueEntry.objects.filter(pk=planned).update(state=State.READY, waits_since=None)
    held = claim(now, holder, 2)
    edit(job, now, max_concurrent=1)
    assert states(runs) == [State.CLAIMED, State.CLAIMED, State.GATED]
    assert slots() == {f"job:{job.pk}": 2}
    assert QueueEntry.objects.get(pk=planned).waits_since is None, "it has yet to fall due"
    ack(held[0], holder, now)
    assert state_of(runs[2]) == State.GATED
    ack(held[1], holder, now, AckStatus.FAILURE)
    assert state_of(runs[2]) == State.READY


def test_a_job_that_changes_its_group_frees_the_old_one_and_is_counted_in_the_new_one(now, holder):
    old, new = group_of(1, "old"), group_of(1, "new")
    mover, left, met = (limited_job(max_concurrent=None, concurrency_group=group) for group in (old, old, new))
    waiting_run(mover, now - SECOND)
    stays = waiting_run(left, now)
    admit(now)
    (held,) = claim(now, holder)
    edit(mover, now, concurrency_group="new")
    assert state_of(stays) == State.READY
    assert slots() == {f"group:{old.pk}": 1, f"group:{new.pk}": 1}
    waits = waiting_run(met, now)
    assert admit(now) == 0
    ack(held, holder, now)
    assert state_of(waits) == State.READY


def test_an_edit_of_a_groups_limit_reaches_all_its_jobs(now):
    group = group_of(1)
    jobs = [limited_job(max_concurrent=None, concurrency_group=group) for _ in range(3)]
    runs = [waiting_run(job, now - n * SECOND) for n, job in zip((3, 2, 1), jobs, strict=True)]
    admit(now)
    assert save_group("db", 3, now, ACTOR, "default") is False
    assert states(runs) == [State.READY] * 3
    save_group("db", 1, now, ACTOR, "default")
    assert states(runs) == [State.READY, State.GATED, State.GATED]
    assert slots() == {f"group:{group.pk}": 1}


def test_a_group_that_nobody_made_is_refused_and_no_job_is_made(now):
    with pytest.raises(InvalidInput) as refused:
        make_job(now, concurrency_group="db")
    assert list(refused.value.fields) == ["concurrency_group"]
    assert not Job.objects.exists()
    group_of(1, "db", tenant="acme")
    with pytest.raises(InvalidInput):
        make_job(now, concurrency_group="db")
    job = make_job(now, concurrency_group="db", tenant="acme")
    assert job.concurrency_group.tenant == "acme"
    with pytest.raises(InvalidInput) as refused:
        edit(job, now, tenant="other")
    assert list(refused.value.fields) == ["concurrency_group"]
    theirs = group_of(2, "db", tenant="other")
    assert edit(job, now, tenant="other").concurrency_group == theirs


def test_a_key_of_a_tenant_finds_its_tenants_group(now):
    group_of(1, "db", tenant="acme")
    fields = {"job_key": "demo:job", "concurrency_group": "db"}
    job, _ = save_job(fields, now, ACTOR, principal("jobs:write", tenant="acme"))
    assert job.concurrency_group.tenant == "acme"


def test_groups_are_made_changed_and_deleted_only_where_nobody_needs_them(now, holder):
    assert save_group("db", 2, now, ACTOR, "default") is True
    assert save_group("db", 2, now, ACTOR, "default") is False
    job = make_job(now, concurrency_group="db")
    with pytest.raises(Conflict):
        delete_group("db", now, ACTOR, "default")
    waiting_run(job, now)
    admit(now)
    (held,) = claim(now, holder)
    delete_job(job.job_key, now, ACTOR)
    with pytest.raises(Conflict):
        delete_group("db", now, ACTOR, "default")
    ack(held, holder, now)
    delete_group("db", now, ACTOR, "default")
    assert not ConcurrencyGroup.objects.exists()
    with pytest.raises(NotFound):
        delete_group("db", now, ACTOR, "default")
    actions = list(AuditEvent.objects.filter(target_type="group").order_by("pk").values_list("action", flat=True))
    assert actions == ["group.created", "group.deleted"]


@pytest.mark.parametrize(("name", "limit", "field"), [("", 1, "name"), ("x\n", 1, "name"), (7, 1, "name")])
def test_a_groups_name_is_one(now, name, limit, field):
    with pytest.raises(InvalidInput) as refused:
        save_group(name, limit, now, ACTOR, "default")
    assert list(refused.value.fields) == [field]


@pytest.mark.parametrize("limit", [0, -1, 10_001, "1", None, True, 1.5])
def test_a_groups_limit_is_a_number_from_one(now, limit):
    with pytest.raises(InvalidInput) as refused:
        save_group("db", limit, now, ACTOR, "default")
    assert list(refused.value.fields) == ["max_concurrent"]


def test_a_pause_gives_the_slots_of_what_did_not_begin_to_others_and_a_resume_lets_it_queue_again(now):
    group = group_of(1)
    paused, other = (limited_job(concurrency_group=group) for _ in range(2))
    first, second = waiting_run(paused, now - SECOND, attempt=1), waiting_run(other, now)
    admit(now)
    pause_job(paused.job_key, now)
    assert states([first, second]) == [State.HELD, State.READY]
    resume_job(paused.job_key, now)
    assert state_of(first) == State.GATED
    delete_job(other.job_key, now, ACTOR)
    assert state_of(first) == State.READY
    assert slots() == {f"job:{paused.pk}": 1, f"group:{group.pk}": 1}


def test_nothing_is_admitted_ahead_of_its_time_beside_one_that_is_due(now):
    job = limited_job(max_concurrent=2)
    runs = [waiting_run(job, now), waiting_run(job, now + SECOND)]
    assert admit(now) == 1
    assert states(runs) == [State.READY, State.GATED]


def test_an_edit_of_what_is_no_limit_changes_no_slot(now):
    job = limited_job()
    waiting_run(job, now)
    admit(now)
    before = list(Slot.objects.values())
    edit(job, now, description="x", timeout="9m")
    assert list(Slot.objects.values()) == before


def test_a_singleton_with_a_limit_that_goes_up_and_down_for_fifty_rounds_is_never_over_it(now, holder):
    """CC-02: two ghosts hold the slots of a limit of two; then 1, 3 and none."""
    job = limited_job(max_concurrent=2, lease_seconds=60)
    TriggerFactory(job=job)
    ghost = RunnerInstanceFactory()
    runs = [waiting_run(job, now + n * SECOND / 10) for n in range(110)]
    at = now + 60 * SECOND
    reaper.run_once(at)
    assert len(claim(at, ghost)) == 2
    assert claim(at, holder) == []
    at += 61 * SECOND
    for limit in [2] * 20 + [1] * 15 + [3] * 15:
        if limit != Job.objects.get().max_concurrent:
            job = edit(job, at, max_concurrent=limit)
        reaper.run_once(at)
        held = claim(at, holder)
        assert 0 < len(held) <= limit
        assert running() <= limit
        for one in held:
            ack(one, holder, at)
        at += SECOND
    edit(job, at, max_concurrent=None)
    claim(at, holder, 100)
    assert not Slot.objects.exists()
    assert State.GATED not in states(runs)


def test_a_handler_that_is_still_going_down_keeps_its_place_under_a_new_limit(now):
    job = JobFactory()
    stopping = QueueEntryFactory(job=job, stopping=True).run_id
    waiting = QueueEntryFactory(job=job, waits_since=now).run_id
    for limit, state in ((1, State.GATED), (2, State.READY)):
        edit(job, now, max_concurrent=limit)
        assert Slot.objects.filter(run_id=stopping).count() == 1
        assert state_of(waiting) == state
