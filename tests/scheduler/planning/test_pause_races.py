"""Two who pause and resume the same jobs, among many, at one moment."""

from __future__ import annotations

import pytest

from runners.models import AuditEvent
from runners.services.audit import Actor
from scheduler.models import Job
from scheduler.services.bulk import pause_if_not, resume_if_paused
from tests.factories import JobFactory
from tests.support.races import DEADLINE_SECONDS, Session

OTTO, OLGA = Actor("user", "otto"), Actor("user", "olga")


@pytest.mark.django_db(transaction=True)
def test_of_two_who_pause_a_job_among_many_the_second_changes_nothing(now):
    job = JobFactory(job_key="ops:a")
    with Session() as first, Session() as second:
        first.begin()
        assert first.run(pause_if_not, "ops:a", now, actor=OTTO, reason="the move")
        other = second.start(pause_if_not, "ops:a", now, actor=OLGA, reason="a test")
        first.commit()
        assert other.result(DEADLINE_SECONDS) is False
        assert Job.objects.get(pk=job.pk).paused_reason == "the move"
        first.begin()
        assert first.run(resume_if_paused, "ops:a", now, actor=OLGA)
        other = second.start(resume_if_paused, "ops:a", now, actor=OTTO)
        first.commit()
        assert other.result(DEADLINE_SECONDS) is False
    told = AuditEvent.objects.order_by("pk").values_list("action", "actor_id")
    assert list(told) == [("job.paused", "otto"), ("job.resumed", "olga")]
