"""The page of what comes next: a list, lanes and the load."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.services.audit import SYSTEM
from scheduler.dashboard import upcoming
from scheduler.dashboard.lanes import bars, lanes
from scheduler.models import Run
from scheduler.queries import forecast as forecasts
from scheduler.queries.forecast import forecast
from scheduler.services.calendars import edit_calendar
from scheduler.services.skip import skip_next
from tests.factories import CalendarFactory, CalendarRuleFactory, JobFactory, TriggerFactory
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
CRON = {"kind": "cron", "every": None, "anchor_at": None}
HOUR = timedelta(hours=1)


@pytest.fixture
def stocktaking(now):
    """Closed on 3 March; a daily job at 09:00 goes to the 4th."""
    rules = [{"effect": "exclude", "name": "stocktaking", "dates": ["2026-03-03"]}]
    calendar = edit_calendar({"name": "shop", "timezone": "UTC", "rules": rules}, now).calendar
    TriggerFactory(job__job_key="ops:daily", calendar=calendar, cron_expression="0 9 * * *", **CRON)
    return calendar


def test_fires_are_listed_with_a_countdown_that_needs_no_script(viewer):
    TriggerFactory(job__job_key="ops:backup", every=timedelta(minutes=20))
    page = Page(viewer.get("/next?window=1h"))
    assert "3 fires in the coming 1 hour" in page.text
    assert "in 20 min" in page.text
    assert [span["data-away"] for span in page.all("span", class_="away")] == [
        "2026-03-02T12:20:00.000000Z",
        "2026-03-02T12:40:00.000000Z",
        "2026-03-02T13:00:00.000000Z",
    ]
    assert not Run.objects.exists()  # from the schedule, whatever is planned


def test_what_a_calendar_blocks_is_hollow_with_its_rule_and_where_it_went(viewer, stocktaking):
    page = Page(viewer.get("/next?window=7d"))
    assert "Blocked by stocktaking of calendar shop: next is 2026-03-04 09:00:00 UTC" in page.text
    assert "1 occurrence blocked by a calendar" in page.text
    assert len(page.all("rect", class_="hollow")) == 1
    assert len(page.all("rect", class_="solid")) == 6
    assert len(page.all("line", class_="moved")) == 1
    titles = viewer.get("/next?window=7d").content.decode()
    assert "Tue 3 Mar 09:00:00 UTC is blocked by stocktaking; it goes to Wed 4 Mar 09:00:00 UTC" in titles


def test_heaps_and_marks_say_when_and_what(viewer, now):
    job = JobFactory(job_key="ops:paused", paused_at=now, paused_until=now + HOUR)
    TriggerFactory(job=job, every=HOUR)
    text = Page(viewer.get("/next?window=7d")).text
    assert "Mon 2 Mar 13:00:00 UTC, held by the pause" in text
    assert "Tue 3 Mar 12:00 UTC – 15:00 UTC: 3 more fires" in text


@pytest.mark.parametrize(("window", "fires"), [("1h", 1), ("24h", 24), ("7d", 168), ("31d", 744), ("", 24)])
def test_each_window_counts_all_of_its_fires(viewer, window, fires):
    TriggerFactory(job__job_key="ops:hourly", every=HOUR)
    page = Page(viewer.get(f"/next?window={window}"))
    assert f"{fires} fire" in page.text
    assert [link["href"] for link in page.all("a", aria_current="page")][-1] == f"/next?window={window or '24h'}"
    if fires > upcoming.LISTED:
        assert f"from then on ops:hourly {fires - upcoming.LISTED} more fires, until" in page.text


def test_a_window_that_is_none_is_refused(viewer):
    assert viewer.get("/next?window=2y").status_code == 400


def test_paused_jobs_would_fire_and_broken_ones_say_why(viewer, now):
    TriggerFactory(job=JobFactory(job_key="ops:paused", paused_at=now), every=HOUR)
    TriggerFactory(job__job_key="ops:broken", config_error="The zone is nonsense.")
    text = Page(viewer.get("/next")).text
    assert "Would fire, but the job is paused" in text
    assert "ops:broken does not fire as it should: The zone is nonsense." in text


def test_a_fire_that_was_taken_out_is_struck_through_and_not_counted(viewer, now):
    TriggerFactory(job__job_key="ops:hourly", every=HOUR)
    skip_next("ops:hourly", now, SYSTEM)
    page = Page(viewer.get("/next"))
    assert "23 fires in the coming 24 hours" in page.text
    assert "2026-03-02 13:00:00 UTC ops:hourly Skipped: somebody took this fire out" in page.text
    assert len(page.all("s")) == 1
    assert "from then on ops:hourly 16 more fires, until 2026-03-03 12:00:00 UTC" in page.text


def test_without_anything_to_come_it_says_so(viewer):
    assert "Nothing fires in the coming 24 hours" in Page(viewer.get("/next")).text


def test_a_closure_of_many_occurrences_is_one_row(viewer, now, monkeypatch):
    calendar = CalendarFactory(name="shop")
    CalendarRuleFactory(calendar=calendar, effect="exclude", name="lunch", window_start="12:00", window_end="12:10")
    TriggerFactory(job__job_key="ops:minutely", calendar=calendar)
    page = Page(viewer.get("/next?window=1h"))
    assert "9 occurrences, to 2026-03-02 12:09:00 UTC , blocked by lunch of calendar shop" in page.text
    monkeypatch.setattr(upcoming, "PER_JOB", 8)
    page = Page(viewer.get("/next?window=1h"))
    assert "8 occurrences, to 2026-03-02 12:08:00 UTC , blocked by lunch of calendar shop" in page.text
    assert "from then on ops:minutely 1 more occurrence is blocked, until 2026-03-02 13:00:00 UTC" in page.text


def test_marks_and_bars_lie_where_their_instants_are(now, stocktaking):
    TriggerFactory(job__job_key="ops:hourly", every=HOUR)
    found = forecast(now, 48 * HOUR, bucket=12 * HOUR, per_job=4)
    first, second = lanes(found, 10)
    assert (first.job.job_key, [mark.x for mark in first.marks]) == ("ops:hourly", ["20.8", "41.7", "62.5", "83.3"])
    assert (first.rest_x, first.rest_width) == ("83.3", "916.7")
    assert [(heap.number, heap.x, heap.width, heap.y, heap.height) for heap in first.heaps] == [
        (8, "83.3", "165.7", "9.0", "12.0"),
        (12, "250.0", "249.0", "3.0", "18.0"),
        (12, "500.0", "249.0", "3.0", "18.0"),
        (12, "750.0", "249.0", "3.0", "18.0"),
    ]
    assert [(mark.x, mark.moved_x, mark.item.is_blocked) for mark in second.marks] == [
        ("437.5", "937.5", True),
        ("937.5", "", False),
    ]
    assert [(bar.x, bar.height, bar.blocked_height) for bar in bars(found)] == [
        ("1.0", "92.3", "0.0"),
        ("251.0", "92.3", "7.7"),
        ("501.0", "92.3", "0.0"),
        ("751.0", "100.0", "0.0"),
    ]
    assert len(lanes(found, 1)) == 1


def test_lanes_and_rows_are_bounded(viewer, monkeypatch):
    monkeypatch.setattr(upcoming, "MOST_LANES", 2)
    monkeypatch.setattr(upcoming, "MOST_ROWS", 3)
    for number in range(4):
        TriggerFactory(job__job_key=f"ops:{number}", every=HOUR)
    page = Page(viewer.get("/next"))
    assert len(page.all("td", class_="lane")) == 2
    assert "2 more jobs come later than these." in page.text
    assert "The first 3 lines" in page.text


def test_where_the_fires_of_a_job_stop_being_listed_a_row_says_how_many_follow(viewer, monkeypatch):
    monkeypatch.setattr(upcoming, "LISTED", 2)
    for number in (0, 1):
        TriggerFactory(job__job_key=f"ops:{number}", every=HOUR)
    page = Page(viewer.get("/next"))
    assert len(page.all("span", class_="away")) == 2 * 2
    rest = "more fires, until 2026-03-03 12:00:00 UTC"
    # Where it stops, not below the whole list.
    assert f"Fires from then on ops:0 22 {rest} 2026-03-02 14:00:00 UTC in 2 h ops:1 Fires from" in page.text
    monkeypatch.setattr(upcoming, "LISTED", 24)
    assert "from then on" not in Page(viewer.get("/next")).text


@pytest.mark.parametrize(
    ("hourly", "often", "said"),
    [
        (1, 0, "1 fire of 1 more job comes later than all of these."),
        (2, 0, "2 fires of 2 more jobs come later than all of these."),
        (0, 1, "2 fires of 1 more job come later than all of these."),
    ],
)
def test_fires_and_jobs_that_come_later_than_all_that_is_listed_are_counted(viewer, monkeypatch, hourly, often, said):
    monkeypatch.setattr(forecasts, "MOST_LISTED", 2)
    TriggerFactory(job__job_key="ops:minutely", every=timedelta(minutes=1))
    for every in [HOUR] * hourly + [HOUR / 2] * often:
        TriggerFactory(every=every)
    assert said in Page(viewer.get("/next?window=1h")).text


def test_a_pause_holds_fires_only_up_to_its_end(viewer, now):
    job = JobFactory(job_key="ops:paused", paused_at=now, paused_until=now + 2 * HOUR)
    TriggerFactory(job=job, every=HOUR)
    page = Page(viewer.get("/next"))
    assert "22 fires in the coming 24 hours" in page.text
    assert "fires (besides 2 fires that a pause holds back)" in page.text
    assert page.text.count("Would fire, but the job is paused then") == 2
    assert len(page.all("rect", class_="held")) == 2
    assert "ops:paused Paused until 2026-03-02 14:00:00 UTC" in page.text
