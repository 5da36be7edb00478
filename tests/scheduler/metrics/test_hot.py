"""What a server counts in memory: claims, their delays, ended runs, their durations."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.domain.work import Ack, AckStatus
from scheduler.metrics import hot
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.jobs import delete_job
from tests.factories import JobFactory, LaneFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.conformance.snapshots import SYSTEM_ACTOR
from tests.scheduler.metrics.scrapes import scraped
from tests.support.races import together

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

SECOND = timedelta(seconds=1)


def acked(entry, status=AckStatus.SUCCESS, **more) -> Ack:
    return Ack(entry.run_id, entry.attempt, entry.holder.runner.runner_id, status, **more)


def test_each_claim_is_counted_with_the_seconds_since_it_fell_due(now):
    lane, holder = LaneFactory(), RunnerInstanceFactory()
    QueueEntryFactory(job__lane=lane, available_at=now - 2 * SECOND)
    QueueEntryFactory(job__lane=lane, available_at=now - 0.03 * SECOND)
    QueueEntryFactory(job__lane=lane, available_at=now + SECOND)
    assert len(claim_due(now, 5, holder.pk, [lane.pk])) == 2
    assert len(claim_due(now, 5, holder.pk, [lane.pk])) == 0
    scrape = scraped()
    assert scrape.value("croniq_runs_claimed_total") == 2
    assert scrape.value("croniq_fire_delay_seconds_count") == 2
    assert scrape.value("croniq_fire_delay_seconds_sum") == pytest.approx(2.03)
    buckets = scrape.of("croniq_fire_delay_seconds_bucket", "le")
    assert (buckets["0.025"], buckets["0.05"], buckets["1.0"], buckets["2.5"], buckets["+Inf"]) == (0, 1, 1, 2, 2)


def test_a_completed_run_is_counted_by_its_job_with_its_duration(now):
    job = JobFactory(job_key="demo:a")
    said = QueueEntryFactory(claimed=True, job=job)
    silent = QueueEntryFactory(claimed=True, job=job, claimed_at=now - 20 * SECOND)
    finish([acked(said, duration_ms=700), acked(silent)], now)
    finish([acked(said, duration_ms=700)], now)  # said again: nothing is counted twice
    scrape = scraped()
    assert scrape.value("croniq_runs_completed_total", job_key="demo:a", outcome="completed") == 2
    assert scrape.value("croniq_run_duration_seconds_count", job_key="demo:a") == 2
    # Who does not say how long it took has the time since the claim.
    assert scrape.value("croniq_run_duration_seconds_sum", job_key="demo:a") == pytest.approx(20.7)
    buckets = {
        dict(labels)["le"]: n
        for (name, labels), n in scrape.samples.items()
        if name.endswith("duration_seconds_bucket")
    }
    assert (buckets["0.5"], buckets["1.0"], buckets["15.0"], buckets["60.0"], buckets["+Inf"]) == (0, 1, 1, 2, 2)


def test_only_a_failure_that_ends_its_run_is_an_outcome(now):
    job = JobFactory(job_key="demo:a", max_retries=1)
    entry = QueueEntryFactory(claimed=True, job=job)
    last = QueueEntryFactory(claimed=True, job=job, attempt=2)
    quiet = QueueEntryFactory(claimed=True, job=JobFactory(job_key="demo:b", max_retries=0, dead_letter_enabled=False))
    finish([acked(one, AckStatus.FAILURE) for one in (entry, last, quiet)], now)
    scrape = scraped()
    assert scrape.value("croniq_runs_completed_total", job_key="demo:a", outcome="dead") == 1
    assert scrape.value("croniq_runs_completed_total", job_key="demo:b", outcome="failed") == 1
    assert scrape.value("croniq_runs_completed_total", job_key="demo:a", outcome="completed") == 0
    assert scrape.value("croniq_run_duration_seconds_count", job_key="demo:a") is None


def test_counting_asks_the_database_nothing(now, django_assert_num_queries):
    entries = [
        QueueEntryFactory.build(
            job=None,
            run=None,
            lane=None,
            holder=None,
            available_at=now,
            max_attempts=1,
            max_losses=0,
            lease_seconds=5,
            timeout_seconds=5,
        )
        for _ in range(3)
    ]
    with django_assert_num_queries(0):
        hot.note_claimed(entries, now + SECOND)
        hot.note_ended([(1, "completed", 5), (2, "dead", None)])
    assert hot.counted().claimed == 3


def test_the_series_of_a_deleted_job_end_and_its_memory_with_them(now):
    job, other = JobFactory(job_key="demo:gone"), JobFactory(job_key="demo:kept")
    finish([acked(QueueEntryFactory(claimed=True, job=one), duration_ms=5) for one in (job, other)], now)
    assert scraped().value("croniq_run_duration_seconds_count", job_key="demo:gone") == 1
    delete_job("demo:gone", now, SYSTEM_ACTOR)
    scrape = scraped()
    assert not [labels for _, labels in scrape.series if ("job_key", "demo:gone") in labels]
    assert scrape.value("croniq_runs_completed_total", job_key="demo:kept", outcome="completed") == 1
    assert {job_id for job_id, _ in hot.counted().ended} == set(hot.counted().durations) == {other.pk}
    # One of the same name is another job, which begins at nothing.
    JobFactory(job_key="demo:gone")
    assert scraped().value("croniq_runs_completed_total", job_key="demo:gone", outcome="completed") == 0


def test_threads_that_count_at_once_lose_nothing():
    def many() -> None:
        for _ in range(2000):
            hot.note_ended([(1, "completed", 1)])

    together([many] * 4)
    assert hot.counted().ended == {(1, "completed"): 8000}
    assert sum(hot.counted().durations[1].counts) == 8000
