"""What a person does on a job's page: run it with metadata, pause it with reason and end, skip, backfill, delete."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.models import AuditEvent
from scheduler.models import Job, Run, Trigger
from tests.factories import JobFactory, RunFactory, TriggerFactory
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
PATH = "/jobs/ops:backup"


@pytest.fixture
def job(now) -> Job:
    job = JobFactory(job_key="ops:backup", metadata={"kept": 1})
    before = now - timedelta(hours=1)
    TriggerFactory(job=job, every=timedelta(minutes=10), anchor_at=before, created_at=before)
    return job


def test_a_run_has_the_metadata_of_the_form(operator, job):
    assert operator.post(f"{PATH}/run", {"token": "a", "metadata": '{"customer": "Ada"}'}).status_code == 302
    assert Run.objects.get().metadata == {"customer": "Ada"}
    for wrong in ("{", "[1]", "7", '{"a": NaN}'):
        assert operator.post(f"{PATH}/run", {"token": "b", "metadata": wrong}).status_code == 400
    assert Run.objects.count() == 1


def test_a_pause_has_a_reason_and_an_end(operator, job, now):
    operator.post(f"{PATH}/pause", {"reason": "the move", "until": "2026-03-03T08:00"})
    job.refresh_from_db()
    assert (job.paused_reason, job.paused_until) == ("the move", now.replace(day=3, hour=8))
    page = Page(operator.get(PATH))
    assert "Paused: the move" in page.text
    assert [values["value"] for values in page.all("input", name="until")] == ["2026-03-03T08:00"]
    operator.post(f"{PATH}/pause", {"reason": "longer", "until": ""})
    job.refresh_from_db()
    assert (job.paused_reason, job.paused_until) == ("longer", None)


@pytest.mark.parametrize("until", ["2026-03-01T00:00", "soon", "2026-13-01T00:00", "9" * 60, "\x00"])
def test_an_end_that_is_none_is_400(operator, job, until):
    assert operator.post(f"{PATH}/pause", {"reason": "", "until": until}).status_code == 400
    job.refresh_from_db()
    assert job.paused_at is None


def test_the_next_fire_is_left_out_and_the_page_names_it(operator, job, now):
    page = Page(operator.post(f"{PATH}/skip", follow=True))
    assert "The fire of 2026-03-02 12:10:00 UTC is left out." in page.text
    assert Run.objects.get().reason == "skip_next"
    assert AuditEvent.objects.get(action="job.next_skipped").actor_id == "otto"
    job.triggers.all().delete()
    assert "comes that could be skipped" in Page(operator.post(f"{PATH}/skip", follow=True)).text


RANGE = {"from": "2026-03-02T11:15", "until": "2026-03-02T11:45:00"}


def test_a_backfill_says_first_which_runs_it_would_make_and_makes_no_others(operator, job, now):
    RunFactory(job=job, completed=True, scheduled_for=now - timedelta(minutes=40))
    page = Page(operator.get(f"{PATH}/backfill", RANGE))
    assert "2 runs would be made" in page.text
    assert "Of 3 fires 1 have their run already." in page.text
    assert [values["datetime"][11:16] for values in page.all("time")] == ["11:30", "11:40"]
    assert Run.objects.count() == 1
    made = operator.post(f"{PATH}/backfill", {**RANGE, "expected": "2"}, follow=True)
    assert "2 runs made, due now." in Page(made).text
    assert sorted(Run.objects.values_list("scheduled_for__minute", flat=True)) == [20, 30, 40]


def test_a_backfill_of_what_was_before_the_schedule_says_where_to_begin(operator, job, now):
    """Each reason in the reader's language, its instant as the page tells instants; who begins there hears no more."""
    RunFactory(job=job, completed=True, scheduled_for=now - timedelta(minutes=30))
    Trigger.objects.update(created_at=now - timedelta(minutes=42) + timedelta(microseconds=7))
    operator.post("/time-zone", {"time_zone": "Europe/Vienna"})
    span = {"from": "2026-03-02T12:00", "until": "2026-03-02T12:45"}
    page = Page(operator.get(f"{PATH}/backfill", span))
    begin = "the job's schedule was made at 2026-03-02 12:18:00 +01:00 : begin there."
    assert f"A backfill makes what would have fired; {begin}" in page.text
    assert "Of 3 fires 1 have their run already." in page.text
    assert page.all("time")[0]["datetime"] == "2026-03-02T11:18:00.000000Z"
    german = Page(operator.get(f"{PATH}/backfill", span, headers={"accept-language": "de"})).text
    assert "der Zeitplan des Jobs entstand 2026-03-02 12:18:00 +01:00 : Beginnen Sie dort." in german
    assert (
        "makes what would have fired"
        not in Page(operator.get(f"{PATH}/backfill", {**span, "from": "2026-03-02T12:18"})).text
    )
    TriggerFactory(job=job, every=timedelta(days=9), anchor_at=now, created_at=now - timedelta(minutes=50))
    text = Page(operator.get(f"{PATH}/backfill", {**span, "from": "2026-03-02T12:15"})).text
    assert "one of the job's 2 schedules was made later: 2026-03-02 12:18:00 +01:00 ." in text
    text = Page(operator.get(f"{PATH}/backfill", span)).text
    assert "2 of the job's 2 schedules were made later, the last at 2026-03-02 12:18:00 +01:00 ." in text


