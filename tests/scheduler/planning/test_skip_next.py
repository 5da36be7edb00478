"""The next fire is left out: recorded, whether it was planned already or not, and never in a race with a claim."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from croniq_site.kernel.errors import Conflict, NotFound
from runners.models import AuditEvent
from scheduler.models import QueueEntry, Run, Trigger
from scheduler.services.claim import claim_due
from scheduler.services.jobs import deactivate, save_job
from scheduler.services.materialize import materialize
from scheduler.services.pause import pause_job, resume_job
from scheduler.services.skip import skip_next
from tests.factories import RunnerInstanceFactory
from tests.scheduler.planning.support import ACTOR, ids, make_job, make_trigger, planned, principal
from tests.support.races import DEADLINE_SECONDS, Session, together

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def test_a_planned_fire_is_skipped_with_its_run_and_again_skips_the_next(clock):
    job = make_job(clock.now())
    start = clock.now()
    make_trigger(job, start, every="10m")
    before = ids(job)
    first = skip_next("demo:job", start, ACTOR)
    second = skip_next("demo:job", start, ACTOR)
    assert (first.scheduled_for, second.scheduled_for) == (start + 10 * MINUTE, start + 20 * MINUTE)
    assert (first.run_id, second.run_id) == (before[start + 10 * MINUTE], before[start + 20 * MINUTE])
    run = Run.objects.get(pk=first.run_id)
    assert (run.verdict, run.problem, run.reason, run.finished_at) == ("skipped", "skipped", "skip_next", start)
    assert planned(job) == [start + k * 10 * MINUTE for k in (3, 4, 5, 6)]
    event = AuditEvent.objects.filter(action="job.next_skipped").first()
    assert (event.target_id, event.actor_id) == ("demo:job", "tester")


def test_a_fire_beyond_the_horizon_is_skipped_before_it_is_planned_and_no_materializer_makes_it(clock):
    job = make_job(clock.now())
    start = clock.now()
    make_trigger(job, start, every="5h")
    assert planned(job) == []
    skipped = skip_next("demo:job", start, ACTOR)
    assert skipped.scheduled_for == start + timedelta(hours=5)
    for hour in range(1, 12):
        materialize(start + timedelta(hours=hour))
    assert planned(job) == [start + timedelta(hours=10)]
    assert Run.objects.get(scheduled_for=skipped.scheduled_for).reason == "skip_next"


def test_the_next_of_several_triggers_is_skipped_and_of_equal_fires_there_is_one(clock):
    job = make_job(clock.now())
    start = clock.now()
    for every in ("30m", "20m", "3h"):
        make_trigger(job, start, every=every)
    instants = [skip_next("demo:job", start, ACTOR).scheduled_for - start for _ in range(6)]
    assert instants == [k * MINUTE for k in (20, 30, 40, 60, 80, 90)]


def test_a_trigger_that_ends_or_is_off_or_broken_has_nothing_to_skip(clock):
    job = make_job(clock.now())
    start = clock.now()
    make_trigger(job, start, run_at=(start + 5 * MINUTE).isoformat())
    broken = make_trigger(job, start, every="1m")
    Trigger.objects.filter(pk=broken.pk).update(timezone="No/Where", kind="cron", cron_expression="x x", every=None)
    assert skip_next("demo:job", start, ACTOR).scheduled_for == start + 5 * MINUTE
    with pytest.raises(Conflict) as refused:
        skip_next("demo:job", start, ACTOR)
    assert refused.value.code == "nothing_to_skip"
    make_trigger(job, start, every="10m")
    deactivate("demo:job", start, ACTOR)
    with pytest.raises(Conflict):
        skip_next("demo:job", start, ACTOR)


def test_a_fire_of_a_paused_job_stays_skipped_when_it_is_resumed(clock):
    job = make_job(clock.now())
    start = clock.now()
    make_trigger(job, start, every="30m")
    pause_job("demo:job", start)
    skip_next("demo:job", start, ACTOR)
    resume_job("demo:job", start + MINUTE)
    assert planned(job) == [start + 60 * MINUTE]


def test_an_edit_plans_again_and_the_skip_stays(clock):
    job = make_job(clock.now())
    start = clock.now()
    make_trigger(job, start, every="10m")
    skip_next("demo:job", start, ACTOR)
    deactivate("demo:job", start, ACTOR)
    save_job({"job_key": "demo:job", "is_active": True}, start, ACTOR, partial=True)
    assert planned(job) == [start + k * 10 * MINUTE for k in (2, 3, 4, 5, 6)]


def test_a_foreign_job_has_nothing_to_skip(now):
    make_trigger(make_job(now), now, every="10m")
    for key, who in (("demo:job", principal("admin", tenant="acme")), ("no:body", None)):
        with pytest.raises(NotFound):
            skip_next(key, now, ACTOR, who)
    assert not Run.objects.filter(verdict="skipped").exists()


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_is_first_keeps_its_run_and_the_fire_after_it_is_skipped(clock):
    """A server whose clock is ahead hands the run out in this moment."""
    job = make_job(clock.now())
    start = clock.now()
    make_trigger(job, start, every="10m")
    due_at = start + 10 * MINUTE
    holder = RunnerInstanceFactory().pk
    with Session() as claimer, Session() as operator:
        claimer.begin()
        (taken,) = claimer.run(claim_due, due_at, 1, holder, [job.lane_id])
        skipping = operator.start(skip_next, "demo:job", start, ACTOR)
        claimer.commit()
        skipped = skipping.result(DEADLINE_SECONDS)
    assert taken.scheduled_for == due_at
    assert skipped.scheduled_for == due_at + 10 * MINUTE
    assert QueueEntry.objects.get(run_id=taken.run_id).state == QueueEntry.State.CLAIMED


@pytest.mark.django_db(transaction=True)
def test_a_skip_that_is_first_leaves_the_claim_nothing(clock, database):
    job = make_job(clock.now())
    start = clock.now()
    make_trigger(job, start, every="10m")
    holder = RunnerInstanceFactory().pk
    with Session() as claimer, Session() as operator:
        operator.begin()
        skipped = operator.run(skip_next, "demo:job", start, ACTOR)
        claiming = claimer.start(claim_due, start + 10 * MINUTE, 1, holder, [job.lane_id])
        if database == "postgresql":
            assert len(claiming.result(DEADLINE_SECONDS)) == 0  # it passes over what is being taken out
        operator.commit()
        assert len(claiming.result(DEADLINE_SECONDS)) == 0
    assert Run.objects.get(pk=skipped.run_id).verdict == "skipped"


@pytest.mark.django_db(transaction=True)
def test_two_skips_and_a_materializer_at_once_skip_two_fires(clock):
    job = make_job(clock.now())
    start = clock.now()
    make_trigger(job, start, every="2h")
    skip = partial(skip_next, "demo:job", start, ACTOR)
    results = together([skip, skip, lambda: materialize(start + 90 * MINUTE)])
    assert {result.scheduled_for - start for result in results[:2]} == {120 * MINUTE, 240 * MINUTE}
    materialize(start + 110 * MINUTE)
    assert planned(job) == []
