"""Past fires get the runs that they did not get; each once, however often it is asked for."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.models import AuditEvent
from scheduler.models import QueueEntry, Run, SkippedSpan
from scheduler.services.backfill import backfill
from scheduler.services.claim import claim_due
from scheduler.services.jobs import deactivate, save_job
from scheduler.services.materialize import materialize
from scheduler.services.pause import pause_job, resume_job
from tests.factories import RunFactory, RunnerInstanceFactory
from tests.scheduler.conformance.snapshots import everything
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger, principal
from tests.support.races import DEADLINE_SECONDS, Session, together

pytestmark = pytest.mark.django_db

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def start(clock):
    """A job of every ten minutes whose first hour was paused: six runs were skipped."""
    start = clock.now()
    make_trigger(make_job(start), start, every="10m")
    pause_job("demo:job", start)
    resume_job("demo:job", clock.tick(HOUR))
    return start


def do(start, now, since=0, until=60, **more):
    return backfill("demo:job", start + since * MINUTE, start + until * MINUTE, now, ACTOR, **more)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(start, clock):
    before = everything()
    plan = do(start, clock.now(), dry_run=True)
    assert everything() == before
    assert (plan.created, plan.revived, plan.already_there) == (0, 6, 0)
    assert plan.instants == tuple(start + 10 * k * MINUTE for k in range(1, 7))
    done = do(start, clock.now())
    assert (done.created, done.revived, done.already_there, done.instants) == (0, 6, 0, plan.instants)


def test_a_skipped_run_comes_back_as_itself_and_runs(start, clock):
    skipped = Run.objects.get(scheduled_for=start + 10 * MINUTE)
    now = clock.tick(MINUTE)
    assert do(start, now, 10, 10).revived == 1
    run = Run.objects.get(pk=skipped.pk)
    assert (run.verdict, run.problem, run.reason, run.finished_at, run.attempt) == (None, None, "", None, 0)
    entry = run.entry
    # Due now: it waits behind what waits already, not before it because its instant is old.
    assert (entry.state, entry.available_at, entry.max_attempts) == (QueueEntry.State.READY, now, 4)
    (claimed,) = claim_due(now, 5, RunnerInstanceFactory().pk, [run.job.lane_id])
    assert (claimed.run_id, claimed.scheduled_for) == (run.pk, start + 10 * MINUTE)


def test_fires_without_a_run_get_one_and_those_with_one_keep_it(clock):
    start = clock.now()
    job = make_job(start, catch_up="none")
    make_trigger(job, start, every="10m")
    QueueEntry.objects.all().delete()
    Run.objects.all().delete()
    materialize(clock.tick(12 * HOUR))  # a downtime of hours: one span
    assert SkippedSpan.objects.get().count > 50
    RunFactory(job=job, scheduled_for=start + 70 * MINUTE, completed=True)
    RunFactory(job=job, scheduled_for=start + 80 * MINUTE, dead=True)
    done = do(start, clock.now(), 61, 90)
    assert (done.created, done.revived, done.already_there) == (1, 0, 2)
    made = Run.objects.get(scheduled_for=start + 90 * MINUTE)
    assert (made.kind, made.verdict, made.entry.available_at) == ("scheduled", None, clock.now())
    event = AuditEvent.objects.get(action="job.backfilled")
    assert (event.target_id, event.diff["created"]) == ("demo:job", 1)


def test_again_does_nothing(start, clock):
    do(start, clock.now())
    before = everything()
    again = do(start, clock.now())
    assert (again.created, again.revived, again.already_there, again.instants) == (0, 0, 6, ())
    assert everything() == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_it_says_why_nothing_or_not_all_was_made(start, clock, dry_run):
    assert do(start, clock.now(), dry_run=True).message == ""
    do(start, clock.now(), 10, 20)
    part = do(start, clock.now(), 10, 30, dry_run=dry_run)
    assert (part.revived, part.message) == (1, "Of 3 fires 2 have their run already.")
    created = "A backfill makes what would have fired; the job's schedule was made at"
    before = do(start, clock.now(), -60, -1, dry_run=dry_run)
    assert before.message == f"{created} 2026-03-02T12:00:00Z: begin there."
    assert do(start, clock.now(), -60, 60, dry_run=True).message.startswith(created)
    assert do(start, clock.now(), 41, 49, dry_run=dry_run).message == "No schedule of the job fires in that time."


def test_it_says_that_a_job_is_off_or_without_a_schedule(start, clock):
    deactivate("demo:job", clock.now(), ACTOR)
    assert "switched off" in do(start, clock.now()).message
    make_job(clock.now(), "demo:bare")
    assert "no schedule" in backfill("demo:bare", start, clock.now(), clock.now(), ACTOR).message


def test_the_ends_count(start, clock):
    instants = do(start, clock.now(), 20, 40, dry_run=True).instants
    assert [at - start for at in instants] == [20 * MINUTE, 30 * MINUTE, 40 * MINUTE]


def test_runs_of_a_limited_job_wait_for_their_slots(start, clock):
    save_job({"job_key": "demo:job", "max_concurrent": 2}, clock.now(), ACTOR, partial=True)
    do(start, clock.now())
    past = QueueEntry.objects.filter(run__scheduled_for__lte=clock.now())
    assert sorted(past.values_list("state", flat=True)) == [QueueEntry.State.READY] * 2 + [QueueEntry.State.GATED] * 4


def test_a_thousand_fires_at_most(clock):
    start = clock.now()
    make_trigger(make_job(start, catch_up="none"), start, every="1s")
    now = clock.tick(2 * HOUR)
    for until, is_refused in ((start + timedelta(seconds=1001), True), (start + timedelta(seconds=1000), False)):
        if is_refused:
            with pytest.raises(InvalidInput) as refused:
                backfill("demo:job", start, until, now, ACTOR)
            assert set(refused.value.fields) == {"until"}
            assert not Run.objects.filter(created_at=now).exists()
        else:
            done = backfill("demo:job", start, until, now, ACTOR)
            assert done.created + done.revived + done.already_there == 1000


@pytest.mark.parametrize(
    ("field", "since", "until", "more"),
    [
        ("from", None, 0, {}),
        ("from", "yesterday", 0, {}),
        ("from", 5, 0, {}),
        ("until", 0, "2026-03-02T12:00:00", {}),
        ("until", 0, -1, {}),  # before from
        ("until", 0, 61, {}),  # the future
        ("dry_run", 0, 10, {"dry_run": "yes"}),
    ],
)
def test_nonsense_is_refused_by_field(start, clock, field, since, until, more):
    since, until = (start + at * MINUTE if type(at) is int and at != 5 else at for at in (since, until))
    with pytest.raises(InvalidInput) as refused:
        backfill("demo:job", since, until, clock.now(), ACTOR, **more)
    assert set(refused.value.fields) == {field}


def test_a_paused_job_is_refused_and_a_foreign_one_is_none(start, clock):
    pause_job("demo:job", clock.now())
    before = everything()
    with pytest.raises(Conflict) as refused:
        do(start, clock.now())
    assert refused.value.code == "job_paused"
    with pytest.raises(NotFound):
        do(start, clock.now(), principal=principal("admin", tenant="acme"))
    assert everything() == before


@pytest.mark.django_db(transaction=True)
def test_three_at_once_make_each_run_once(start, clock):
    results = together([partial(do, start, clock.now())] * 3)
    assert sum(result.revived for result in results) == 6
    assert QueueEntry.objects.filter(run__scheduled_for__lte=clock.now()).count() == 6
    assert not Run.objects.filter(scheduled_for__lte=clock.now(), verdict__isnull=False).exists()


@pytest.mark.django_db(transaction=True)
def test_while_the_job_is_being_paused_it_is_one_or_the_other(start, clock):
    with Session() as pauser, Session() as filler:
        pauser.begin()
        pauser.run(pause_job, "demo:job", clock.now())
        filling = filler.start(do, start, clock.now())
        pauser.commit()
        with pytest.raises(Conflict):
            filling.result(DEADLINE_SECONDS)
    assert Run.objects.filter(verdict="skipped").count() == 6
