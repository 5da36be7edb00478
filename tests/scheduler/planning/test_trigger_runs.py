"""Manual runs: at once, exactly one for a key, and no more than the queue may hold."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import InvalidInput, NotFound, TooManyRequests
from runners.models import AuditEvent
from scheduler.models import IdempotencyKey, Job, Lane, QueueEntry, Run
from scheduler.services.claim import claim_due
from scheduler.services.jobs import deactivate, save_job
from scheduler.services.lanes import lane_for
from scheduler.services.materialize import materialize
from scheduler.services.pause import pause_job
from scheduler.services.retention import drop_expired_keys
from scheduler.services.trigger_runs import KEY_KEPT, queue_depth, trigger_run
from tests.factories import ConcurrencyGroupFactory, RunnerInstanceFactory
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger, principal
from tests.support.races import Session, together

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def finished(run_id, now) -> None:
    QueueEntry.objects.filter(run_id=run_id).delete()
    Run.objects.filter(pk=run_id).update(verdict="completed", finished_at=now)


def test_a_manual_run_is_due_now_and_has_what_the_job_has(now):
    job = make_job(now, timeout="7s", lease="9s", max_retries=1, require=["eu"])
    result = trigger_run("demo:job", now, principal("jobs:trigger"))
    run, entry = Run.objects.get(), QueueEntry.objects.get()
    assert (result.run_id, result.queued, result.deduplicated, result.coalesced) == (run.pk, 1, False, False)
    assert (run.kind, run.scheduled_for, run.occurrence_at, entry.available_at) == ("triggered", now, now, now)
    assert (run.metadata, run.require, run.prefer, run.timeout_seconds) == (None, None, None, None)
    assert (entry.lane_id, entry.own_lane, entry.state) == (job.lane_id, False, QueueEntry.State.READY)
    assert (entry.timeout_seconds, entry.lease_seconds, entry.max_attempts) == (7, 9, 2)
    assert AuditEvent.objects.get(action="job.triggered").actor_id == "somebody"


def test_what_the_caller_says_counts_for_this_run_only(now):
    make_job(now, require=["eu"], prefer=["ssd"], priority=4, pin="r1", metadata={"a": 1})
    trigger_run("demo:job", now, metadata={"b": 2}, require=["gpu"], timeout_seconds="90s")
    run, entry = Run.objects.get(), QueueEntry.objects.select_related("lane").get()
    assert (run.metadata, run.require, run.prefer, run.timeout_seconds) == ({"b": 2}, ["gpu"], None, 90)
    assert (entry.own_lane, entry.timeout_seconds) == (True, 90)
    # Only the capabilities are overridden: preference, priority and the pin are still the job's.
    assert (entry.lane.require, entry.lane.prefer, entry.lane.priority) == (["gpu", "runner:r1"], ["ssd"], 4)


def test_empty_means_the_jobs(now):
    job = make_job(now, require=["eu"])
    trigger_run("demo:job", now, metadata={}, require=[], prefer=[], timeout_seconds="", idempotency_key="  ")
    entry = QueueEntry.objects.get()
    assert (entry.lane_id, entry.own_lane) == (job.lane_id, False)
    assert not IdempotencyKey.objects.exists()


def test_no_caller_can_say_what_is_executed(now):
    make_job(now)
    evil = {"__runner_exec": {"type": "command", "shell": "evil"}, "__x": 1, "ok": {"__inner": "kept"}}
    trigger_run("demo:job", now, metadata=evil)
    assert Run.objects.get().metadata == {"ok": {"__inner": "kept"}}


def test_a_paused_or_inactive_job_is_still_run_by_hand(now):
    make_job(now)
    pause_job("demo:job", now)
    deactivate("demo:job", now, ACTOR)
    trigger_run("demo:job", now)
    assert QueueEntry.objects.get().state == QueueEntry.State.READY


def test_a_run_of_a_limited_job_waits_to_be_admitted(now):
    make_job(now)
    Job.objects.update(concurrency_group=ConcurrencyGroupFactory())
    first, second = (trigger_run("demo:job", now).run_id for _ in range(2))
    assert QueueEntry.objects.get(pk=first).state == QueueEntry.State.READY
    assert QueueEntry.objects.get(pk=second).state == QueueEntry.State.GATED


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("job_key", {"job_key": "nope"}),
        ("job_key", {"job_key": 7}),
        ("metadata", {"metadata": "x"}),
        ("metadata", {"metadata": {"a": "\x00"}}),
        ("metadata", {"metadata": {"a": "x" * 70_000}}),
        ("metadata", {"metadata": {"a": 1e300}}),
        ("require", {"require": "gpu"}),
        ("require", {"require": ["runner:other"]}),
        ("prefer", {"prefer": [""]}),
        ("timeout", {"timeout_seconds": "soon"}),
        ("timeout", {"timeout_seconds": -1}),
        ("timeout", {"timeout_seconds": float("inf")}),
        ("timeout", {"timeout_seconds": [1]}),
        ("idempotency_key", {"idempotency_key": "k" * 201}),
        ("idempotency_key", {"idempotency_key": 5}),
        ("idempotency_key", {"idempotency_key": "\x00"}),
        ("idempotency_key", {"idempotency_key": "\ud800"}),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_field_and_makes_no_run(now, field, values):
    make_job(now)
    with pytest.raises(InvalidInput) as refused:
        trigger_run(**{"job_key": "demo:job", "now": now, **values})
    assert list(refused.value.fields) == [field]
    assert not Run.objects.exists()


def test_unknown_and_foreign_jobs_are_not_found(now):
    make_job(now)
    with pytest.raises(NotFound):
        trigger_run("demo:other", now)
    with pytest.raises(NotFound):
        trigger_run("demo:job", now, principal("jobs:trigger", tenant="acme"))
    assert not Run.objects.exists()


def test_a_key_stands_for_one_run_while_it_is_live_and_for_ten_minutes_after_its_creation(clock):
    make_job(clock.now())
    first = trigger_run("demo:job", clock.now(), idempotency_key="k").run_id
    # Live, however old.
    again = trigger_run("demo:job", clock.tick(3 * KEY_KEPT), idempotency_key=" k ")
    assert (again.run_id, again.deduplicated, again.queued) == (first, True, 1)
    assert drop_expired_keys(clock.now()) == 0
    finished(first, clock.now())
    second = trigger_run("demo:job", clock.now(), idempotency_key="k")
    assert (second.run_id != first, second.deduplicated) == (True, False)
    finished(second.run_id, clock.now())
    # Ended, but younger than ten minutes.
    third = trigger_run("demo:job", clock.tick(KEY_KEPT - SECOND), idempotency_key="k")
    assert (third.run_id, third.deduplicated) == (second.run_id, True)
    assert drop_expired_keys(clock.now()) == 0
    assert not trigger_run("demo:job", clock.tick(SECOND), idempotency_key="k").deduplicated
    assert Run.objects.count() == 3


def test_expired_keys_are_thrown_away(clock):
    make_job(clock.now())
    finished(trigger_run("demo:job", clock.now(), idempotency_key="k").run_id, clock.now())
    assert drop_expired_keys(clock.tick(KEY_KEPT)) == 1
    assert not IdempotencyKey.objects.exists()


def test_keys_of_two_jobs_are_two_keys(now):
    for key in ("demo:a", "demo:b"):
        make_job(now, key)
    assert len({trigger_run(key, now, idempotency_key="k").run_id for key in ("demo:a", "demo:b")}) == 2


@pytest.mark.django_db(transaction=True)
def test_twenty_requests_with_one_key_at_one_instant_make_one_run(now):
    make_job(now)
    results = together([lambda: trigger_run("demo:job", now, idempotency_key="k") for _ in range(20)])
    run = Run.objects.get()
    assert {result.run_id for result in results} == {run.pk}
    assert sorted(result.deduplicated for result in results) == [False] + [True] * 19
    assert QueueEntry.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_twenty_requests_with_a_key_that_has_expired_make_one_run(now):
    make_job(now)
    old = trigger_run("demo:job", now, idempotency_key="k").run_id
    finished(old, now)
    later = now + KEY_KEPT
    results = together([lambda: trigger_run("demo:job", later, idempotency_key="k") for _ in range(20)])
    assert {result.run_id for result in results} == {Run.objects.exclude(pk=old).get().pk}
    assert sum(not result.deduplicated for result in results) == 1


def test_a_full_queue_refuses_and_keeps_no_key(clock):
    job = make_job(clock.now(), max_queue_depth=2)
    for n in (1, 2):
        assert trigger_run("demo:job", clock.now()).queued == n
    with pytest.raises(TooManyRequests) as refused:
        trigger_run("demo:job", clock.now(), idempotency_key="k")
    assert refused.value.retry_after_seconds > 0
    body = refused.value.as_body()
    assert {name: body[name] for name in ("execution_id", "queued", "deduplicated")} == {
        "execution_id": "",
        "queued": 0,
        "deduplicated": False,
    }
    assert Run.objects.count() == 2
    assert not IdempotencyKey.objects.exists()
    # A claimed run no longer waits.
    claim_due(clock.now(), 1, RunnerInstanceFactory().pk, [job.lane_id])
    assert not trigger_run("demo:job", clock.now(), idempotency_key="k").deduplicated


def test_planned_runs_that_are_not_due_do_not_fill_the_queue(clock):
    job = make_job(clock.now(), max_queue_depth=2)
    make_trigger(job, clock.now(), every="10m")
    assert trigger_run("demo:job", clock.now()).queued == 1
    materialize(clock.tick(10 * MINUTE))
    with pytest.raises(TooManyRequests):
        trigger_run("demo:job", clock.now())


def test_a_known_key_is_answered_also_when_the_queue_is_full(now):
    make_job(now, max_queue_depth=1)
    first = trigger_run("demo:job", now, idempotency_key="k")
    assert trigger_run("demo:job", now, idempotency_key="k").run_id == first.run_id


@pytest.mark.django_db(transaction=True)
def test_many_requests_at_one_instant_fill_the_queue_to_its_depth_and_not_further(now):
    make_job(now, max_queue_depth=5)

    def one() -> bool:
        try:
            trigger_run("demo:job", now)
        except TooManyRequests:
            return False
        return True

    assert sum(together([one] * 16)) == 5
    assert QueueEntry.objects.count() == 5


def test_lanes_are_interned(now):
    one = lane_for("default", ["b", "a"], ["c", "a"], 0)
    assert lane_for("default", ["a", "b", "a"], ["c"], 0).pk == one.pk
    others = [
        lane_for("acme", ["a", "b"], ["c"], 0),
        lane_for("default", ["a", "b"], [], 0),
        lane_for("default", ["a"], ["b", "c"], 0),
        lane_for("default", ["a", "b"], ["c"], 1),
        lane_for("default", ["a", "b"], ["c"], 0, pin="r1"),
    ]
    assert len({one.pk, *(lane.pk for lane in others)}) == 6


@pytest.mark.django_db(transaction=True)
def test_a_lane_that_many_make_at_one_moment_is_one(now):
    assert len({lane.pk for lane in together([lambda: lane_for("default", ["x"], [], 0) for _ in range(8)])}) == 1
    assert Lane.objects.count() == 1


def test_the_routes_of_a_tenant_are_bounded(now, monkeypatch):
    monkeypatch.setattr("scheduler.services.lanes.LANES_PER_TENANT", 3)
    make_job(now)
    for n in range(2):
        trigger_run("demo:job", now, require=[f"c{n}"])
    with pytest.raises(InvalidInput) as refused:
        trigger_run("demo:job", now, require=["c9"])
    assert "require" in refused.value.fields
    assert not trigger_run("demo:job", now, require=["c0"]).deduplicated
    assert Run.objects.count() == 3


def test_a_request_that_waited_for_its_turn_counts_what_the_one_before_made(clock):
    """It read the clock before it waited for the job: the run that is there is of a later instant than its own."""
    make_job(clock.now(), max_queue_depth=1)
    early = clock.now()
    trigger_run("demo:job", clock.tick(timedelta(milliseconds=3)))
    with pytest.raises(TooManyRequests):
        trigger_run("demo:job", early)
    save_job({"job_key": "demo:job", "coalesce": True}, early, ACTOR, partial=True)
    assert trigger_run("demo:job", early).coalesced
    # What has yet to fall due does not count: a planned fire, a retry in its back-off.
    for columns in ({"waits_since": None}, {"attempt": 1}):
        QueueEntry.objects.update(available_at=early + timedelta(hours=1), **columns)
        assert queue_depth(Job.objects.get(), early) == 0


def test_a_key_stands_for_the_run_that_its_request_coalesced_with(now):
    make_job(now, coalesce=True)
    first = trigger_run("demo:job", now).run_id
    assert trigger_run("demo:job", now, idempotency_key="k").coalesced
    finished(first, now)
    again = trigger_run("demo:job", now, idempotency_key="k")
    assert (again.run_id, again.deduplicated) == (first, True)


@pytest.mark.django_db(transaction=True)
def test_a_request_does_not_coalesce_with_a_run_that_a_claim_has_in_hand(now, database):
    """That run begins before the request is answered for: what is asked for now would never be done."""
    if database != "postgresql":
        pytest.skip("SQLite has one writer: a claim is done or has not begun")
    make_job(now, coalesce=True)
    first = trigger_run("demo:job", now).run_id
    with Session() as claim:
        claim.begin()
        assert claim.run(lambda: QueueEntry.objects.select_for_update().get(run_id=first).pk) == first
        second = trigger_run("demo:job", now)
        claim.rollback()
    assert (second.run_id != first, second.coalesced) == (True, False)
    assert trigger_run("demo:job", now).coalesced
