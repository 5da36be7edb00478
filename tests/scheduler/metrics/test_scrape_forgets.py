"""A scrape that reads the jobs while a new one has its first run."""

from __future__ import annotations

import pytest

from scheduler.domain.work import Ack, AckStatus
from scheduler.metrics import exposition, hot
from scheduler.services.finish import finish
from tests.factories import JobFactory, QueueEntryFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def begun_anew():
    hot.reset()
    yield
    hot.reset()


def test_what_a_job_did_that_was_made_during_a_scrape_is_told_by_the_next_one(now, monkeypatch):
    read = exposition.job_gauges

    def then_a_job_is_made_and_runs(at):
        jobs = read(at)
        if not any(job.job_key == "ops:new" for job in jobs):
            entry = QueueEntryFactory(job=JobFactory(job_key="ops:new"), claimed=True)
            finish([Ack(entry.run_id, 1, entry.holder.runner.runner_id, AckStatus.SUCCESS)], now)
        return jobs

    monkeypatch.setattr(exposition, "job_gauges", then_a_job_is_made_and_runs)
    exposition.exposition(now, "1")
    told = exposition.exposition(now, "1").decode()
    assert 'croniq_runs_completed_total{job_key="ops:new",outcome="completed"} 1.0' in told
