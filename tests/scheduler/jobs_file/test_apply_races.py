"""Two apply at once, and one meets an ack: real connections."""

from __future__ import annotations

from datetime import timedelta

import pytest

from calendars.models import Calendar
from croniq_site.kernel.clock import DatabaseClock
from runners.models import AuditEvent
from scheduler.domain.work import Ack, AckAnswer, AckStatus
from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.services.cancel import cancel_runs
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from tests.factories import RunnerInstanceFactory
from tests.scheduler.jobs_file.support import EXAMPLE, apply, plan
from tests.scheduler.planning.support import ACTOR, make_job
from tests.support.polling import poll_until
from tests.support.races import Session, is_waiting_for_lock, together

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_at_once_end_in_one_state():
    now = DatabaseClock().now()
    applied = together([lambda: apply(EXAMPLE, now)] * 3)
    assert sorted(len(one.plan.changes) for one in applied) == [0, 0, 4]
    assert (Job.objects.count(), Trigger.objects.count(), Calendar.objects.count()) == (2, 3, 1)
    assert AuditEvent.objects.filter(action="jobs_file.applied").count() == 1


def test_of_two_different_files_at_once_one_is_what_there_is():
    now = DatabaseClock().now()
    files = [f"jobs: {{a:b: {{timeout: {n}m, run_on_change: true, triggers: [{{every: {n}m}}]}}}}" for n in (3, 5)]
    together([lambda: apply(files[0], now), lambda: apply(files[1], now)])
    job, trigger = Job.objects.get(), Trigger.objects.get()
    assert job.timeout_seconds == trigger.every.total_seconds() in (180.0, 300.0)
    assert [plan(content, now).changes == () for content in files].count(True) == 1
    assert Run.objects.filter(kind="triggered").count() == 2  # one for the making, one for the change


def test_an_apply_waits_for_the_edit_of_who_had_the_say_and_sees_it(database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer: the apply begins when the edit has ended")
    now = DatabaseClock().now()
    make_job(now, "a:b", timeout="1m")
    with Session() as api, Session() as file:
        pid = file.backend_pid
        api.begin()
        api.run(lambda: make_job(now, "a:b", timeout="7m"))
        applied = file.start(lambda: apply("jobs: {a:b: {timeout: 2m}}", now, adopt=True))
        poll_until(lambda: is_waiting_for_lock(pid), what="the apply waits for the job")
        api.commit()
        (change,) = applied.result(20).plan.changes
    assert [(part.field, part.before) for part in change.fields] == [("timeout", "7m")]
    assert Job.objects.get().timeout_seconds == 120


def test_an_apply_meets_a_cancel_of_runs_of_two_of_its_jobs_in_no_circle(database):
    """The cancel begins with the entry of the job that is second in the file, and goes on to those of the first."""
    if database != "postgresql":
        pytest.skip("SQLite has one writer: who is second begins when the first has ended")
    now = DatabaseClock().now()
    apply(jobs_of(["a:a", "a:b"], lease="60s"), now)
    entries = list(QueueEntry.objects.order_by("pk").values_list("pk", "job__job_key"))
    (_, second), runs = entries[0], [run_id for run_id, _ in entries]
    edited = jobs_of(sorted(["a:a", "a:b"], key=lambda key: key == second), lease="90s")
    with Session() as canceller, Session() as file:
        pid = file.backend_pid
        canceller.begin()
        canceller.run(lambda: list(QueueEntry.objects.select_for_update().filter(pk=runs[0]).values_list("pk")))
        applied = file.start(lambda: apply(edited, now))
        poll_until(lambda: is_waiting_for_lock(pid), what="the apply waits for the first entry")
        # Taking the entries job by job, the apply would hold those of the first job by now.
        canceller.run(lambda: cancel_runs(runs, now, ACTOR))
        canceller.commit()
        assert len(applied.result(20).plan.changes) == 2


def jobs_of(keys: list[str], lease: str) -> str:
    return "jobs: {" + ", ".join(f"{key}: {{lease: {lease}, triggers: [{{every: 20m}}]}}" for key in keys) + "}"


def test_what_is_claimed_while_it_is_applied_keeps_its_lease():
    now = DatabaseClock().now()
    content = "jobs: {a:b: {lease: LEASE, triggers: [{every: 5m}]}}"
    apply(content.replace("LEASE", "60s"), now)
    due = now + timedelta(minutes=5)
    holder = RunnerInstanceFactory()
    (claimed,) = claim_due(due, 5, holder.pk, [Job.objects.get().lane_id])
    ack = Ack(claimed.run_id, claimed.attempt, holder.runner.runner_id, AckStatus.SUCCESS)
    _, answers = together([lambda: apply(content.replace("LEASE", "90s"), due), lambda: finish([ack], due)])
    assert answers == [AckAnswer.ACCEPTED]
    assert Job.objects.get().lease_seconds == 90
