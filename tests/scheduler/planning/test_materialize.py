"""Fires become runs: each once, at instants that do not depend on when a pass happens to run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import QueueEntry, Run, SkippedSpan, Trigger
from scheduler.services.materialize import materialize
from scheduler.services.triggers import save_trigger
from tests.scheduler.planning.support import make_job, make_trigger, planned

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)


def test_a_five_second_job_looked_at_every_second_for_two_minutes_has_exactly_24_runs(clock):
    created = clock.now()
    job = make_job(created)
    make_trigger(job, created, every="5s")
    for _ in range(120):
        materialize(clock.tick())
    due = list(Run.objects.filter(job=job, scheduled_for__lte=clock.now()).order_by("scheduled_for"))
    assert [run.scheduled_for for run in due] == [created + 5 * k * SECOND for k in range(1, 25)]
