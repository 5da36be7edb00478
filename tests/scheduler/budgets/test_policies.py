"""What becomes of a fire that finds its job busy, and of runs that wait too long."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.clock import ManualClock
from runners.models import AuditEvent
from scheduler.domain.budgets import Budget, Limits, fate_of_fire, has_room, lowest_free
from scheduler.models import Job, QueueEntry, Run
from scheduler.services.admit import admit
from scheduler.services.materialize import materialize
from scheduler.services.trigger_runs import trigger_run
from scheduler.services.waiting import expire_waiting, skip_beyond_depth
from scheduler.workers import reaper
from tests.factories import JobFactory, QueueEntryFactory, RunnerInstanceFactory, TriggerFactory
from tests.scheduler.budgets.world import (
    SECOND,
    State,
    ack,
    claim,
    fire,
    group_of,
    limited_job,
    running,
    slots,
    state_of,
    states,
    waiting_run,
)

MINUTE = timedelta(minutes=1)


def play(job: Job, clock: ManualClock, minutes: int, takes: timedelta) -> tuple[dict[int, int], int]:
    """Let the job's minutely trigger run for so long, its handler needing ``takes``; return the minute in which each
    fire began by the minute of the fire, and the most that ran at once."""
    start = clock.now()
    holder = RunnerInstanceFactory()
    ends: dict = {}
    began: dict[int, int] = {}
    most = 0
    while clock.now() <= start + minutes * MINUTE:
        now = clock.now()
        if (now - start).total_seconds() % 60 == 0:
            materialize(now)
        for held in [one for one, at in ends.items() if at <= now]:
            ack(held, holder, now)
            del ends[held]
        admit(now)
        for held in claim(now, holder):
            ends[held] = now + takes
            began[round((held.scheduled_for - start) / MINUTE)] = round((now - start) / SECOND)
        most = max(most, running())
        clock.tick(timedelta(seconds=30))
    return {minute: second // 30 for minute, second in began.items()}, most


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        # by minute of the fire: the half minute in which it began
        ("skip", {1: 2, 11: 22, 21: 42}),
        # At 10:30 the first ends and the one that waited begins; it keeps the next one waiting.
        ("queue_one", {1: 2, 2: 21, 11: 40}),
    ],
)
def test_a_minutely_job_that_needs_nine_and_a_half_minutes(now, settings, overlap, expected):
    job = limited_job(max_concurrent=None, overlap=overlap)
    TriggerFactory(job=job)
    began, most = play(job, ManualClock(now), 25, timedelta(minutes=9, seconds=30))
    assert began == expected
    assert most == 1
    ran = set(expected)
    skipped = Run.objects.filter(job=job, verdict="skipped")
    assert set(skipped.values_list("reason", flat=True)) == {"overlap"}
    waiting = Run.objects.filter(job=job, entry__available_at__lte=now + 25 * MINUTE)
    told = {round((run.scheduled_for - now) / MINUTE) for run in [*skipped, *waiting]}
    assert told | ran == set(range(1, 26)), "every fire ran, waits or is recorded as skipped"
    assert AuditEvent.objects.filter(action="run.skipped", tenant="default").count() == skipped.count()


@pytest.mark.django_db
def test_a_parallel_job_runs_as_often_as_it_fires(now):
    job = JobFactory()
    TriggerFactory(job=job)
    began, most = play(job, ManualClock(now), 12, timedelta(minutes=9, seconds=30))
    assert began == {minute: 2 * minute for minute in range(1, 13)}
    assert most == 10
    assert not Run.objects.filter(verdict="skipped").exists()


@pytest.mark.django_db
def test_a_skip_job_that_may_run_twice_at_once_skips_the_third(now):
    job = limited_job(max_concurrent=2, overlap="skip")
    fires = [fire(job, now + n * SECOND) for n in range(3)]
    admit(now + 10 * SECOND)
    assert states(fires) == [State.READY, State.READY, "skipped"]


@pytest.mark.django_db
def test_a_fire_that_was_let_wait_is_never_skipped_later(now):
    """Its group is busy, not its job; then somebody triggers the job by hand, and that run is the older one."""
    group = group_of(1)
    rival, job = limited_job(concurrency_group=group), limited_job(concurrency_group=group, overlap="skip")
    waiting_run(rival, now - SECOND)
    kept = fire(job, now)
    admit(now)
    assert state_of(kept) == State.GATED
    waiting_run(job, now - MINUTE)
    admit(now + SECOND)
    assert state_of(kept) == State.GATED
    assert not Run.objects.filter(verdict="skipped").exists()


@pytest.mark.django_db
def test_manual_triggers_are_never_skipped(now):
    job = limited_job(overlap="skip")
    runs = [trigger_run(job.job_key, now).run_id for _ in range(3)]
    assert states(runs) == [State.READY, State.GATED, State.GATED]


@pytest.mark.django_db
def test_a_fire_that_finds_the_queue_full_is_skipped_when_it_falls_due(now):
    job = limited_job(max_queue_depth=3)
    fires = [fire(job, now + n * SECOND) for n in range(5)]
    for second in range(5):
        admit(now + second * SECOND)
    assert states(fires) == [State.READY, State.GATED, State.GATED, "skipped", "skipped"]
    assert set(Run.objects.filter(verdict="skipped").values_list("reason", flat=True)) == {"queue_full"}


@pytest.mark.django_db
def test_of_an_unlimited_job_too_but_nothing_that_was_caught_up_or_triggered_or_tried(now):
    job = JobFactory(max_queue_depth=2)
    planned = [{"run__scheduled_for": now - n * SECOND, "run__created_at": now - MINUTE} for n in (5, 6)]
    entries = [
        QueueEntryFactory(job=job, available_at=now - (10 - n) * SECOND, **kind)
        for n, kind in enumerate(
            [
                {},
                {},
                {"run__kind": "triggered", **planned[0]},
                {"attempt": 1, **planned[1]},
                {"run__created_at": now},
                planned[0],
            ]
        )
    ]
    later = QueueEntryFactory(job=job, available_at=now + SECOND)
    QueueEntry.objects.filter(run__created_at=now).update(available_at=now)
    reaper.run_once(now)
    assert states([e.run_id for e in entries]) == [State.READY] * 5 + ["skipped"]
    assert state_of(later.run_id) == State.READY
    assert skip_beyond_depth(now) == 0


@pytest.mark.django_db
@pytest.mark.parametrize("state", [State.READY, State.GATED])
def test_a_run_that_waits_beyond_its_time_in_the_queue_is_cancelled(now, state):
    job = limited_job(queue_ttl_seconds=60)
    waiting_run(job, now - 61 * SECOND)
    if state == State.READY:
        admit(now - 61 * SECOND)
    young = waiting_run(job, now - 59 * SECOND)
    (old,) = QueueEntry.objects.exclude(pk=young).values_list("pk", flat=True)
    assert state_of(old) == state
    assert expire_waiting(now) == 1
    run = Run.objects.get(pk=old)
    assert (run.verdict, run.reason) == ("cancelled", "queue_ttl")
    assert state_of(young) == State.READY
    assert slots() == {f"job:{job.pk}": 1}


@pytest.mark.django_db
def test_what_is_claimed_paused_or_of_a_job_without_a_limit_of_time_is_left_in_the_queue(now):
    old = now - timedelta(days=9)
    kept = [
        QueueEntryFactory(job__queue_ttl_seconds=60, available_at=old, claimed=True),
        QueueEntryFactory(job__queue_ttl_seconds=60, available_at=old, state=State.HELD),
        QueueEntryFactory(available_at=old),
    ]
    assert expire_waiting(now) == 0
    assert QueueEntry.objects.count() == len(kept)


@pytest.mark.django_db
def test_a_coalescing_job_answers_with_the_run_that_waits_already(now):
    job = JobFactory(coalesce=True, max_queue_depth=1)
    planned = QueueEntryFactory(job=job, available_at=now + MINUTE)
    first = trigger_run(job.job_key, now)
    assert not first.coalesced
    assert first.run_id != planned.run_id
    second = trigger_run(job.job_key, now, idempotency_key="k")
    assert (second.run_id, second.coalesced, second.queued) == (first.run_id, True, 1)
    assert trigger_run(job.job_key, now, idempotency_key="k").deduplicated
    claim(now, RunnerInstanceFactory())
    third = trigger_run(job.job_key, now)
    assert (third.run_id != first.run_id, third.coalesced) == (True, False)


def test_budgets_are_nested_and_named():
    limits = Limits(7, "acme", max_concurrent=2, group_id=3, group_limit=5, tenant_limit=9)
    assert limits.budgets == (Budget("job:7", 2), Budget("group:3", 5), Budget("tenant:acme", 9))
    assert limits.domain == "tenant:acme"
    assert Limits(7, "acme", group_id=3, group_limit=5).domain == "group:3"
    assert Limits(7, "acme", overlap="skip").budgets == (Budget("job:7", 1),)
    assert not Limits(7, "acme").is_limited


def test_room_is_counted_and_numbers_are_the_lowest_free():
    assert has_room([Budget("a", 2)], {"a": {5}})
    assert not has_room([Budget("a", 2), Budget("b", 1)], {"a": set(), "b": {0}})
    assert [lowest_free(numbers) for numbers in (set(), {0, 1}, {0, 2}, {7})] == [0, 2, 1, 0]


@pytest.mark.parametrize(
    ("overlap", "active", "waiting", "fate"),
    [
        ("parallel", 9, 3, ""),
        ("skip", 0, 0, ""),
        ("skip", 1, 0, "overlap"),
        ("skip", 0, 1, "overlap"),
        ("queue_one", 1, 0, ""),
        ("queue_one", 0, 1, ""),
        ("queue_one", 1, 1, "overlap"),
        ("parallel", 0, 4, "queue_full"),
    ],
)
def test_the_fate_of_a_fire(overlap, active, waiting, fate):
    limits = Limits(1, "t", max_concurrent=1, overlap=overlap)
    assert fate_of_fire(limits, active=active, waiting=waiting, unclaimed=waiting, most_unclaimed=4) == fate


@pytest.mark.django_db
@pytest.mark.parametrize("overlap", ["skip", "queue_one"])
def test_fires_that_are_caught_up_are_not_decided_about_once_more(now, overlap):
    """The catch-up said that these run, each after the other."""
    job = limited_job(overlap=overlap, catch_up="all", max_catch_up=3)
    TriggerFactory(job=job)
    at = now + 10 * MINUTE
    materialize(at)
    admit(at)
    due = QueueEntry.objects.filter(job=job, available_at__lte=at)
    assert list(due.order_by("available_at").values_list("state", flat=True)) == [State.READY, State.GATED, State.GATED]
