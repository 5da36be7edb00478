"""A day of all jobs: what ran beside what, what is to come, and when nothing does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.dashboard import day_lanes
from scheduler.queries import day as days
from scheduler.queries.day import EXPECTED_OF, day_of
from tests.factories import ConcurrencyGroupFactory, JobFactory, QueueEntryFactory, RunFactory, TriggerFactory
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)


def ran(job, at, waits=0.0, takes=60.0, **columns):
    """A run that was due at ``at``, waited and ran for so many seconds."""
    claimed = at + waits * SECOND
    values = {"completed": True, **columns}
    return RunFactory(
        job=job,
        scheduled_for=at,
        created_at=at - HOUR,
        claimed_at=claimed,
        finished_at=claimed + takes * SECOND,
        duration_ms=int(takes * 1000),
        **values,
    )


def bars(page: Page, kind: str) -> list[tuple[float, float]]:
    """(x, width) of what is drawn in a row with this class."""
    return [
        (float(values["x"]), float(values["width"]))
        for values in page.all("rect", class_=kind)
        if "height" in values and values.get("height") != "100"
    ][legend_of(kind) :]


def legend_of(kind: str) -> int:
    """How many samples of it the legend has."""
    return {"wait": 1, "ran": 2, "bad": 1, "coming": 1, "by-hour": 2}.get(kind, 0)


def test_a_run_is_a_bar_of_its_wait_and_its_time_and_leads_to_its_page(viewer):
    run = ran(JobFactory(job_key="ops:backup"), MIDNIGHT + 6 * HOUR, waits=3600, takes=7200)
    page = Page(viewer.get("/overlap"))
    assert bars(page, "wait") == [(250.0, 41.7)]
    assert bars(page, "ran") == [(291.7, 83.3)]
    [link] = [values for values in page.all("a", href=f"/runs/{run.pk}") if "aria-label" in values]
    assert link["aria-label"] == "06:00:00 UTC: completed, waited 1 h, ran 2 h on runner"
    assert "1 run on Monday 2 March 2026" in page.text


def test_what_failed_is_told_by_its_shape_too(viewer):
    ran(JobFactory(), MIDNIGHT + HOUR, dead=True, completed=False)
    page = Page(viewer.get("/overlap"))
    [bad] = page.all("rect", class_="bad")[1:]
    assert bad["height"] == "12"
    assert "01:00:00 UTC: dead" in page.text


def test_what_runs_now_reaches_to_now_and_what_waits_is_only_a_wait(viewer, now):
    QueueEntryFactory(
        claimed=True,
        claimed_at=now - 2 * HOUR,
        run__scheduled_for=now - 2 * HOUR,
        run__created_at=now - 3 * HOUR,
        holder__runner__runner_id="box-1",
    )
    QueueEntryFactory(run__scheduled_for=now - HOUR, run__created_at=now - 3 * HOUR)
    page = Page(viewer.get("/overlap"))
    assert bars(page, "ran") == [(416.7, 83.3)]
    assert bars(page, "wait") == [(458.3, 41.7)]
    assert "10:00:00 UTC: running, waited 0 s, ran 2 h on box-1" in page.text
    assert "11:00:00 UTC: queued, waited 1 h" in page.text


def test_what_a_runner_calls_itself_is_text(viewer):
    ran(JobFactory(), MIDNIGHT + HOUR, runner_id='<b title="x">box</b>')
    answer = viewer.get("/overlap").content.decode()
    assert "ran 1 min on &lt;b title=&quot;x&quot;&gt;box&lt;/b&gt;" in answer
    assert "<b title" not in answer


def test_runs_that_overlap_lie_beside_each_other(viewer):
    job = JobFactory()
    for minutes in (0, 10, 20, 90):
        ran(job, MIDNIGHT + minutes * MINUTE, takes=3600)
    page = Page(viewer.get("/overlap"))
    places = [values["y"] for values in page.all("rect", class_="ran")[2:]]
    assert places == ["2", "14", "26", "2"]
    assert [values["viewbox"] for values in page.all("svg", role="group")] == ["0 0 1000 36"]


def test_short_runs_in_a_row_are_not_drawn_as_if_they_overlapped(viewer):
    job = JobFactory()
    # Each takes a second, a minute after the other: narrower than a bar is drawn at least.
    for minute in range(3):
        ran(job, MIDNIGHT + minute * MINUTE, takes=1)
    ran(job, MIDNIGHT + HOUR, takes=1)
    page = Page(viewer.get("/overlap"))
    assert [values["viewbox"] for values in page.all("svg", role="group")] == ["0 0 1000 12"]
    drawn = page.all("rect", class_="completed")
    assert {values["y"] for values in drawn} == {"2"}
    # A minute is 0.7 wide; the last one has room, and is drawn as wide as it is seen well.
    assert [float(values["width"]) for values in drawn] == [0.7, 0.7, 1.6, 1.6]
    assert [float(values["x"]) for values in drawn] == [0.0, 0.7, 1.4, 41.7]


def test_a_fire_to_come_is_hollow_or_pale_where_it_is_too_narrow_for_that(viewer, now):
    TriggerFactory(job__job_key="ops:hourly", every=HOUR, anchor_at=now)
    TriggerFactory(job__job_key="ops:quick", every=5 * MINUTE, anchor_at=now)
    page = Page(viewer.get("/overlap"))
    thin = page.all("rect", class_="thin")
    assert {values["width"] for values in thin} == {"3.5"}  # up to the next one, five minutes later
    assert {float(width) for _, width in bars(page, "coming")} - {3.5} == {4.0}


def test_a_pause_with_an_end_lets_come_what_is_after_it(viewer, now):
    job = JobFactory(job_key="ops:paused", paused_at=now, paused_until=now + 4 * HOUR)
    TriggerFactory(job=job, every=2 * HOUR, anchor_at=now)
    page = Page(viewer.get("/overlap"))
    assert "0 runs, 3 to come on Monday" in page.text
    assert [x for x, _ in bars(page, "coming")] == [750.0, 833.3, 916.7]


def test_a_run_of_the_day_before_that_still_ran_is_part_of_the_day(viewer, now):
    job = JobFactory(job_key="ops:long")
    ran(job, MIDNIGHT - HOUR, takes=7200)
    ran(JobFactory(job_key="ops:over"), MIDNIGHT - HOUR, takes=60)
    RunFactory(job=job, scheduled_for=MIDNIGHT + HOUR, verdict="skipped", problem="skipped", finished_at=now)
    page = Page(viewer.get("/overlap?day=2026-03-02"))
    assert bars(page, "ran") == [(0.0, 41.7)]
    assert "1 run on Monday" in page.text
    assert "ops:over" not in page.text
    assert len(bars(Page(viewer.get("/overlap?day=2026-03-01")), "ran")) == 2


def test_what_is_to_come_is_as_long_as_the_last_runs_were(viewer, now):
    job = TriggerFactory(job__job_key="ops:backup", every=2 * HOUR, anchor_at=now, created_at=now - 9 * DAY).job
    for n in range(1, 21):  # nineteen took an hour, one ten
        ran(job, now - DAY - n * MINUTE, takes=36_000 if n == 20 else 3600)
    TriggerFactory(job__job_key="ops:paused", job__paused_at=now, every=2 * HOUR, anchor_at=now)
    page = Page(viewer.get("/overlap"))
    assert "0 runs, 5 to come on Monday" in page.text
    assert bars(page, "coming") == [(583.3, 41.7), (666.7, 41.7), (750.0, 41.7), (833.3, 41.7), (916.7, 41.7)]
    assert "14:00:00 UTC: to come, usually 1 h, 95 of 100 within 1 h" in page.text
    assert "ops:paused" not in page.text
    tomorrow = Page(viewer.get("/overlap?day=2026-03-03"))
    assert len(bars(tomorrow, "coming")) == 12
    assert bars(tomorrow, "coming")[0][0] == 0.0  # midnight belongs to the day that it begins


def test_the_newest_runs_say_how_long_the_next_ones_take(now):
    job = TriggerFactory(every=2 * HOUR, anchor_at=now, created_at=now - 9 * DAY).job
    for n in range(EXPECTED_OF):
        ran(job, now - DAY - n * MINUTE, takes=60)
    for n in range(EXPECTED_OF):
        ran(job, now - 2 * DAY - n * MINUTE, takes=6000)
    for n in range(3):
        ran(job, now - 2 * HOUR - n * MINUTE, dead=True, completed=False, takes=9000)
    expected = day_of(MIDNIGHT, now).expected
    assert {(fire.median_seconds, fire.most_seconds) for fire in expected} == {(60, 60)}


def test_a_job_that_never_ran_is_a_mark_without_a_length(viewer, now):
    TriggerFactory(every=6 * HOUR, anchor_at=now, created_at=now - DAY)
    text = Page(viewer.get("/overlap")).text
    assert "18:00:00 UTC: to come; no run yet says how long it takes" in text


def test_lanes_by_what_one_likes(viewer, now):
    group = ConcurrencyGroupFactory(name="database")
    one = JobFactory(job_key="ops:one", tags=["eu", "nightly"], concurrency_group=group, tenant="acme")
    two = JobFactory(job_key="ops:two")
    ran(one, MIDNIGHT + HOUR, runner_id="box-1")
    ran(one, MIDNIGHT + 2 * HOUR, runner_id="box-2")
    ran(two, MIDNIGHT + HOUR, runner_id="box-2")

    def headings(by: str) -> str:
        return Page(viewer.get(f"/overlap?by={by}")).text

    assert "acme Job Runs over the day Count ops:one" in headings("tenant")
    assert "database Job Runs over the day Count ops:one" in headings("group")
    assert "no group Job Runs over the day Count ops:two" in headings("group")
    tags = headings("tag")
    assert tags.index("eu Job Runs") < tags.index("nightly Job Runs") < tags.index("no tag Job Runs")
    runners = headings("runner")
    assert "box-1 Job Runs over the day Count ops:one" in runners
    assert runners.index("box-2 Job Runs") < runners.rindex("ops:one") < runners.index("ops:two")
    assert viewer.get("/overlap?by=weather").status_code == 400


def test_quiet_hours_are_said_in_words(viewer, now):
    job = JobFactory()
    ran(job, MIDNIGHT + 2 * HOUR, takes=3 * 3600 - 1)
    ran(job, MIDNIGHT + 11 * HOUR, takes=60)
    TriggerFactory(kind="once", every=None, anchor_at=None, run_at=now + 4 * HOUR, created_at=now - DAY)
    text = Page(viewer.get("/overlap")).text
    # The day is UTC's, whatever the reader's zone: the field, the axis and the quiet times say so.
    assert "Day, UTC" in text
    assert "00:00 UTC 03:00 06:00" in text
    assert "Quiet, UTC: 00:00 to 02:00 05:00 to 11:00 11:15 to 16:00 16:15 to 24:00" in text
    assert "02:00 UTC: 1 run at work" in text
    assert "16:00 UTC: 1 run to come" in text


def test_a_day_of_many_runs_is_drawn_by_the_hour(viewer, monkeypatch):
    monkeypatch.setattr(day_lanes, "MOST_BARS", 2)
    job = JobFactory()
    for hour in (1, 1, 2, 2, 5):
        ran(job, MIDNIGHT + hour * HOUR + len(str(hour)) * SECOND, kind="triggered", takes=1)
    ran(job, MIDNIGHT + 5 * HOUR, takes=1, dead=True, completed=False)
    page = Page(viewer.get("/overlap"))
    assert "1 row with many runs is drawn by the hour" in page.text
    assert "01:00 to 03:00 UTC: 2 runs an hour" in page.text
    assert "05:00 to 06:00 UTC: 2 runs an hour, 1 failed" in page.text
    assert not [values for values in page.all("a") if "aria-label" in values]


def test_what_is_not_listed_of_what_comes_is_drawn_by_the_hour(viewer, now, monkeypatch):
    monkeypatch.setattr(days, "LISTED_OF_A_JOB", 3)
    TriggerFactory(kind="cron", every=None, anchor_at=None, cron_expression="0 13-16,20-22 * * *", created_at=now - DAY)
    page = Page(viewer.get("/overlap"))
    assert "0 runs, 7 to come" in page.text
    assert len(bars(page, "coming")) == 3
    assert "16:00 to 17:00 UTC: 1 run an hour to come 20:00 to 23:00 UTC: 1 run an hour to come" in page.text
    assert [bar[0] for bar in bars(page, "by-hour")] == [666.7, 833.3]


def test_a_pause_that_ends_takes_nothing_from_what_is_drawn_by_the_hour(viewer, now, monkeypatch):
    monkeypatch.setattr(days, "LISTED_OF_A_JOB", 1)
    job = JobFactory(paused_at=now, paused_until=now + 3 * HOUR)
    TriggerFactory(job=job, every=HOUR, anchor_at=now, created_at=now - DAY)
    page = Page(viewer.get("/overlap"))
    assert "0 runs, 8 to come" in page.text
    assert "16:00 to 24:00 UTC: 1 run an hour to come" in page.text


def test_by_the_hour_what_is_to_come_is_hollow(viewer, now, monkeypatch):
    monkeypatch.setattr(day_lanes, "MOST_BARS", 2)
    job = TriggerFactory(every=HOUR, anchor_at=now, created_at=now - DAY).job
    ran(job, now - 2 * HOUR)
    page = Page(viewer.get("/overlap"))
    assert "10:00 to 11:00 UTC: 1 run an hour 13:00 to 24:00 UTC: 1 run an hour to come" in page.text
    assert bars(page, "by-hour") == [(541.7, 457.3)]


def test_a_day_of_more_runs_than_are_read_is_counted(viewer, monkeypatch):
    monkeypatch.setattr(days, "MOST_RUNS", 3)
    jobs = [JobFactory(job_key=f"ops:job-{n}") for n in range(2)]
    for n in range(6):
        ran(jobs[n % 2], MIDNIGHT + (n // 2) * HOUR, dead=n == 5, completed=n != 5, runner_id=f"box-{n % 2}")
    page = Page(viewer.get("/overlap?by=runner"))
    assert "6 runs on Monday" in page.text
    assert "they are counted by the hour, not drawn one by one" in page.text
    assert "02:00 to 03:00 UTC: 1 run an hour, 1 failed" in page.text
    assert "Quiet, UTC: 03:00 to 24:00" in page.text
    assert {"box-0", "box-1", "ops:job-0", "ops:job-1"} <= set(page.text.split())


def test_rows_beyond_the_most_are_counted(viewer, monkeypatch):
    monkeypatch.setattr(day_lanes, "MOST_ROWS", 2)
    for _ in range(5):
        ran(JobFactory(), MIDNIGHT + HOUR)
    page = Page(viewer.get("/overlap"))
    assert "3 more rows are left out" in page.text
    assert len(page.all("svg", role="group")) == 2


@pytest.mark.parametrize("day", ["yesterday", "2026-13-01", "0001-01-01", "9999-12-31", "2026-03-02T00:00"])
def test_what_is_no_day_is_400(viewer, day):
    assert viewer.get(f"/overlap?day={day}").status_code == 400


def test_days_follow_each_other_and_an_empty_one_says_so(viewer):
    ran(JobFactory(), MIDNIGHT + HOUR)
    page = Page(viewer.get("/overlap?day=2026-02-27&by=tag"))
    assert "Nothing on Friday 27 February 2026" in page.text
    links = [values["href"] for values in page.all("a")]
    assert {"/overlap?day=2026-02-26&by=tag", "/overlap?day=2026-02-28&by=tag", "/overlap?by=tag"} <= set(links)


def test_the_ends_of_time_are_days_like_others(viewer):
    TriggerFactory()
    for day in ("1971-01-01", "9989-12-30", "2026-03-29", "2026-10-25"):
        assert viewer.get(f"/overlap?day={day}").status_code == 200
