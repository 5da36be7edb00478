"""A list costs as many queries with thirty rows as with three."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.factories import (
    AttemptFactory,
    AuditEventFactory,
    CalendarFactory,
    CalendarRuleFactory,
    ConcurrencyGroupFactory,
    DeadLetterFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    RunnerInstanceFactory,
    SkippedSpanFactory,
    SlotFactory,
    TriggerFactory,
)

pytestmark = pytest.mark.django_db


def add_jobs(count: int, now) -> None:
    for number in range(count):
        calendar = CalendarFactory()
        CalendarRuleFactory(calendar=calendar, weekdays=[1, 2, 3, 4, 5])
        # Half of them have their next run planned, the others' triggers are asked.
        job = TriggerFactory(calendar=calendar).job
        TriggerFactory(job=job)
        RunFactory(job=job, completed=True)
        if number % 2:
            QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(minutes=1))


def add_runs(count: int, now) -> None:
    for _ in range(count):
        RunFactory(completed=True)
        RunFactory(dead=True)
        QueueEntryFactory(claimed=True)


def add_planned(count: int, now) -> None:
    for _ in range(count):
        QueueEntryFactory(run__scheduled_for=now + timedelta(minutes=1))


def add_to_a_job(count: int, now) -> None:
    job = JobFactory._meta.model.objects.filter(job_key="ops:backup").first() or JobFactory(job_key="ops:backup")
    for _ in range(count):
        TriggerFactory(job=job, calendar=CalendarFactory())
        RunFactory(job=job, completed=True)


def add_runners(count: int, now) -> None:
    for _ in range(count):
        RunnerInstanceFactory()


def add_to_a_calendar(count: int, now) -> None:
    calendar = CalendarFactory._meta.model.objects.filter(name="shop").first() or CalendarFactory(name="shop")
    for _ in range(count):
        CalendarRuleFactory(calendar=calendar, effect="exclude", weekdays=[7])
        TriggerFactory(calendar=calendar)


def add_letters(count: int, now) -> None:
    for number in range(count):
        letter = DeadLetterFactory(fingerprint=f"error {number}")
        DeadLetterFactory(job=letter.job, fingerprint="exit code <n>")
        RunFactory(job=letter.job, kind="replay", replay_of=letter.run, completed=True)


def add_missed(count: int, now) -> None:
    for _ in range(count):
        job = TriggerFactory(calendar=CalendarFactory(), created_at=now - timedelta(days=2)).job
        RunFactory(job=job, verdict="skipped", problem="skipped", finished_at=now, reason="paused")
        SkippedSpanFactory(job=job, first_at=now - timedelta(hours=1))


def add_limited(count: int, now) -> None:
    for _ in range(count):
        group = ConcurrencyGroupFactory()
        entry = QueueEntryFactory(job__concurrency_group=group, claimed=True)
        SlotFactory(run=entry.run, budget=f"group:{group.pk}")
        QueueEntryFactory(job=entry.job, state=1)
        JobFactory(max_concurrent=1)


def add_audit(count: int, now) -> None:
    for _ in range(count):
        AuditEventFactory(target_type="job", target_id="ops:backup")


def add_a_day(count: int, now) -> None:
    for _ in range(count):
        job = TriggerFactory(calendar=CalendarFactory(), job__tags=["eu"]).job
        RunFactory(job=job, completed=True, scheduled_for=now - timedelta(hours=1))
        QueueEntryFactory(job=job, claimed=True, run__scheduled_for=now - timedelta(minutes=1))


def queries_of(client: Client, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert client.get(path).status_code == 200
    return len(queries)


@pytest.mark.parametrize(
    ("path", "add", "most"),
    [
        ("/jobs", add_jobs, 14),
        ("/jobs/bulk?do=pause&all=1", add_jobs, 6),
        ("/runs", add_runs, 9),
        ("/runs?state=dead", add_runs, 9),
        ("/runs?tag=eu&error=x", add_runs, 10),
        ("/runs/bulk?do=rerun&all=1", add_runs, 10),
        ("/runs/planned", add_planned, 8),
        ("/jobs/ops:backup", add_to_a_job, 15),
        ("/runners", add_runners, 11),
        ("/settings/tenants", add_runners, 10),
        ("/next", add_jobs, 7),
        ("/letters", add_letters, 5),
        ("/letters?fingerprint=exit+code+<n>", add_letters, 6),
        ("/letters/confirm?do=replay", add_letters, 5),
        ("/missed", add_missed, 9),
        ("/budgets", add_limited, 10),
        ("/audit", add_audit, 5),
        ("/overlap", add_a_day, 11),
        ("/overlap?by=runner", add_a_day, 11),
        ("/calendars", add_jobs, 7),
        ("/calendars/{calendar}", add_to_a_calendar, 10),
        ("/calendars/{calendar}/year", add_to_a_calendar, 9),
    ],
)
def test_the_queries_of_a_page_do_not_depend_on_its_rows(
    viewer: Client, now, path: str, add: Callable, most: int
) -> None:
    add(3, now)
    if "{calendar}" in path:
        path = path.format(calendar=CalendarFactory._meta.model.objects.get().pk)
    few = queries_of(viewer, path)
    add(27, now)
    assert queries_of(viewer, path) == few <= most


def test_the_queries_of_a_run_do_not_depend_on_its_attempts_and_lines(viewer: Client) -> None:
    run = RunFactory(completed=True, attempt=40)
    counts = []
    for attempts in (range(1, 4), range(4, 31)):
        for attempt in attempts:
            AttemptFactory(run=run, attempt=attempt)
            RunLogFactory(run=run)
        counts.append((queries_of(viewer, f"/runs/{run.id}"), queries_of(viewer, f"/runs/{run.id}/log")))
    assert counts[0] == counts[1]
