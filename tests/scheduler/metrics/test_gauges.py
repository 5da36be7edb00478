"""What is measured at the moment of the scrape."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.queries import successes
from scheduler.queries.jobs import job_states
from scheduler.queries.successes import Successes
from scheduler.services.maintenance import begin_maintenance
from tests.factories import (
    ApiClientFactory,
    DeadLetterFactory,
    HeartbeatFactory,
    JobFactory,
    LaneFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerFactory,
    TriggerFactory,
)
from tests.scheduler.metrics.scrapes import scraped
from tests.scheduler.planning.support import ACTOR

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
State = QueueEntry.State


def test_the_queue_is_what_is_due_and_unclaimed_and_its_age_that_of_the_oldest(now):
    QueueEntryFactory(available_at=now - 5 * SECOND)
    QueueEntryFactory(available_at=now - 90 * SECOND, state=State.GATED)
    QueueEntryFactory(available_at=now - 900 * SECOND, state=State.HELD)  # on purpose: it does not age
    QueueEntryFactory(available_at=now + SECOND)
    QueueEntryFactory(available_at=now - 900 * SECOND, claimed=True)
    scrape = scraped()
    assert (scrape.value("croniq_queue_depth"), scrape.value("croniq_queue_oldest_age_seconds")) == (3, 90)
    QueueEntry.objects.filter(state__in=[State.GATED, State.HELD]).delete()
    assert scraped().value("croniq_queue_oldest_age_seconds") == 5
    QueueEntry.objects.filter(available_at__lte=now).delete()
    scrape = scraped()
    assert (scrape.value("croniq_queue_depth"), scrape.value("croniq_queue_oldest_age_seconds")) == (0, 0)


def test_runners_by_presence(now):
    for seconds in (0, 60, 61, 300, 301, 9000):
        RunnerFactory(last_poll_at=now - seconds * SECOND)
    assert scraped().of("croniq_runners", "status") == {"online": 2, "stale": 2, "dead": 2}


def test_letters_maintenance_and_the_last_pass_of_any_worker_of_a_kind(now):
    scrape = scraped()
    assert (scrape.value("croniq_dead_letters"), scrape.value("croniq_maintenance")) == (0, 0)
    # Absent, not 0: nobody ever was there.
    assert scrape.value("croniq_materializer_last_tick_timestamp_seconds") is None
    DeadLetterFactory.create_batch(2)
    begin_maintenance(now, ACTOR)
    for seconds in (300, 7):
        HeartbeatFactory(kind="materialize", tick_at=now - seconds * SECOND)
    HeartbeatFactory(kind="reap", tick_at=now - 9 * SECOND, ended_at=now)
    scrape = scraped()
    assert (scrape.value("croniq_dead_letters"), scrape.value("croniq_maintenance")) == (2, 1)
    assert scrape.value("croniq_materializer_last_tick_timestamp_seconds") == now.timestamp() - 7
    assert scrape.value("croniq_reaper_last_tick_timestamp_seconds") == now.timestamp() - 9


def test_a_job_is_overdue_by_a_ready_run_that_nobody_takes_or_a_fire_that_is_no_run(now):
    late, not_yet, gated = (JobFactory(job_key=f"demo:{name}") for name in ("late", "notyet", "gated"))
    QueueEntryFactory(job=late, available_at=now - 61 * SECOND)
    QueueEntryFactory(job=not_yet, available_at=now - 60 * SECOND)
    QueueEntryFactory(job=gated, available_at=now - 61 * SECOND, state=State.GATED)
    for name, cursor_at in (("unplanned", now - 3 * MINUTE), ("planned", now)):
        job = JobFactory(job_key=f"demo:{name}")
        TriggerFactory(job=job, cursor_at=cursor_at, anchor_at=now - 9 * MINUTE, created_at=now - 9 * MINUTE)
    overdue = scraped().of("croniq_job_overdue", "job_key")
    assert overdue == {
        "demo:late": 1,
        "demo:notyet": 0,
        "demo:gated": 0,
        "demo:unplanned": 1,
        "demo:planned": 0,
    }
    # As everywhere else.
    states = job_states(Job.objects.all(), now)
    assert overdue == {state.job_key: int(state.overdue) for state in states}


@pytest.mark.parametrize("change", [{"paused_at": True}, {"is_active": False}], ids=["paused", "inactive"])
def test_a_job_that_is_held_back_on_purpose_is_not_overdue_and_has_no_next_fire(now, change):
    job = JobFactory(job_key="demo:a")
    QueueEntryFactory(job=job, available_at=now - 9 * MINUTE)
    TriggerFactory(job=job, cursor_at=now - 9 * MINUTE)
    scrape = scraped()
    assert scrape.value("croniq_job_overdue", job_key="demo:a") == 1
    assert scrape.value("croniq_job_next_fire_timestamp_seconds", job_key="demo:a") == (now + MINUTE).timestamp()
    Job.objects.filter(pk=job.pk).update(
        **{name: now if name == "paused_at" else value for name, value in change.items()}
    )
    scrape = scraped()
    assert scrape.value("croniq_job_overdue", job_key="demo:a") == 0
    assert scrape.value("croniq_job_next_fire_timestamp_seconds", job_key="demo:a") is None


def test_the_next_fire_is_the_planned_run_else_what_the_schedule_says(now):
    job = JobFactory(job_key="demo:planned")
    for minutes in (7, 3):
        at = now + minutes * MINUTE
        QueueEntryFactory(job=job, run__scheduled_for=at, available_at=at)
    QueueEntryFactory(job=job, available_at=now + MINUTE, attempt=1)  # a retry is no fire
    TriggerFactory(job=job)
    TriggerFactory(job__job_key="demo:far", every=timedelta(days=9))
    TriggerFactory(job__job_key="demo:off", enabled=False)
    found = scraped().of("croniq_job_next_fire_timestamp_seconds", "job_key")
    assert found == {
        "demo:planned": (now + 3 * MINUTE).timestamp(),
        "demo:far": (now + timedelta(days=9)).timestamp(),
    }


def test_the_last_success_is_that_of_the_newest_run_that_completed(now):
    job = JobFactory(job_key="demo:a")
    at = now - timedelta(hours=2)
    RunFactory(job=job, completed=True, scheduled_for=at - MINUTE, finished_at=at)
    RunFactory(job=job, completed=True, scheduled_for=at, finished_at=at + 2 * MINUTE)
    for n in range(1, 4):
        RunFactory(job=job, dead=True, scheduled_for=at + n * MINUTE)
    RunFactory(job=JobFactory(job_key="demo:never"), dead=True)
    assert scraped().of("croniq_job_last_success_timestamp_seconds", "job_key") == {
        "demo:a": (at + 2 * MINUTE).timestamp()
    }


def test_what_is_known_is_looked_for_no_further_back(now, monkeypatch):
    monkeypatch.setattr(successes, "MOST_LOOKED_AT", 3)
    job = JobFactory()
    at = now - timedelta(hours=9)
    RunFactory(job=job, completed=True, scheduled_for=at, finished_at=at)
    for n in range(1, 9):
        RunFactory(job=job, dead=True, scheduled_for=at + n * MINUTE)
    look = Successes()
    assert look.last_success_at([job.pk], now) == {job.pk: at}
    Run.objects.filter(verdict="completed").delete()  # pruned: this process knows it all the same
    assert look.last_success_at([job.pk], now) == {job.pk: at}
    newer = at + 8.5 * MINUTE
    RunFactory(job=job, completed=True, scheduled_for=newer, finished_at=newer)
    assert look.last_success_at([job.pk], now) == {job.pk: newer}
    assert look.last_success_at([], now) == {}
    assert Successes().last_success_at([job.pk], newer - MINUTE) == {}


def test_a_capability_that_a_job_requires_is_there_with_the_runners_that_have_it(now):
    def lane(require: list[str], tenant: str = "default"):
        return LaneFactory(require=require, tenant=tenant)

    JobFactory(lane=lane(["gpu", "linux"]))
    JobFactory(lane=lane(["tape"]))
    JobFactory(lane=lane(["runner:box-1"]))
    JobFactory(lane=lane(["off"]), is_active=False)
    JobFactory(lane=lane(["gone"]), deleted_at=now)
    for tenant in ("acme", "beta"):
        JobFactory(lane=lane(["shared"], tenant), tenant=tenant)
    RunnerFactory(runner_id="box-1", capabilities=["gpu", "linux", "odd"])
    RunnerFactory(runner_id="box-2", capabilities=["linux", "runner:box-1"])
    RunnerFactory(capabilities=["tape"], last_poll_at=now - 61 * SECOND)
    RunnerFactory(capabilities=["tape"], drained_at=now)
    for tenant in ("acme", "beta", "beta"):
        RunnerFactory(client=ApiClientFactory(tenant=tenant), capabilities=["shared", "linux"])
    assert scraped().of("croniq_capability_runners", "capability") == {
        "gpu": 1,
        "linux": 2,  # of the others' tenants none counts
        "tape": 0,
        "runner:box-1": 1,
        "shared": 1,
    }


def test_a_broken_schedule_takes_no_others_series_along(now):
    trigger = TriggerFactory(
        job__job_key="demo:broken", kind="cron", cron_expression="0 3 * * *", every=None, anchor_at=None
    )
    Trigger.objects.filter(pk=trigger.pk).update(timezone="Nowhere/At_All")
    TriggerFactory(job__job_key="demo:fine")
    assert set(scraped().of("croniq_job_next_fire_timestamp_seconds", "job_key")) == {"demo:fine"}


def test_the_build_is_told(now):
    (version,) = scraped().of("croniq_build_info", "version")
    assert version.startswith("0.")
