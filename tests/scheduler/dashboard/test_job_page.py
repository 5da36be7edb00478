"""A job's page: its year day by day, how long it takes, what comes and what keeps it from coming, its letters."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from scheduler.dashboard.trend import chart_of
from scheduler.dashboard.year_strip import strip_of
from scheduler.queries.job_trend import LEAST_RUNS, trend_of
from scheduler.queries.job_year import DAYS, year_of
from scheduler.services.calendars import edit_calendar
from scheduler.services.pause import pause_job
from scheduler.sql import year as year_sql
from scheduler.sql.recent import RecentRun
from tests.factories import (
    DeadLetterFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    SkippedSpanFactory,
    TriggerFactory,
)
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
CRON = {"kind": "cron", "every": None, "anchor_at": None}
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def ended(job, at, verdict, reason=""):
    problem = None if verdict == "completed" else verdict
    RunFactory(job=job, scheduled_for=at, verdict=verdict, problem=problem, finished_at=at, reason=reason)


@pytest.fixture
def eventful(now):
    """A job of which something else happened on each of five days, and another one's runs between them."""
    job = JobFactory(job_key="ops:backup")
    for minute in range(1, 26):
        ended(job, now - DAY - timedelta(minutes=minute), "completed")
    ended(job, now - DAY, "failed")
    for minute, verdict in enumerate(("completed", "dead", "failed", "cancelled")):
        ended(job, now - 2 * DAY - timedelta(minutes=minute), verdict)
    for minute, reason in enumerate(("downtime", "paused", "skip_next")):
        ended(job, now - 3 * DAY - timedelta(minutes=minute), "skipped", reason)
    SkippedSpanFactory(job=job, first_at=now - 4 * DAY, last_at=now - 4 * DAY + HOUR, count=7, reason="downtime")
    SkippedSpanFactory(job=job, first_at=now - 5 * DAY, last_at=now - 5 * DAY + HOUR, count=3, reason="maintenance")
    QueueEntryFactory(job=job, run__scheduled_for=now - 2 * HOUR)
    QueueEntryFactory(job=job, claimed=True, run__scheduled_for=now - 3 * HOUR)
    QueueEntryFactory(job=job, run__scheduled_for=now + HOUR)
    ended(job, now - HOUR, "completed")
    ended(JobFactory(), now - DAY, "dead")
    ended(job, now - 400 * DAY, "dead")
    return job


def test_each_day_of_a_year_says_what_became_of_its_fires(now, eventful, django_assert_num_queries):
    with django_assert_num_queries(1):
        year = year_of(eventful.pk, "", now)
    assert len(year.days) == DAYS
    found = [(d.kind, d.ran, d.failed, d.missed, d.skipped, d.cancelled, d.open) for d in year.days[-6:]]
    assert found == [
        ("skipped", 0, 0, 0, 3, 0, 0),
        ("missed", 0, 0, 7, 0, 0, 0),
        ("missed", 0, 0, 1, 2, 0, 0),
        ("failed", 1, 2, 0, 0, 1, 0),
        ("some", 25, 1, 0, 0, 0, 0),
        ("ran", 1, 0, 0, 0, 0, 2),
    ]
    assert Counter(day.kind for day in year.days)["none"] == DAYS - 6
    assert year.is_exact


def test_days_are_those_of_the_jobs_zone(now):
    job = JobFactory()
    ended(job, datetime(2026, 3, 1, 23, 30, tzinfo=UTC), "completed")  # in Vienna 00:30 on the second
    assert [day.day.day for day in year_of(job.pk, "UTC", now).days if day.ran] == [1]
    assert [day.day.day for day in year_of(job.pk, "Europe/Vienna", now).days if day.ran] == [2]


def test_a_gap_of_several_days_marks_each_of_them_and_is_counted_to_none(now):
    job = JobFactory()
    SkippedSpanFactory(job=job, first_at=now - 3 * DAY, last_at=now - DAY, count=4000, reason="downtime")
    year = year_of(job.pk, "", now)
    assert [(day.kind, day.missed) for day in year.days[-5:]] == [("none", 0), *[("missed", 0)] * 3, ("none", 0)]


def test_of_a_day_with_very_many_skipped_runs_some_are_asked_why_and_that_is_said(now, monkeypatch):
    for module in (year_sql, year_of.__globals__):
        name = "MOST_SKIPPED_LOOKED_AT"
        monkeypatch.setitem(module, name, 2) if isinstance(module, dict) else monkeypatch.setattr(module, name, 2)
    job = JobFactory()
    for minute in range(5):
        ended(job, now - timedelta(minutes=minute), "skipped", "downtime")
    year = year_of(job.pk, "", now)
    assert (year.days[-1].missed, year.days[-1].skipped, year.is_exact) == (2, 3, False)


def test_the_year_is_shapes_and_words(viewer, now, eventful):
    page = Page(viewer.get("/jobs/ops:backup"))
    assert "In the last year: 27 ran, 3 failed, 8 missed, 5 skipped, 1 cancelled, 2 not ended." in page.text
    shapes = {kind: len(page.all("g", class_=f"day-{kind}")) for kind in ("ran", "some", "failed", "missed", "skipped")}
    assert shapes == {"ran": 1, "some": 1, "failed": 1, "missed": 2, "skipped": 1}
    strip = strip_of(year_of(eventful.pk, "", now))
    assert strip.cells[-1].words == "Mon 2 March 2026: 1 ran, 2 not ended"
    assert (strip.cells[-1].y, strip.cells[-2].y - strip.cells[-1].y) == (14, 6 * 11)  # Monday on top, Sunday below
    assert strip.cells[-1].x - strip.cells[-2].x == 11


