"""Times that people type are on the clock on which they see times: in every field alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.typed_times import field_text, read_time
from scheduler.models import Job, Run
from tests.factories import JobFactory, RunFactory, TriggerFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

VIENNA = "Europe/Vienna"


@pytest.mark.parametrize(
    ("text", "zone", "at", "note"),
    [
        ("2026-07-01T12:00", VIENNA, "2026-07-01T10:00Z", ""),
        ("2026-01-01 12:00:07", VIENNA, "2026-01-01T11:00:07Z", ""),
        ("2026-01-01T12:00", "Asia/Kathmandu", "2026-01-01T06:15Z", ""),
        ("2026-01-01T12:00", "", "2026-01-01T12:00Z", ""),
        ("2026-01-01T12:00", "UTC", "2026-01-01T12:00Z", ""),
        # What says its offset is on no clock.
        ("2026-01-01T12:00Z", VIENNA, "2026-01-01T12:00Z", ""),
        ("2026-01-01T12:00-05:00", VIENNA, "2026-01-01T17:00Z", ""),
        # The two 02:30 of the autumn night: the first.
        ("2026-10-25T02:30", VIENNA, "2026-10-25T00:30Z", "twice: 2026-10-25 02:30 +02:00, the first of the two"),
        ("2026-10-25T03:00", VIENNA, "2026-10-25T02:00Z", ""),
        # What the night of spring leaves out: the first moment after.
        ("2026-03-29T02:30", VIENNA, "2026-03-29T01:00Z", "out: 2026-03-29 03:00 +02:00, the first moment after it"),
        ("2026-03-29T03:00", VIENNA, "2026-03-29T01:00Z", ""),
        ("  ", VIENNA, None, ""),
    ],
)
def test_a_time_is_read_on_the_clock_of_its_zone(text, zone, at, note):
    typed = read_time("until", text, zone)
    assert (typed and typed.at) == (at and datetime.fromisoformat(at))
    assert note in typed.note if note else not (typed and typed.note)
    if at and not note and not text.endswith(("Z", "-05:00")):
        assert datetime.fromisoformat(field_text(typed.at, zone)) == datetime.fromisoformat(text)


@pytest.mark.parametrize(
    "text", ["soon", "2026-13-01T00:00", "2026-01-01", "25:00", "9" * 60, "\x00", "0001-01-01T00:00"]
)
def test_what_is_no_time_is_refused_with_the_name_of_its_field(text):
    with pytest.raises(InvalidInput) as refused:
        read_time("until", text, VIENNA)
    assert list(refused.value.fields) == ["until"]


def test_a_zone_that_there_is_not_is_refused_at_the_time():
    with pytest.raises(InvalidInput) as refused:
        read_time("until", "2026-01-01T12:00", "Europe/Viena")
    assert "Europe/Vienna" in refused.value.fields["until"][0]


@pytest.fixture
def job(db, now) -> Job:
    job = JobFactory(job_key="ops:backup")
    TriggerFactory(job=job, every=timedelta(minutes=30), anchor_at=now - timedelta(days=3), created_at=now)
    return job


def in_vienna(client) -> None:
    client.post("/time-zone", {"time_zone": VIENNA})


def fields(page: Page) -> dict[str, str]:
    return {one["name"]: one["value"] for one in page.all("input", type="datetime-local")}


def zones(page: Page) -> list[str]:
    return [one["value"] for one in page.all("input", name="zone")]


SPOTS = {
    "pause": ("/jobs/ops:backup", ["until"]),
    "pause of many": ("/jobs/bulk?do=pause&all=1", ["until"]),
    "backfill": ("/jobs/ops:backup/backfill", ["from", "until"]),
    "runs": ("/runs", ["since", "until"]),
    "audit": ("/audit", ["since", "until"]),
}


@pytest.mark.parametrize("path", [path for path, _names in SPOTS.values()], ids=list(SPOTS))
def test_every_field_says_on_whose_clock_it_is(operator, job, path):
    page = Page(operator.get(path))
    assert zones(page) == ["UTC"]
    # The script says the browser's zone where nobody has chosen one, and only there.
    assert ["data-guessed-zone" in one for one in page.all("input", name="zone")] == [True]
    in_vienna(operator)
    page = Page(operator.get(path))
    assert list(fields(page)) == dict(SPOTS.values())[path]
    assert zones(page) == [VIENNA]
    assert ["data-guessed-zone" in one for one in page.all("input", name="zone")] == [False]
    for name in fields(page):
        [field] = page.all("input", name=name)
        assert [one for one in page.all("label") if one.get("for") == field["id"]]
    assert VIENNA in page.text


@pytest.mark.django_db
def test_a_pause_ends_and_is_shown_on_the_viewers_clock(operator, job, now):
    in_vienna(operator)
    operator.post("/jobs/ops:backup/pause", {"reason": "", "until": "2026-07-01T12:00"})
    job.refresh_from_db()
    assert job.paused_until == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert fields(Page(operator.get("/jobs/ops:backup"))) == {"until": "2026-07-01T12:00"}
    # What the form itself says goes first: it is what its page showed.
    operator.post("/jobs/ops:backup/pause", {"until": "2026-07-01T12:00", "zone": "Asia/Kathmandu"})
    job.refresh_from_db()
    assert job.paused_until == datetime(2026, 7, 1, 6, 15, tzinfo=UTC)
    fields_of_many = {"do": "pause", "all": "1", "expected": "1"}
    Job.objects.update(paused_at=None, paused_until=None)
    operator.post("/jobs/bulk/do", {**fields_of_many, "until": "2026-07-01T12:00"})
    job.refresh_from_db()
    assert job.paused_until == datetime(2026, 7, 1, 10, tzinfo=UTC)


def test_what_was_decided_of_a_time_is_told(operator, job):
    in_vienna(operator)
    said = operator.post("/jobs/ops:backup/pause", {"until": "2026-10-25T02:30"}, follow=True)
    assert "2026-10-25 02:30 +02:00, the first of the two, is meant" in Page(said).text
    path = "/runs?since=2026-03-29T02:30&zone=Europe/Vienna"
    page = Page(operator.get(path))
    assert "2026-03-29 03:00 +02:00, the first moment after it, is meant" in page.text
    [part] = page.all("div", id="runs")
    operator.get(part["hx-get"], headers=HTMX)
    assert "is meant" not in Page(operator.get("/runs")).text


def test_windows_are_on_the_viewers_clock_and_a_link_means_the_same_to_all(viewer, operator, job, clock, now):
    RunFactory(job=job, completed=True, scheduled_for=now - timedelta(minutes=90))  # 10:30 UTC, 11:30 in Vienna
    clock.set(now - timedelta(minutes=90))
    in_vienna(operator)  # which the audit tells
    clock.set(now)
    for path in ("/runs", "/audit"):
        inside = f"{path}?since=2026-03-02T11:00&until=2026-03-02T12:00"
        shown = fields(Page(operator.get(inside)))
        assert (shown["since"], shown["until"]) == ("2026-03-02T11:00", "2026-03-02T12:00")
        found = [
            bool(Page(who.get(address)).all("table"))
            for who in (operator, viewer)
            for address in (inside, f"{inside}&zone={VIENNA}")
        ]
        assert found == [True, True, False, True], path
        assert fields(Page(viewer.get(f"{inside}&zone={VIENNA}")))["since"] == "2026-03-02T10:00"


def test_the_runs_that_a_window_of_the_viewers_clock_shows_are_those_that_are_done_to(operator, job, now):
    RunFactory(job=job, dead=True, scheduled_for=now - timedelta(minutes=90))
    in_vienna(operator)
    page = Page(operator.get("/runs?since=2026-03-02T11:00&until=2026-03-02T12:00"))
    carried = {one["name"]: one["value"] for one in page.all("input", type="hidden")}
    assert (carried["since"], carried["until"]) == ("2026-03-02T10:00:00Z", "2026-03-02T11:00:00Z")


def test_a_backfill_is_of_the_viewers_clock(operator, job, now):
    in_vienna(operator)
    bounds = {"from": "2026-03-02T12:15", "until": "2026-03-02T12:45"}
    Job.objects.get().triggers.update(created_at=now - timedelta(days=2))
    page = Page(operator.get("/jobs/ops:backup/backfill", bounds))
    assert "1 run would be made" in page.text
    hidden = {one["name"]: one["value"] for one in page.all("input", type="hidden")}
    operator.post("/jobs/ops:backup/backfill", hidden)
    assert [run.scheduled_for for run in Run.objects.all()] == [now.replace(hour=11, minute=30)]


def test_what_was_refused_stays_with_its_zone(operator, job):
    in_vienna(operator)
    page = Page(operator.get("/runs?since=2026-03-02T11:00&until=soon&zone=Asia/Kathmandu"))
    assert fields(page) == {"since": "2026-03-02T11:00", "until": "soon"}
    assert zones(page) == ["Asia/Kathmandu"]
