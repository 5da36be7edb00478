"""Bulk operations beside each other, on real connections."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler.models import Job, QueueEntry, Run
from scheduler.services.bulk import cancel_many, one_by_one, retag_job
from scheduler.services.replays import replay_run
from tests.factories import JobFactory, QueueEntryFactory, RunFactory
from tests.scheduler.planning.support import ACTOR
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock, together

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_who_replay_the_same_runs_make_each_once(now):
    job = JobFactory()
    runs = [RunFactory(job=job, kind="triggered", dead=True).pk for _ in range(5)]

    def replay() -> list:
        return one_by_one(runs, lambda run_id: replay_run(run_id, now, ACTOR)).changed

    first, second = together([replay, replay])
    assert sorted(first + second) == sorted(runs)
    assert Run.objects.filter(replay_of__in=runs).count() == QueueEntry.objects.count() == 5


def test_two_who_cancel_the_same_runs_cancel_each_once(now):
    job = JobFactory()
    runs = [QueueEntryFactory(job=job, run__kind="triggered").run_id for _ in range(5)]
    states = list(QueueEntry.State)
    first, second = together([partial(cancel_many, order, states, now, ACTOR) for order in (runs, runs[::-1])])
    assert sorted(first.changed + second.changed) == sorted(runs)


def test_two_who_tag_one_job_at_once_both_have_their_tag(now, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    JobFactory(job_key="a:b", tags=["old"])
    with Session() as first, Session() as second:
        first.begin()
        assert first.run(retag_job, "a:b", {"one"}, {"old"}, now, ACTOR)
        pid = second.backend_pid
        other = second.start(retag_job, "a:b", {"two"}, set(), now, ACTOR)
        poll_until(lambda: is_waiting_for_lock(pid), what="the second waits")
        first.commit()
        assert other.result(DEADLINE_SECONDS)
    assert Job.objects.get(job_key="a:b").tags == ["one", "two"]
