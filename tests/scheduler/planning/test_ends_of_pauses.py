"""Pauses that end by themselves, when one of the jobs is not there any more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Job
from scheduler.services.jobs import delete_job
from scheduler.services.pause import pause_job, resume_expired
from tests.scheduler.planning.support import ACTOR, make_job

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def test_the_pause_of_a_deleted_job_keeps_no_other_pause_from_ending(clock):
    for number, job_key in enumerate(("demo:gone", "demo:here"), start=1):
        make_job(clock.now(), job_key)
        pause_job(job_key, clock.now(), until=clock.now() + number * MINUTE)
    delete_job("demo:gone", clock.now(), ACTOR)
    assert resume_expired(clock.tick(5 * MINUTE)) == 1
    assert Job.objects.get(job_key="demo:here").paused_at is None
    assert resume_expired(clock.tick(MINUTE)) == 0