def test_the_year_of_a_job_without_any_run(viewer):
    JobFactory(job_key="ops:new")
    text = Page(viewer.get("/jobs/ops:new")).text
    assert "Nothing is recorded" in text
    assert "Too few of its runs have completed to say" in text


def runs_of(now, durations, verdict="completed"):
    return [RecentRun(now + timedelta(minutes=n), uuid4(), verdict, ms) for n, ms in enumerate(durations)]


def test_the_trend_is_of_neighbours_that_completed(now):
    assert trend_of(runs_of(now, range(LEAST_RUNS - 1))) is None
    assert trend_of(runs_of(now, [1] * 50, "failed")) is None
    found = trend_of([*runs_of(now, [100] * 5 + [900]), *runs_of(now, [9999] * 40, "failed"), *runs_of(now, [300] * 6)])
    assert found is not None
    assert (found.runs, found.median_ms, found.p95_ms) == (12, 300, 900)
    assert [(p.runs, p.median_ms, p.p95_ms) for p in found.points] == [(6, 100, 900), (6, 300, 300)]
    assert len(trend_of(runs_of(now, [1] * 2000)).points) == 50


def test_the_trend_is_a_line_and_a_band(now):
    chart = chart_of(trend_of(runs_of(now, [100] * 5 + [50] * 4 + [200])))
    assert (chart.line, chart.most_ms) == ("250.0,50.0 750.0,75.0", 200)
    assert chart.band == "250.0,50.0 750.0,75.0 750.0,0.0 250.0,50.0"
    assert [(spot.x, spot.width) for spot in chart.spots] == [("0.0", "500.0"), ("500.0", "500.0")]
    assert chart_of(trend_of(runs_of(now, [0] * 10))).most_ms == 1  # no division by nothing


@pytest.fixture
def shop(now):
    rules = [
        {"effect": "exclude", "name": "lunch", "window_start": "12:03", "window_end": "12:30"},
        {"effect": "exclude", "name": "stocktaking", "dates": ["2026-03-03"]},
    ]
    return edit_calendar({"name": "shop", "timezone": "UTC", "rules": rules}, now).calendar


def test_between_the_next_fires_stands_what_is_blocked_by_which_rule_and_where_it_goes(viewer, now, shop):
    job = JobFactory(job_key="ops:minutely")
    TriggerFactory(job=job, calendar=shop)
    page = Page(viewer.get("/jobs/ops:minutely"))
    assert len(page.all("span", class_="mark-hollow")) == 1
    assert "27 occurrences, from 2026-03-02 12:03:00 UTC : blocked by lunch of calendar shop" in page.text
    assert "; the next is 2026-03-02 12:30:00 UTC" in page.text
    fires = [values["datetime"][11:16] for values in page.all("time", **{"data-relative": "due"})]
    assert fires[:10] == ["12:01", "12:02", *[f"12:{minute}" for minute in range(30, 38)]]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("advance", "the next is 2026-03-04 09:00:00 UTC"),
        ("defer", "moved to 2026-03-04 00:00:00 UTC"),
        ("following", "moved to 2026-03-04 09:00:00 UTC"),
    ],
)
def test_where_a_blocked_fire_goes_is_its_policys_word(viewer, shop, policy, said):
    TriggerFactory(job__job_key="ops:daily", calendar=shop, on_blocked=policy, cron_expression="0 9 * * *", **CRON)
    text = Page(viewer.get("/jobs/ops:daily")).text
    assert f"2026-03-03 09:00:00 UTC : blocked by stocktaking of calendar shop ; {said}" in text
    assert ("moved from 2026-03-03 09:00:00 UTC" in text) == (policy != "advance")


def test_fires_within_a_pause_say_that_they_will_be_skipped(viewer, now):
    TriggerFactory(job__job_key="ops:hourly", every=HOUR)
    pause_job("ops:hourly", now, until=now + 2 * HOUR)
    page = Page(viewer.get("/jobs/ops:hourly"))
    assert page.text.count("paused then: it will be skipped") == 2
    assert "what falls due before the end of the pause does not run, and is recorded as skipped" in page.text
    assert "held until" not in page.text
    pause_job("ops:hourly", now, until=None)
    page = Page(viewer.get("/jobs/ops:hourly"))
    assert page.text.count("paused then: it will be skipped") == 10
    assert "before somebody resumes it" in page.text


def test_letters_that_wait_are_named_and_those_that_were_replayed_are_not(viewer, now):
    job = JobFactory(job_key="ops:backup")
    for number in range(7):
        DeadLetterFactory(job=job, error=f"exit code {number}", created_at=now - timedelta(minutes=number))
    RunFactory(job=job, kind="replay", replay_of=job.dead_letters.get(error="exit code 0").run, completed=True)
    DeadLetterFactory(error="another job's")
    text = Page(viewer.get("/jobs/ops:backup")).text
    assert "Dead letters 6" in text
    assert [n for n in range(7) if f"exit code {n}" in text] == [1, 2, 3, 4, 5]
    assert "and 1 more" in text
    assert "another job's" not in text
