"""Series do not grow with runs or runners; what is deleted is gone at the next scrape (DB-04, RN-05)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from rest_framework.test import APIClient

from croniq_site.kernel.database import adapted
from runners.models import Runner, RunnerInstance
from runners.services.clients import issue_key
from scheduler.domain.work import LossCause
from scheduler.models import Run
from scheduler.services.release import release
from scheduler.services.retention import drop_old_runs
from tests.factories import ApiClientFactory, JobFactory, LaneFactory, QueueEntryFactory, RunFactory, RunnerFactory
from tests.scheduler.metrics.scrapes import Scrape, scraped

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

JOBS, RUNS, RUNNERS = 200, 10_000, 5_000
SECOND = timedelta(seconds=1)


def make_runs(each: int, now: datetime, database: str) -> None:
    """So many completed runs of every job, by one statement: thousands of rows are nothing to a database."""
    new_id, numbers = {
        "postgresql": ("gen_random_uuid()", f"generate_series(1, {each}) AS s(n)"),
        "sqlite": (
            "lower(hex(randomblob(16)))",
            f"(WITH RECURSIVE s(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM s WHERE n < {each}) SELECT n FROM s) AS s",
        ),
    }[database]
    at = adapted(now - timedelta(days=30))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduler_run (id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, verdict, "
            "reason, error, runner_id, claimed_at, finished_at, duration_ms) "
            f"SELECT {new_id}, j.id, 'triggered', %s, %s, %s, 1, 'completed', '', '', 'runner-' || n, %s, %s, 5 "
            f"FROM {numbers}, scheduler_job j",
            [at] * 5,
        )


@pytest.fixture
def api(now) -> APIClient:
    client = APIClient()
    client.default_format = "json"
    client.credentials(HTTP_AUTHORIZATION=f"ApiKey {issue_key(ApiClientFactory(), now)}")
    return client


def rare(scrape: Scrape) -> dict:
    names = ("croniq_runs_lost_total", "croniq_runs_buried_total", "croniq_fires_skipped_total")
    return {key: value for key, value in scrape.samples.items() if key[0] in names}


def keys_of(scrape: Scrape) -> set[str]:
    return {value for _, labels in scrape.series for label, value in labels if label == "job_key"}


def test_series_follow_the_jobs_and_nothing_else(now, api, settings, database):
    """DB-04."""
    lane = LaneFactory()
    jobs = [JobFactory(job_key=f"demo:{n:03}", lane=lane) for n in range(JOBS)]
    make_runs(1, now, database)
    lost = QueueEntryFactory(claimed=True, job=jobs[0], max_attempts=1, max_losses=0)
    release([(lost.run_id, 1)], now, LossCause.LEASE)
    for job in jobs[:10]:
        QueueEntryFactory(job=job, available_at=now - timedelta(minutes=5))
    before = scraped()
    make_runs(RUNS // JOBS - 1, now, database)
    assert Run.objects.filter(verdict="completed").count() == RUNS
    assert scraped().ours() == before.ours()

    for job in jobs[JOBS // 2 :]:
        assert api.delete(f"/v1/jobs/{job.job_key}").status_code < 300
    overdue = scraped().of("croniq_job_overdue", "job_key")
    for job in jobs[:10]:
        assert overdue[job.job_key] == 1
        assert api.post(f"/v1/jobs/{job.job_key}/pause", {"reason": "later"}).status_code == 200
    for n in range(10):
        assert api.post("/v1/jobs", {"job_key": f"new:{n}"}).status_code == 201
    after = scraped()
    kept = {job.job_key for job in jobs[: JOBS // 2]}
    assert keys_of(after) == kept | {f"new:{n}" for n in range(10)}
    assert set(after.of("croniq_job_overdue", "job_key").values()) == {0}
    assert len(after.of("croniq_job_last_success_timestamp_seconds", "job_key")) == len(kept)
    assert rare(after) == rare(before)
    assert rare(after)["croniq_runs_lost_total", frozenset({("cause", "lease")})] == 1

    settings.CRONIQ_RUN_RETENTION_SECONDS = 86_400.0
    assert drop_old_runs(now) == 500
    assert rare(scraped()) == rare(before)
    assert scraped().ours() == after.ours()


def test_thousands_of_one_day_runners_make_no_series(now):
    """RN-05; that their list is paged at the same cost is told in tests/scheduler/edge/test_runner_stories.py."""
    RunFactory(job=JobFactory(lane=LaneFactory(require=["gpu"])), completed=True)
    RunnerFactory(runner_id="first", capabilities=["gpu"])
    before = scraped()
    client = ApiClientFactory()
    Runner.objects.bulk_create(
        (
            Runner(
                runner_id=f"ci-{n:05}",
                client=client,
                capabilities=["gpu", f"only-{n}"],
                created_at=now,
                last_poll_at=now - 17 * n * SECOND,
            )
            for n in range(RUNNERS)
        ),
        batch_size=500,
    )
    RunnerInstance.objects.bulk_create(
        (
            RunnerInstance(runner_id=pk, instance_id="i", first_seen_at=now, last_poll_at=now, deposed_at=None)
            for pk in Runner.objects.filter(runner_id__startswith="ci-").values_list("pk", flat=True)
        ),
        batch_size=500,
    )
    after = scraped()
    assert after.ours() == before.ours()
    assert after.of("croniq_runners", "status") == {"online": 5, "stale": 14, "dead": RUNNERS + 1 - 19}
    assert after.value("croniq_capability_runners", capability="gpu") == 5
