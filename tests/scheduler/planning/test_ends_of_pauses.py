"""Pauses that end by themselves, when one of the jobs is not there any more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Job
from scheduler.services.jobs import delete_job
from scheduler.services.pause import pause_job, resume_expired
from tests.scheduler.planning.support import ACTOR, make_job
from tests.support.polling import poll_until
from tests.support.races import Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


def test_the_pause_of_a_deleted_job_keeps_no_other_pause_from_ending(clock):
    for number, job_key in enumerate(("demo:gone", "demo:here"), start=1):
        make_job(clock.now(), job_key)
        pause_job(job_key, clock.now(), until=clock.now() + number * MINUTE)
    delete_job("demo:gone", clock.now(), ACTOR)
    assert resume_expired(clock.tick(5 * MINUTE)) == 1
    assert Job.objects.get(job_key="demo:here").paused_at is None
    assert resume_expired(clock.tick(MINUTE)) == 0


def test_a_pause_that_is_made_longer_in_the_moment_of_its_end_goes_on(clock, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer: the chore looks when the other has ended")
    make_job(clock.now(), "demo:longer")
    pause_job("demo:longer", clock.now(), until=clock.now() + MINUTE)
    later = clock.tick(2 * MINUTE)
    with Session() as person, Session() as chore:
        pid = chore.backend_pid
        person.begin()
        person.run(lambda: pause_job("demo:longer", later, until=later + 60 * MINUTE))
        ended = chore.start(lambda: resume_expired(later))
        poll_until(lambda: is_waiting_for_lock(pid), what="the chore waits for the job")
        person.commit()
        assert ended.result(10) == 0
    assert Job.objects.get().paused_until == later + 60 * MINUTE
