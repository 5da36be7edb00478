"""Who has which slots, who waits, and for whom."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import QueueEntry
from tests.factories import ConcurrencyGroupFactory, JobFactory, QueueEntryFactory, SlotFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


def shown(client) -> str:
    return Page(client.get("/budgets")).text


@pytest.fixture
def group(db):
    return ConcurrencyGroupFactory(name="database", max_concurrent=1)


def running(job, *budgets, **columns) -> QueueEntry:
    entry = QueueEntryFactory(job=job, claimed=True, **columns)
    for budget in budgets:
        SlotFactory(run=entry.run, budget=budget)
    return entry


def waiting(job, at) -> QueueEntry:
    return QueueEntryFactory(job=job, state=QueueEntry.State.GATED, available_at=at, run__scheduled_for=at)


def test_a_group_shows_who_has_it_and_who_waits_for_them(viewer, group, now):
    holder, other = (JobFactory(job_key=key, concurrency_group=group) for key in ("ops:vacuum", "ops:report"))
    held = running(holder, f"group:{group.pk}", holder__runner__runner_id="box-1")
    waits = [waiting(other, now - n * SECOND) for n in (2, 1)]
    page = Page(viewer.get("/budgets"))
    assert "2 due runs wait for a slot; 1 limit is used up" in page.text
    assert "database group 2 jobs share it. 2 runs of 1 job wait. 1 of 1 Used up" in page.text
    assert "ops:vacuum since 2026-03-02 12:00:00 UTC runs on box-1" in page.text
    assert "ops:report : 2 runs since 2026-03-02 11:59:58 UTC" in page.text
    links = page.links("/runs/")
    assert [f"/runs/{entry.run_id}" for entry in (held, *waits)] == links


def test_who_waits_for_another_limit_says_for_which(viewer, group, now):
    job = JobFactory(job_key="ops:single", concurrency_group=group, max_concurrent=1)
    group.max_concurrent = 5
    group.save()
    running(job, f"job:{job.pk}", f"group:{group.pk}")
    waiting(job, now)
    text = shown(viewer)
    assert "ops:single job Nobody waits." not in text
    assert "database group 1 job shares it. 1 run of 1 job waits. 1 of 5" in text
    assert "also for ops:single: that is used up too" in text


def test_who_could_begin_is_next(viewer, group, now):
    waiting(JobFactory(job_key="ops:soon", concurrency_group=group), now)
    assert "there is room, it is next to be let in" in shown(viewer)


def test_what_is_planned_or_of_no_limit_waits_for_nobody(viewer, group, now):
    waiting(JobFactory(job_key="ops:later", concurrency_group=group), now + SECOND)
    QueueEntryFactory(job__job_key="ops:free")
    text = shown(viewer)
    assert "Nothing runs under a limit" in text
    assert "ops:free" not in text
    assert "Not in use at the moment" in text
    assert "database group 1 1" in text  # at most, jobs


def test_limits_of_jobs_alone_are_there_too(viewer, now):
    JobFactory(job_key="ops:one", overlap="skip")
    job = JobFactory(job_key="ops:two", max_concurrent=2)
    running(job, f"job:{job.pk}")
    text = shown(viewer)
    assert "ops:two job Nobody waits. 1 of 2" in text
    assert "ops:one job overlap: skip 1 1" in text


def test_a_limit_of_each_tenant(viewer, now, settings):
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 1
    running(JobFactory(tenant="acme", job_key="acme:a"), "tenant:acme")
    waiting(JobFactory(tenant="acme", job_key="acme:b"), now)
    assert "acme tenant 2 jobs share it. 1 run of 1 job waits. 1 of 1 Used up" in shown(viewer)


def test_a_handler_that_winds_down_keeps_its_slot_and_says_so(viewer, now):
    job = JobFactory(job_key="ops:one", max_concurrent=1)
    entry = QueueEntryFactory(job=job, stopping=True, holder__runner__runner_id="box-1")
    SlotFactory(run=entry.run, budget=f"job:{job.pk}")
    assert "its handler winds down on box-1" in shown(viewer)


def test_of_many_runs_some_are_named_and_all_are_counted(viewer, group, now):
    job = JobFactory(job_key="ops:report", concurrency_group=group)
    first = [waiting(job, now - n * SECOND) for n in range(9, 0, -1)]
    page = Page(viewer.get("/budgets"))
    assert "9 runs since" in page.text
    assert page.links("/runs/") == [f"/runs/{entry.run_id}" for entry in first[:5]]


def test_it_follows_and_is_left_alone_while_nothing_happens(viewer, group, now, clock):
    [live] = [values["hx-get"] for values in Page(viewer.get("/budgets")).all("div") if values.get("id") == "budgets"]
    clock.set(now + 5 * SECOND)
    assert viewer.get(live, headers=HTMX).status_code == 204
    waiting(JobFactory(job_key="ops:soon", concurrency_group=group), now)
    assert "ops:soon" in Page(viewer.get(live, headers=HTMX)).text


def test_without_limits_the_page_says_what_they_are(viewer):
    JobFactory()
    assert "Nothing is limited" in shown(viewer)
