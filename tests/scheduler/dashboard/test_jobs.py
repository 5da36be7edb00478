"""The pages of jobs: what they show, and what a person does there."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest

from runners.models import AuditEvent
from runners.services.audit import SYSTEM
from scheduler.dashboard import jobs
from scheduler.models import Job, QueueEntry, Run
from scheduler.services.skip import skip_next
from tests.factories import CalendarFactory, JobFactory, QueueEntryFactory, RunFactory, TriggerFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


def text_of(client, path: str) -> str:
    return Page(client.get(path)).text


def test_a_job_with_its_schedule_next_fire_and_last_result(viewer, now):
    job = JobFactory(job_key="ops:backup", description="Copies everything.")
    TriggerFactory(job=job)
    TriggerFactory(
        job=job, kind="cron", every=None, anchor_at=None, cron_expression="0 2 * * *", timezone="Europe/Vienna"
    )
    RunFactory(job=job, dead=True, scheduled_for=now - timedelta(minutes=2), finished_at=now - timedelta(minutes=1))
    RunFactory(job=job, completed=True, scheduled_for=now - timedelta(minutes=9))
    page = Page(viewer.get("/jobs"))
    for said in ("ops:backup", "Copies everything.", "every minute", "at 02:00, Europe/Vienna", "Dead", "Active"):
        assert said in page.text
    assert "Completed" not in page.text
    times = [values["datetime"] for values in page.all("time")]
    assert times == ["2026-03-02T12:01:00.000000Z", "2026-03-02T11:59:00.000000Z"]


def test_a_run_that_is_planned_or_runs_is_no_result(viewer, now):
    job = JobFactory(job_key="ops:backup")
    RunFactory(job=job, completed=True, scheduled_for=now - timedelta(hours=1))
    QueueEntryFactory(job=job, claimed=True, run__scheduled_for=now)
    QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(minutes=5))
    page = Page(viewer.get("/jobs"))
    assert "Completed" in page.text
    assert "1 running" in page.text
    assert page.all("time")[0]["datetime"] == "2026-03-02T12:05:00.000000Z"


@pytest.mark.parametrize(
    ("fields", "trigger", "said"),
    [
        ({}, {}, "Active"),
        ({"is_active": False}, {}, "Inactive"),
        ({"paused": True}, {}, "Paused"),
        ({}, {"config_error": "It can never fire."}, "Config error"),
    ],
)
def test_each_status_is_a_word(viewer, now, fields, trigger, said):
    if fields.pop("paused", False):
        fields["paused_at"] = now
    job = JobFactory(job_key="ops:backup", **fields)
    TriggerFactory(job=job, **trigger)
    assert said in text_of(viewer, "/jobs")
    assert said in text_of(viewer, "/jobs/ops:backup")


def test_a_trigger_that_is_nonsense_breaks_no_page(viewer):
    TriggerFactory(job__job_key="ops:good")
    TriggerFactory(
        job__job_key="ops:bad",
        kind="cron",
        every=None,
        anchor_at=None,
        cron_expression="61 * * * *",
        config_error="61?",
    )
    assert {"ops:good", "ops:bad"} <= set(text_of(viewer, "/jobs").split())
    assert "61?" in text_of(viewer, "/jobs/ops:bad")


def test_the_search_looks_in_keys_and_descriptions(viewer):
    JobFactory(job_key="ops:backup", description="copies")
    JobFactory(job_key="billing:invoices", description="Writes what the BACKUP needs")
    JobFactory(job_key="billing:dunning")
    text = text_of(viewer, "/jobs?q=+Backup+")
    assert "ops:backup" in text
    assert "billing:invoices" in text
    assert "billing:dunning" not in text
    assert "No job matches “nothing”" in text_of(viewer, "/jobs?q=nothing")


@pytest.mark.parametrize(
    "search", ["GRÜSSE", "grüsse", "ÑU ΣΊΣΥΦΟΣ", "ñu σίσυφοσ", "ĐURO", "[A-Z].(x)*", "x)*+?{2}|^$\\d"]
)
def test_a_search_knows_the_cases_of_all_letters_and_no_pattern(viewer, search):
    JobFactory(job_key="ops:grüsse", description="Ñu ΣΊσυφοΣ đuro [a-z].(X)*+?{2}|^$\\D # ~&")
    JobFactory(job_key="ops:other", description="gr nu uro ax xx d")
    text = text_of(viewer, f"/jobs?q={quote(search)}")
    assert "ops:grüsse" in text
    assert "ops:other" not in text


@pytest.mark.parametrize("search", ["%", "_", "\\", "'", "%00", "%F0%9F%98%80"])
def test_a_search_is_text_and_no_pattern(viewer, search):
    JobFactory(job_key="ops:backup")
    answer = viewer.get(f"/jobs?q={search if search.startswith('%') and len(search) > 1 else quote(search)}")
    assert answer.status_code == 200
    assert "ops:backup" not in Page(answer).text


def test_a_long_list_goes_on_where_it_ended(viewer, monkeypatch):
    monkeypatch.setattr(jobs, "PAGE_ROWS", 2)
    for name in "edcba":
        JobFactory(job_key=f"ops:{name}")
    seen, path = [], "/jobs?q=ops"
    while path:
        page = Page(viewer.get(path))
        seen += page.links("/jobs/")
        path = next(iter(link for link in page.links("/jobs?") if "after=" in link), "")
    assert seen == [f"/jobs/ops:{name}" for name in "abcde"]


def test_deleted_jobs_are_on_no_page(viewer, now):
    JobFactory(job_key="ops:gone", deleted_at=now)
    assert "No jobs yet" in text_of(viewer, "/jobs")
    assert viewer.get("/jobs/ops:gone").status_code == 404


def test_the_list_is_sent_again_only_when_it_changed(viewer, clock):
    job = JobFactory(job_key="ops:backup")
    [live] = [values["hx-get"] for values in Page(viewer.get("/jobs?q=ops")).all("div", id="jobs")]
    assert "q=ops" in live
    assert viewer.get(live, headers=HTMX).status_code == 204
    RunFactory(job=job, completed=True)
    part = viewer.get(live, headers=HTMX)
    assert part.status_code == 200
    assert b"<html" not in part.content
    assert "Completed" in Page(part).text
    assert "HX-Request" in part["Vary"]


def test_a_jobs_page_shows_triggers_ten_fires_and_last_runs(viewer, now):
    job = JobFactory(job_key="ops:backup", max_retries=0, action={"type": "command", "argv": ["cp", "a b"]})
    calendar = CalendarFactory(name="working-days", timezone="UTC")
    TriggerFactory(job=job, calendar=calendar)
    run = RunFactory(job=job, completed=True, duration_ms=1500)
    page = Page(viewer.get("/jobs/ops:backup"))
    for said in ("every minute", "working-days", "cp 'a b'", "none: a failure ends the run", "1.50 s", "5 min"):
        assert said in page.text
    assert f"/runs/{run.id}" in page.links("/runs/")
    assert page.links("/calendars/") == [f"/calendars/{calendar.pk}"]
    fires = [values["datetime"] for values in page.all("time") if "data-relative" in values]
    assert fires == [f"2026-03-02T12:{minute:02d}:00.000000Z" for minute in range(1, 11)]


def test_the_fires_of_two_triggers_are_one_list_without_doubles(viewer, now):
    job = JobFactory(job_key="ops:backup")
    TriggerFactory(job=job, every=timedelta(minutes=2))
    TriggerFactory(job=job, every=timedelta(minutes=3))
    TriggerFactory(job=job, every=timedelta(seconds=1), enabled=False)
    RunFactory(job=job, completed=True)
    page = Page(viewer.get("/jobs/ops:backup"))
    fires = [values["datetime"][14:16] for values in page.all("time") if "data-relative" in values]
    assert fires == ["02", "03", "04", "06", "08", "09", "10", "12", "14", "15"]


def test_a_fire_that_was_taken_out_is_struck_through_and_is_not_the_next(viewer, now):
    TriggerFactory(job__job_key="ops:backup", every=timedelta(hours=6))
    skip_next("ops:backup", now, SYSTEM)
    page = Page(viewer.get("/jobs/ops:backup"))
    assert "2026-03-02 18:00:00 UTC skipped: somebody took this fire out 2026-03-03 00:00:00 UTC" in page.text
    assert len(page.all("s")) == 1
    assert "No runs yet The first one is planned for 2026-03-03 00:00:00 UTC" in page.text
    [next_fire] = Page(viewer.get("/jobs")).all("time", **{"data-relative": "due"})
    assert next_fire["datetime"] == "2026-03-03T00:00:00.000000Z"


def test_an_environment_is_shown_to_nobody(viewer):
    JobFactory(job_key="ops:backup", action={"type": "command", "shell": "true", "env": {"TOKEN": "hunter2"}})
    assert "hunter2" not in text_of(viewer, "/jobs/ops:backup")


def test_run_now_makes_one_run_however_often_the_form_is_sent(operator):
    JobFactory(job_key="ops:backup")
    token, _ = [values["value"] for values in Page(operator.get("/jobs/ops:backup")).all("input", name="token")]
    answers = [operator.post("/jobs/ops:backup/run", {"token": token}) for _ in range(2)]
    run = Run.objects.get()
    assert [answer["Location"] for answer in answers] == [f"/runs/{run.id}"] * 2
    assert QueueEntry.objects.get().run_id == run.id
    event = AuditEvent.objects.get(action="job.triggered")
    assert (event.actor_type, event.actor_id) == ("user", "otto")


def test_run_now_of_a_full_queue_is_a_message(operator, now):
    job = JobFactory(job_key="ops:backup", max_queue_depth=1)
    QueueEntryFactory(job=job)
    answer = operator.post("/jobs/ops:backup/run", follow=True)
    assert answer.redirect_chain == [("/jobs/ops:backup", 302)]
    assert "wait already" in Page(answer).text
    assert Run.objects.count() == 1


def test_pause_and_resume(operator, now):
    job = JobFactory(job_key="ops:backup")
    entry = QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(minutes=5))
    paused = Page(operator.post("/jobs/ops:backup/pause", follow=True))
    assert "Paused. What falls due from now on does not run" in paused.text
    entry.refresh_from_db()
    assert entry.state == QueueEntry.State.HELD
    resumed = Page(operator.post("/jobs/ops:backup/resume", follow=True))
    assert "Resumed." in resumed.text
    assert Job.objects.get().paused_at is None
    assert set(AuditEvent.objects.values_list("action", "actor_id")) == {
        ("job.paused", "otto"),
        ("job.resumed", "otto"),
    }


def test_the_page_names_the_zone_of_its_times(viewer):
    page = Page(viewer.get("/jobs"))
    [zone] = page.all("a", id="zone")
    assert "data-zone" in zone  # where the script names the viewer's own
    assert zone["href"] == "/time-zone"
    assert page.text.endswith("Times are UTC")


def test_a_next_fire_may_be_due(viewer):
    TriggerFactory(job__job_key="ops:backup")
    TriggerFactory(job__job_key="ops:report")
    shown = Page(viewer.get("/jobs")).all("time", **{"data-relative": "due"})
    assert len(shown) == 2


def test_one_begins_with_what_is_going_on(viewer):
    answer = viewer.get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/now")


def badges(client, path: str) -> list[str]:
    shown = Page(client.get(path)).all("span", class_="state")
    return [name for span in shown for name in ("overdue", "failing") if f"state-{name}" in span["class"].split()]


@pytest.mark.parametrize("path", ["/jobs", "/jobs/ops:backup"])
def test_a_job_whose_run_nobody_takes_or_whose_fire_nobody_plans_is_overdue(viewer, now, path):
    job = JobFactory(job_key="ops:backup")
    QueueEntryFactory(job=job, run__scheduled_for=now, available_at=now - timedelta(seconds=60))
    assert badges(viewer, path) == []
    QueueEntry.objects.update(available_at=now - timedelta(seconds=61))
    assert badges(viewer, path) == ["overdue"]
    Job.objects.update(paused_at=now)
    assert badges(viewer, path) == []
    QueueEntry.objects.all().delete()
    before = now - timedelta(minutes=5)
    TriggerFactory(job=job, created_at=before, anchor_at=before, cursor_at=before, next_materialize_at=before)
    assert badges(viewer, path) == []
    Job.objects.update(paused_at=None)
    assert badges(viewer, path) == ["overdue"]


@pytest.mark.parametrize("path", ["/jobs", "/jobs/ops:backup"])
def test_a_job_whose_newest_run_failed_for_good_is_failing(viewer, now, path):
    job = JobFactory(job_key="ops:backup")
    RunFactory(job=job, completed=True, scheduled_for=now - timedelta(minutes=9))
    assert badges(viewer, path) == []
    RunFactory(job=job, dead=True, scheduled_for=now - timedelta(minutes=8))
    RunFactory(
        job=job, verdict="cancelled", problem="cancelled", finished_at=now, scheduled_for=now - timedelta(minutes=7)
    )
    RunFactory(job=job, verdict="skipped", problem="skipped", finished_at=now, scheduled_for=now - timedelta(minutes=6))
    assert badges(viewer, path) == ["failing"]
    RunFactory(job=job, completed=True, scheduled_for=now - timedelta(minutes=5))
    assert badges(viewer, path) == []


def test_the_next_fires_say_whose_times_they_are(viewer):
    job = JobFactory(job_key="ops:backup")
    TriggerFactory(job=job, kind="cron", every=None, anchor_at=None, cron_expression="0 2 * * *", timezone="Asia/Tokyo")
    page = Page(viewer.get("/jobs/ops:backup"))
    assert "Next fires Times are UTC ; in Asia/Tokyo on hover ." in page.text
    assert len(page.all("span", data_zone="")) == 1  # where the script names the viewer's own
