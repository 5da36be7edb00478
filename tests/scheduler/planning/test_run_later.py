"""Runs that somebody asked for at an instant to come (``run_at``): due then, and until then in nobody's way."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import InvalidInput, TooManyRequests
from runners.models import AuditEvent
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import Job, QueueEntry, Run
from scheduler.queries.gauges import job_gauges
from scheduler.queries.jobs import job_states, live_jobs
from scheduler.queries.overview import job_story
from scheduler.queries.runs import RunFilter, planned_runs, run_list
from scheduler.services.admit import admit
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.jobs import delete_job, save_job
from scheduler.services.pause import pause_job
from scheduler.services.trigger_runs import queue_depth, trigger_run
from tests.factories import QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger

pytestmark = pytest.mark.django_db

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


def claimed(now) -> list:
    lanes = list(QueueEntry.objects.values_list("lane_id", flat=True).distinct())
    return [run.run_id for run in claim_due(now, 9, RunnerInstanceFactory().pk, lanes)]


def test_a_run_for_later_is_planned_until_its_instant_and_due_from_then_on(now):
    make_job(now)
    at = now + HOUR
    result = trigger_run("demo:job", now, run_at="2026-03-02T14:00:00+01:00")
    assert (result.queued, queue_depth(Job.objects.get(), now)) == (0, 0)
    run, entry = Run.objects.get(), QueueEntry.objects.get()
    assert (run.kind, run.scheduled_for, entry.available_at, entry.state) == ("triggered", at, at, entry.State.READY)
    assert AuditEvent.objects.get(action="job.triggered").diff == {
        "execution_id": str(run.pk),
        "run_at": "2026-03-02T13:00:00+00:00",
    }
    assert [row.id for row in planned_runs(now, 9)] == [run.pk]
    assert run_list(now, RunFilter(), 9) == []
    assert claimed(at - SECOND) == []
    assert queue_depth(Job.objects.get(), at) == 1
    assert claimed(at) == [run.pk]


@pytest.mark.parametrize("said", [None, "2026-03-02T12:00:00Z", "1999-01-01T00:00:00Z"])
def test_what_is_not_later_is_now(now, said):
    make_job(now)
    trigger_run("demo:job", now, run_at=said)
    assert (Run.objects.get().scheduled_for, QueueEntry.objects.get().available_at) == (now, now)


@pytest.mark.parametrize("said", ["", "2026-03-02T14:00:00", "1h", 7, True, [], "2099-01-01T00:00:00Z", "x" * 99])
def test_no_instant_is_refused_by_name(now, said):
    make_job(now)
    with pytest.raises(InvalidInput) as refused:
        trigger_run("demo:job", now, run_at=said)
    assert list(refused.value.fields) == ["run_at"]
    assert not Run.objects.exists()


def test_runs_for_later_do_not_fill_the_queue_and_are_bounded_by_themselves(now):
    job, far = make_job(now, max_queue_depth=2), now + 4 * HOUR
    QueueEntryFactory(job=job, available_at=far)  # a fire to come
    QueueEntryFactory(job=job, available_at=far, attempt=1, waits_since=now)  # one that backs off
    for n in (1, 2):
        trigger_run("demo:job", now, run_at=now + n * HOUR)
    with pytest.raises(TooManyRequests, match="2 runs for later"):
        trigger_run("demo:job", now, run_at=now + HOUR)
    assert [trigger_run("demo:job", now).queued for _ in range(2)] == [1, 2]
    with pytest.raises(TooManyRequests, match="2 due runs"):
        trigger_run("demo:job", now)
    # An hour on the first of them is due and one is for later.
    QueueEntry.objects.filter(available_at=now).delete()
    assert queue_depth(Job.objects.get(), now + HOUR) == 1
    trigger_run("demo:job", now + HOUR, run_at=now + 3 * HOUR)


def test_a_run_for_later_is_one_of_its_own_and_a_key_is_for_both(now):
    make_job(now, coalesce=True)
    first = trigger_run("demo:job", now)
    later = trigger_run("demo:job", now, run_at=now + HOUR, idempotency_key="k")
    assert (later.coalesced, later.run_id != first.run_id) == (False, True)
    assert trigger_run("demo:job", now).run_id == first.run_id
    again = trigger_run("demo:job", now, run_at=now + 2 * HOUR, idempotency_key="k")
    assert (again.run_id, again.deduplicated) == (later.run_id, True)


@pytest.mark.parametrize("limit", [{"overlap": "skip"}, {"max_concurrent": 1}])
def test_where_the_job_is_busy_a_run_for_later_waits_and_is_never_skipped(now, limit):
    make_job(now, **limit)
    later = trigger_run("demo:job", now, run_at=now + HOUR).run_id
    running = trigger_run("demo:job", now + HOUR - SECOND).run_id
    assert claimed(now + HOUR - SECOND) == [running]
    admit(now + HOUR)
    assert QueueEntry.objects.get(pk=later).state == QueueEntry.State.GATED
    assert Run.objects.get(pk=later).verdict is None
    holder = QueueEntry.objects.get(pk=running).holder.runner.runner_id
    finish([Ack(running, 1, holder, AckStatus.SUCCESS)], now + HOUR)
    assert claimed(now + HOUR) == [later]


def test_a_limit_that_comes_meanwhile_counts_for_it(now):
    make_job(now)
    later = trigger_run("demo:job", now, run_at=now + HOUR).run_id
    save_job({"job_key": "demo:job", "overlap": "skip"}, now, ACTOR, partial=True)
    assert QueueEntry.objects.get().state == QueueEntry.State.GATED
    admit(now + HOUR)
    assert claimed(now + HOUR) == [later]


def test_it_is_no_fire_of_a_schedule(now):
    """Nor does a plan, a pause or an edit of the schedule touch it; with its job it is cancelled."""
    job = make_job(now)
    trigger = make_trigger(job, now, cron_expression="0 18 * * *")
    later = trigger_run("demo:job", now, run_at=now + HOUR).run_id
    evening = now + 6 * HOUR
    (state,) = job_states(live_jobs(), now)
    assert state.next_fire_at == evening
    assert [gauge.next_fire_at for gauge in job_gauges(now)] == [evening]
    # It does not hide that nobody plans.
    after = trigger_run("demo:job", now, run_at=now + 9 * HOUR).run_id
    late = evening + timedelta(minutes=2)
    (state,) = job_states(live_jobs(), late)
    assert (state.overdue, job_story("demo:job", late).line.is_overdue) == (True, True)
    trigger.delete()
    save_job({"job_key": "demo:job", "is_active": False}, now, ACTOR, partial=True)
    pause_job("demo:job", now)
    assert set(QueueEntry.objects.values_list("pk", "state")) == {(later, 0), (after, 0)}
    delete_job("demo:job", now, ACTOR)
    assert set(Run.objects.values_list("verdict", flat=True)) == {"cancelled"}
