"""A job is deleted while a claim of it is under way whose poll nobody waits for any more."""

from __future__ import annotations

import pytest

from croniq_site.kernel.clock import DatabaseClock
from runners.services.audit import SYSTEM
from scheduler.api.work.claiming import give_back
from scheduler.models import Lane, QueueEntry
from scheduler.services.claim import claim_due
from scheduler.services.jobs import delete_job
from tests.factories import RunnerInstanceFactory
from tests.scheduler.edge.helpers import due_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_claim_that_goes_back_after_its_job_was_deleted_starts_nothing():
    entry = due_run(max_attempts=4)
    now = DatabaseClock().now()
    first, second = RunnerInstanceFactory(), RunnerInstanceFactory()
    lanes = list(Lane.objects.values_list("pk", flat=True))
    (claimed,) = claim_due(now, 1, first.pk, lanes)
    delete_job(entry.job.job_key, now, SYSTEM)
    give_back([(claimed.run_id, claimed.attempt)], now)
    assert not claim_due(now, 1, second.pk, lanes).claimed, "a run of a deleted job was started"
    assert not QueueEntry.objects.filter(state=QueueEntry.State.READY).exists()
