"""Planned runs that are cancelled while something takes them back. Both wait for the entry with the smallest id;
whoever waits holds none with a greater one. On SQLite these take turns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from random import Random
from uuid import UUID

import pytest

from calendars.models import Calendar
from croniq_site.kernel.errors import NotFound
from runners.services.audit import SYSTEM
from scheduler.models import Job, QueueEntry, Run
from scheduler.services import materialize as passes
from scheduler.services.calendars import edit_calendar
from scheduler.services.cancel import cancel_runs
from scheduler.services.jobs import save_job
from scheduler.services.materialize import reset_cursors
from tests.factories import JobFactory, QueueEntryFactory, TriggerFactory
from tests.scheduler.planning.support import ACTOR
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def several_writers(database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")


def planned_runs(jobs: list[Job], after) -> list[UUID]:
    """Thirty runs of these jobs in turn; return their ids, ascending. The one with the smallest is the last in the
    table, in time, and of the last job."""
    ids = sorted(UUID(int=Random(n).getrandbits(128)) for n in range(30))
    for n, run_id in reversed([*enumerate(ids)]):
        at = after + (30 - n) * timedelta(minutes=1)
        QueueEntryFactory(job=jobs[-1 - n % len(jobs)], run__id=run_id, run__scheduled_for=at, available_at=at)
    return ids


def meets_a_cancel(run_ids: list[UUID], now, edit: Callable[[], object]) -> None:
    with Session() as first, Session() as canceller, Session() as editor:
        first.begin()
        first.run(lambda: list(QueueEntry.objects.select_for_update().filter(pk=run_ids[0])))
        pids = canceller.backend_pid, editor.backend_pid
        cancel = canceller.start(cancel_runs, run_ids, now, SYSTEM)
        poll_until(lambda: is_waiting_for_lock(pids[0]), what="the cancel waits")
        edited = editor.start(edit)
        poll_until(lambda: is_waiting_for_lock(pids[1]), what="the edit waits")
        first.commit()
        edited.result(DEADLINE_SECONDS)
        with contextlib.suppress(NotFound):  # the edit was first
            cancel.result(DEADLINE_SECONDS)
    assert not QueueEntry.objects.filter(pk__in=run_ids).exists()
    assert not Run.objects.filter(pk__in=run_ids, verdict__isnull=True).exists()


@pytest.mark.parametrize("fields", [{"is_active": False}, {"max_retries": 7}, {"max_losses": 7}])
def test_planned_runs_are_cancelled_while_an_edit_of_their_job_reaches_them(now, fields):
    job = JobFactory()
    run_ids = planned_runs([job], now)
    meets_a_cancel(run_ids, now, lambda: save_job({"job_key": job.job_key, **fields}, now, ACTOR, partial=True))


def test_planned_runs_of_two_jobs_are_cancelled_while_the_calendar_of_both_is_closed(now):
    office = edit_calendar({"name": "office", "timezone": "UTC", "rules": []}, now).calendar
    jobs = [JobFactory(), JobFactory()]
    for job in jobs:
        TriggerFactory(job=job, calendar=office)
    run_ids = planned_runs(jobs, now)
    closed = [{"effect": "exclude", "weekdays": [1, 2, 3, 4, 5, 6, 7]}]
    meets_a_cancel(run_ids, now, lambda: edit_calendar({"rules": closed}, now, calendar=Calendar.objects.get()))


def test_planned_runs_of_two_jobs_are_cancelled_while_a_clock_that_went_back_takes_both_back(now, monkeypatch):
    monkeypatch.setattr(passes, "_looked_at", None)
    jobs = [JobFactory(), JobFactory()]
    for job in jobs:
        TriggerFactory(job=job, cursor_at=now + 100 * HOUR)
    run_ids = planned_runs(jobs, now + 50 * HOUR)
    meets_a_cancel(run_ids, now, lambda: reset_cursors(now))