def test_where_it_would_be_other_runs_than_were_shown_none_is_made(operator, job):
    for expected in ("2", "", "x"):
        answer = operator.post(f"{PATH}/backfill", {**RANGE, "expected": expected})
        assert "It would be 3 runs by now: nothing was done." in Page(answer).text
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("bounds", "beside"),
    [
        ({"from": "x"}, "from"),
        ({"until": ""}, "until"),
        ({"from": ""}, "from"),
        ({"until": "2026-03-02T11:00"}, "until"),
        ({"until": "2026-03-02T13:00"}, "until"),
        ({"from": "\x00"}, "from"),
    ],
)
def test_a_range_that_is_none_is_refused_beside_its_field(operator, job, bounds, beside):
    for send in (operator.get, operator.post):
        answer = send(f"{PATH}/backfill", {**RANGE, "expected": "3", **bounds})
        assert answer.status_code == 400
        assert [one["name"] for one in Page(answer).all("input") if "aria-invalid" in one] == [beside]
    assert not Run.objects.exists()


def test_a_paused_job_says_why_nothing_is_made_up_for(operator, job, now):
    Job.objects.update(paused_at=now)
    assert "is paused; resume it first" in Page(operator.get(f"{PATH}/backfill", RANGE)).text


def test_a_job_is_deleted_by_whoever_types_its_key(operator, job):
    assert operator.post(f"{PATH}/delete", {"typed": "ops"}).status_code == 400
    assert Job.objects.get().deleted_at is None
    assert "ops:backup is deleted." in Page(operator.post(f"{PATH}/delete", {"typed": "ops:backup"}, follow=True)).text
    assert Job.objects.get().deleted_at is not None


def test_what_the_jobs_file_manages_is_not_deleted_and_says_so_there(operator, job):
    Job.objects.update(managed_by="file")
    answer = operator.post(f"{PATH}/delete", {"typed": "ops:backup"}, follow=True)
    assert answer.redirect_chain == [(PATH, 302)]
    [refused] = Page(answer).all("p", class_="message-error")
    assert refused
    assert Job.objects.get().deleted_at is None


def test_what_may_not_be_pressed_is_not_shown(viewer, operator, job):
    for part in ("skip", "backfill", "delete", "run", "pause"):
        named = [f"{PATH}/{part}"]
        page, shown = Page(viewer.get(PATH)), Page(operator.get(PATH))
        assert not [values for values in page.all("form") if values["action"] in named]
        assert [one for tag in ("form", "a") for one in shown.all(tag) if one.get("action", one.get("href")) in named]
