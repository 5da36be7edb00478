"""A pause holds scheduled runs back; what fell due meanwhile is skipped, and says so."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import InvalidInput, NotFound
from runners.models import AuditEvent
from scheduler.models import Job, QueueEntry, Run
from scheduler.services.claim import claim_due
from scheduler.services.materialize import materialize
from scheduler.services.pause import pause_job, resume_expired, resume_job
from scheduler.services.trigger_runs import trigger_run
from tests.factories import RunnerInstanceFactory
from tests.scheduler.planning.support import ids, make_job, make_trigger, planned, principal

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def test_resuming_releases_the_future_runs_with_their_ids_and_skips_the_past_ones(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="10m")
    start, before = clock.now(), ids(job)
    pause_job("demo:job", start, reason="maintenance")
    assert set(QueueEntry.objects.values_list("state", flat=True)) == {QueueEntry.State.HELD}
    materialize(clock.tick(40 * MINUTE))
    assert len(claim_due(clock.now(), 10, RunnerInstanceFactory().pk, [job.lane_id])) == 0
    resume_job("demo:job", clock.now())
    skipped = Run.objects.filter(verdict="skipped").order_by("scheduled_for")
    assert [run.scheduled_for for run in skipped] == [start + 10 * k * MINUTE for k in (1, 2, 3, 4)]
    assert {(run.problem, run.reason, run.finished_at) for run in skipped} == {("skipped", "paused", clock.now())}
    assert planned(job) == [start + 10 * k * MINUTE for k in range(5, 11)]
    assert {at: run for at, run in ids(job).items() if at in before} == before
    assert set(QueueEntry.objects.values_list("state", flat=True)) == {QueueEntry.State.READY}
    job.refresh_from_db()
    assert (job.paused_at, job.paused_until, job.paused_reason) == (None, None, "")


def test_manual_and_claimed_runs_go_on(clock):
    job = make_job(clock.now())
    manual = trigger_run("demo:job", clock.now()).run_id
    claimed = trigger_run("demo:job", clock.now()).run_id
    QueueEntry.objects.filter(run_id=manual).update(available_at=clock.now() + MINUTE)
    claim_due(clock.now(), 1, RunnerInstanceFactory().pk, [job.lane_id])
    pause_job("demo:job", clock.now())
    states = dict(QueueEntry.objects.values_list("run_id", "state"))
    assert states == {manual: QueueEntry.State.READY, claimed: QueueEntry.State.CLAIMED}


def test_a_run_that_was_tried_before_the_pause_goes_on_after_it(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="50m")
    QueueEntry.objects.update(attempt=1)
    pause_job("demo:job", clock.now())
    clock.tick(55 * MINUTE)
    resume_job("demo:job", clock.now())
    assert AuditEvent.objects.get(action="job.resumed").diff["skipped"] == 0
    entry = QueueEntry.objects.get()
    assert (entry.state, entry.attempt) == (QueueEntry.State.READY, 1)


def test_a_pause_with_an_end_ends_by_itself(clock):
    make_job(clock.now())
    pause_job("demo:job", clock.now(), until=clock.now() + 10 * MINUTE)
    assert resume_expired(clock.tick(9 * MINUTE)) == 0
    assert resume_expired(clock.tick(MINUTE)) == 1
    assert Job.objects.get().paused_at is None


def test_pausing_again_keeps_the_beginning_and_resuming_again_does_nothing(clock):
    make_job(clock.now())
    begun = clock.now()
    pause_job("demo:job", begun)
    pause_job("demo:job", clock.tick(), reason="longer")
    assert (Job.objects.get().paused_at, Job.objects.get().paused_reason) == (begun, "longer")
    resume_job("demo:job", clock.now())
    resume_job("demo:job", clock.now())
    assert AuditEvent.objects.filter(action="job.resumed").count() == 1


def test_pausing_again_keeps_reason_and_end_unless_they_are_said(clock):
    make_job(clock.now())
    until = clock.now() + 10 * MINUTE
    pause_job("demo:job", clock.now(), reason="disk full", until=until)
    again = pause_job("demo:job", clock.tick(MINUTE))
    assert (again.paused_reason, again.paused_until) == ("disk full", until)
    longer = pause_job("demo:job", clock.now(), until=until + MINUTE)
    assert (longer.paused_reason, longer.paused_until) == ("disk full", until + MINUTE)
    for_ever = pause_job("demo:job", clock.now(), until=None)
    assert (for_ever.paused_reason, for_ever.paused_until) == ("disk full", None)
    assert resume_expired(clock.tick(60 * MINUTE)) == 0
    assert pause_job("demo:job", clock.now(), reason=None).paused_reason == ""


def test_nonsense_and_foreign_jobs_are_refused(now):
    make_job(now)
    with pytest.raises(InvalidInput):
        pause_job("demo:job", now, until=now)
    with pytest.raises(InvalidInput):
        pause_job("demo:job", now, reason="\x00")
    for verb in (pause_job, resume_job):
        with pytest.raises(NotFound):
            verb("demo:job", now, principal=principal("admin", tenant="acme"))
    assert Job.objects.get().paused_at is None
