"""Making and editing a job with its schedules on a page: the preview, the refusals beside the fields, what is saved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runners.models import AuditEvent
from runners.services.audit import SYSTEM
from scheduler.dashboard import job_form
from scheduler.models import Job, Trigger
from scheduler.services.jobs import save_job
from scheduler.services.triggers import save_trigger
from tests.factories import CalendarFactory, CalendarRuleFactory, JobFactory, TriggerFactory
from tests.scheduler.dashboard.conftest import HTMX, client_of, person
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db):
    return client_of(person("ada", "admin"))


def filled(client, path: str) -> dict[str, str]:
    """What a browser would send of the form as it is shown."""
    answer = client.get(path).content.decode()
    page = Page(client.get(path))
    values = {
        one["name"]: one.get("value", "on")
        for one in page.all("input")
        if "name" in one and (one.get("type") != "checkbox" or "checked" in one)
    }
    for part in answer.split("<select ")[1:]:
        name = part.split('name="')[1].split('"')[0]
        chosen = next(
            (option for option in part.split("</select>")[0].split("<option")[1:] if " selected" in option), ""
        )
        first = part.split("<option")[1]
        option = chosen or first
        values[name] = (
            option.split('value="')[1].split('"')[0] if 'value="' in option else option.split(">")[1].split("<")[0]
        )
    for part in answer.split("<textarea ")[1:]:
        name = part.split('name="')[1].split('"')[0]
        text = part.split(">", 1)[1].split("</textarea>")[0].removeprefix("\n")
        values[name] = text.replace("&quot;", '"').replace("&#x27;", "'").replace("&amp;", "&")
    for other in ("csrfmiddlewaretoken", "preview"):
        values.pop(other, None)
    return values


NEW = {"job_key": "ops:new", "t0-text": "0 2 * * *", "t0-timezone": "Europe/Vienna", "t0-enabled": "on"}


def made(client, **more) -> Job:
    answer = client.post("/jobs/new", {**filled(client, "/jobs/new"), **NEW, **more})
    assert (answer.status_code, answer["Location"]) == (302, "/jobs/ops:new"), Page(answer).text
    return Job.objects.get(job_key="ops:new")


# Making


def test_a_job_is_made_with_its_schedule(operator, now):
    job = made(operator, description="At night.", tags="b, a", max_retries="0", timeout="90s", metadata='{"a": 1}')
    assert (job.managed_by, job.description, job.tags, job.max_retries) == ("admin", "At night.", ["a", "b"], 0)
    assert (job.timeout_seconds, job.metadata, job.action, job.is_active) == (90.0, {"a": 1}, {}, True)
    trigger = Trigger.objects.get()
    assert (trigger.cron_expression, trigger.timezone, trigger.enabled) == ("0 2 * * *", "Europe/Vienna", True)
    assert set(AuditEvent.objects.values_list("action", "actor_id")) == {
        ("job.created", "otto"),
        ("trigger.created", "otto"),
    }


def test_a_job_needs_no_schedule(operator):
    made(operator, **{"t0-text": " "})
    assert not Trigger.objects.exists()
    page = Page(operator.get("/jobs/ops:new"))
    assert "It has no schedule: it runs only when somebody asks" in page.text
    assert "/jobs/ops:new/edit" in page.links("/jobs/ops:new/edit")
    assert "Give it a schedule" in page.text


def test_once_is_on_the_clock_of_its_zone_or_of_the_installations(operator, settings):
    made(operator, **{"t0-kind": "once", "t0-text": "2026-07-01T18:00"})
    assert Trigger.objects.get().run_at == datetime(2026, 7, 1, 16, tzinfo=UTC)
    shown = filled(operator, "/jobs/ops:new/edit")
    assert shown["t0-text"] == "2026-07-01T16:00:00Z"
    settings.CRONIQ_TIME_ZONE = "Asia/Kathmandu"
    operator.post("/jobs/ops:new/edit", {**shown, "t0-text": "2026-07-01 18:00", "t0-timezone": ""})
    assert Trigger.objects.get().run_at == datetime(2026, 7, 1, 12, 15, tzinfo=UTC)


def test_what_was_decided_of_a_time_that_its_clock_never_shows_is_told(operator):
    """On the schedule's clock, in the preview and after saving; not of what is there already."""
    once = {"t0-kind": "once", "t0-text": "2027-03-14 02:30", "t0-timezone": "America/New_York"}
    note = "leave 2027-03-14 02:30 out: 2027-03-14 03:00 -04:00, the first moment after it, is meant."
    shown = previewed(operator, **once)
    assert note in shown
    assert "Once at 2027-03-14 03:00, America/New_York" in shown
    made(operator, **once)
    page = Page(operator.get("/jobs/ops:new")).text
    assert "Made." in page
    assert note in page
    saved = operator.post("/jobs/ops:new/edit", filled(operator, "/jobs/ops:new/edit"), follow=True)
    assert "Saved." in Page(saved).text
    assert "is meant" not in Page(saved).text
    assert "is meant" not in previewed(operator, **{**once, "t0-text": "2027-03-14 03:30"})


def test_what_a_closed_calendar_means_is_said_in_a_line_each(operator):
    text = Page(operator.get("/jobs/new")).text
    for policy in ("advance: it is left out", "defer: it runs as soon", "following: it runs", "preceding: it runs"):
        assert policy in text


@pytest.mark.parametrize(
    ("fields", "said", "beside"),
    [
        ({"job_key": "nocolon"}, "two or three parts joined by a colon", "job_key"),
        ({"timeout": "soon"}, "", "timeout"),
        ({"max_retries": "-1"}, "“Retries” is a whole number", "max_retries"),
        ({"max_retries": "9" * 40}, "“Retries” is a whole number", "max_retries"),
        ({"priority": "high"}, "“Priority” is a whole number", "priority"),
        ({"metadata": "{"}, "This is no JSON", "metadata"),
        ({"metadata": "[1]"}, "“Metadata” is an object", "metadata"),
        ({"overlap": "maybe"}, "“If one still runs” is one of", "overlap"),
        ({"tags": "\x00"}, "“Tags” is 1 to 255 printable", "tags"),
        ({"t0-text": "61 * * * *"}, "", "t0-text"),
        ({"t0-text": "0 0 31 2 *"}, "", "t0-text"),
        ({"t0-kind": "every", "t0-text": "0s"}, "", "t0-text"),
        ({"lease": "1s"}, "The shortest possible “Lease” is 5 seconds", "lease"),
        ({"t0-kind": "once", "t0-text": "soon"}, "Write a date and a time of day", "t0-text"),
        ({"t0-kind": "once", "t0-text": "2026-12-24T18:00", "t0-timezone": "Mars"}, "no time zone", "t0-timezone"),
        ({"t0-kind": "once", "t0-text": "2020-01-01T00:00"}, "", "t0-text"),
        ({"t0-timezone": "Europe/Vienne"}, "Europe/Vienna", "t0-timezone"),
        ({"t0-window": "09:00"}, "A window is two different times", "t0-window"),
    ],
)
def test_each_refusal_stands_beside_its_field_and_nothing_is_saved(operator, fields, said, beside):
    answer = operator.post("/jobs/new", {**filled(operator, "/jobs/new"), **NEW, **fields})
    page = Page(answer)
    assert answer.status_code == 400
    assert said in page.text
    assert "Nothing was saved" in page.text
    wrong = [one["name"] for tag in ("input", "select", "textarea") for one in page.all(tag) if "aria-invalid" in one]
    assert wrong == [beside]
    assert answer.content.count(b'class="wrong"') >= 1
    assert not Job.objects.exists()


def test_all_that_is_wrong_is_said_at_once_and_what_was_written_stays(operator):
    fields = {**NEW, "job_key": "x", "timeout": "soon", "t0-text": "nonsense", "description": "Kept <b>"}
    page = Page(operator.post("/jobs/new", {**filled(operator, "/jobs/new"), **fields}))
    wrong = {one["name"] for one in page.all("input") if "aria-invalid" in one}
    assert wrong == {"job_key", "timeout", "t0-text"}
    assert "Kept <b>" in page.text


def test_all_that_is_wrong_with_one_schedule_is_said_at_once_and_no_second_new_one_is_there(operator):
    wrong = {"t0-text": "61 * * * *", "t0-timezone": "Mars", "t0-window": "09:00", "t0-calendar": "nobody's"}
    named = {"t0-text", "t0-timezone", "t0-window", "t0-calendar"}
    for more in ({}, {"t0-kind": "once", "t0-text": "soon"}, {"t0-kind": "every", "t0-text": "0s"}):
        page = Page(operator.post("/jobs/new", {**filled(operator, "/jobs/new"), **NEW, **wrong, **more}))
        fields = [one["name"] for tag in ("input", "select") for one in page.all(tag) if "aria-invalid" in one]
        assert set(fields) == named
        assert page.text.count("New schedule") == 1


def test_a_key_that_is_taken_and_a_group_that_is_not_there_are_refused_beside_their_fields(operator, now):
    save_job({"job_key": "ops:new", "description": "first"}, now, SYSTEM)
    answer = operator.post("/jobs/new", {**filled(operator, "/jobs/new"), **NEW})
    assert answer.status_code == 400
    assert "There is a job of this key already" in Page(answer).text
    assert Job.objects.get().description == "first"
    fields = {**NEW, "job_key": "ops:other", "concurrency_group": "nobody"}
    answer = operator.post("/jobs/new", {**filled(operator, "/jobs/new"), **fields})
    assert answer.status_code == 400
    assert [one["name"] for one in Page(answer).all("input") if "aria-invalid" in one] == ["concurrency_group"]
    assert Job.objects.count() == 1


@pytest.mark.parametrize("fields", [{"triggers": "x"}, {"triggers": "999"}, {"t0-kind": "moon"}, {"t0-id": "x"}])
def test_what_no_form_of_ours_sends_is_400(operator, fields):
    assert operator.post("/jobs/new", {**filled(operator, "/jobs/new"), **NEW, **fields}).status_code == 400


# What is executed


def test_only_who_may_says_what_is_executed(operator, admin, now):
    assert not Page(operator.get("/jobs/new")).all("textarea", name="what")
    made(operator, does="shell", what="rm -rf /")
    assert Job.objects.get().action == {}
    path = "/jobs/ops:new/edit"
    admin.post(path, {**filled(admin, path), "does": "shell", "what": "echo 1"})
    assert Job.objects.get().action == {"type": "command", "shell": "echo 1"}
    page = Page(operator.get(path))
    assert "It runs echo 1" in page.text
    operator.post(path, {**filled(operator, path), "does": "handler", "what": "", "description": "by the operator"})
    job = Job.objects.get()
    assert (job.description, job.action) == ("by the operator", {"type": "command", "shell": "echo 1"})


@pytest.mark.parametrize(
    ("does", "what", "stored"),
    [
        ("json", '{"type": "command", "argv": ["a", "b"]}', {"type": "command", "argv": ["a", "b"]}),
        ("handler", "forgotten", {}),
        ("json", "", {}),
        ("json", '{"type": "moon"}', None),
        ("shell", " ", None),
    ],
)
def test_an_action_is_a_line_or_json(admin, does, what, stored):
    answer = admin.post("/jobs/new", {**filled(admin, "/jobs/new"), **NEW, "does": does, "what": what})
    if stored is None:
        assert answer.status_code == 400
        assert [one["name"] for one in Page(answer).all("textarea") if "aria-invalid" in one] == ["what"]
    else:
        assert Job.objects.get().action == stored
        values = filled(admin, "/jobs/ops:new/edit")
        assert values["does"] == ("json" if stored else "handler")


# Editing


def test_a_form_that_is_sent_as_it_was_shown_changes_nothing(admin, now):
    calendar = CalendarFactory(name="office")
    CalendarRuleFactory(calendar=calendar, weekdays=[1, 2, 3, 4, 5])
    action = {"type": "command", "argv": ["a"], "env": {"A": "b"}}
    fields = {"job_key": "ops:new", "metadata": {"q": "'\"&"}, "tags": ["a"], "action": action, "timeout": "90s"}
    job, _ = save_job({**fields, "retry": {"base": 7}, "dead_letter_enabled": False}, now, SYSTEM)
    window = {"calendar": "office", "window": "09:00-17:00", "on_blocked": "defer", "not_after": "2030-01-01T00:00:00Z"}
    save_trigger(job, {"cron_expression": "H 3 * * *", "timezone": "Asia/Tokyo", **window}, now)
    save_trigger(job, {"every": "90s", "enabled": False, "anchor": "2026-01-01T00:00:07Z"}, now)
    save_trigger(job, {"run_at": "2026-06-01T00:00:00Z"}, now)
    before, events = [list(rows.objects.values()) for rows in (Job, Trigger)], AuditEvent.objects.count()
    answer = admin.post("/jobs/ops:new/edit", filled(admin, "/jobs/ops:new/edit"))
    assert answer.status_code == 302, Page(answer).text
    assert [list(rows.objects.values()) for rows in (Job, Trigger)] == before
    assert AuditEvent.objects.count() == events


def test_a_schedule_that_is_over_keeps_nobody_from_editing_its_job(operator, clock, now):
    job, _ = save_job({"job_key": "ops:new"}, now, SYSTEM)
    save_trigger(job, {"run_at": "2026-03-02T13:00:00Z"}, now)
    clock.set(now + timedelta(hours=3))
    assert "It does not fire any more." in Page(operator.get("/jobs/ops:new/edit")).text
    answer = operator.post("/jobs/ops:new/edit", {**filled(operator, "/jobs/ops:new/edit"), "description": "x"})
    assert answer.status_code == 302
    assert Job.objects.get().description == "x"


def test_schedules_are_changed_added_and_taken_away_together(operator, now):
    job, _ = save_job({"job_key": "ops:new"}, now, SYSTEM)
    first, _ = save_trigger(job, {"every": "1h"}, now)
    second, _ = save_trigger(job, {"every": "2h"}, now + timedelta(seconds=1))
    path = "/jobs/ops:new/edit"
    changes = {"t0-text": "30m", "t1-remove": "on", "t2-kind": "cron", "t2-text": "0 4 * * *", "t2-enabled": "on"}
    assert operator.post(path, {**filled(operator, path), **changes}).status_code == 302
    first.refresh_from_db()
    assert first.every == timedelta(minutes=30)
    assert not Trigger.objects.filter(pk=second.pk).exists()
    assert Trigger.objects.get(kind="cron").cron_expression == "0 4 * * *"


def test_all_of_it_is_saved_or_nothing(operator, now, monkeypatch):
    """A schedule that is refused in the end (its calendar went meanwhile) takes the job's edit back with it."""
    job, _ = save_job({"job_key": "ops:new"}, now, SYSTEM)
    path = "/jobs/ops:new/edit"
    values = {**filled(operator, path), "description": "never", "t0-text": "1 * * * *", "t0-calendar": "gone"}
    monkeypatch.setattr(job_form, "_look_ahead", lambda *args: None)
    answer = operator.post(path, values)
    assert answer.status_code == 400
    assert "There is no calendar of that name." in Page(answer).text
    job.refresh_from_db()
    assert job.description == ""
    assert not AuditEvent.objects.filter(actor_id="otto").exists()


def test_who_edits_what_somebody_else_edited_meanwhile_is_told_so(operator, now):
    job, _ = save_job({"job_key": "ops:new"}, now, SYSTEM)
    trigger, _ = save_trigger(job, {"every": "1h"}, now)
    path = "/jobs/ops:new/edit"
    values = {**filled(operator, path), "description": "mine"}
    save_trigger(job, {"every": "2h"}, now, trigger=trigger)
    answer = operator.post(path, values)
    assert answer.status_code == 409
    assert "Somebody else edited this job meanwhile" in Page(answer).text
    assert Page(answer).all("textarea", name="description")
    assert "mine" in Page(answer).text
    job.refresh_from_db()
    assert job.description == ""


def test_another_jobs_schedule_is_out_of_reach(operator, now):
    save_job({"job_key": "ops:new"}, now, SYSTEM)
    other, _ = save_job({"job_key": "ops:other"}, now, SYSTEM)
    trigger, _ = save_trigger(other, {"every": "1h"}, now)
    path = "/jobs/ops:new/edit"
    mine = {**filled(operator, path), "t0-id": str(trigger.pk), "t0-kind": "every", "t0-text": "5m"}
    assert operator.post(path, mine).status_code == 404
    operator.post(path, {**mine, "t0-remove": "on"})
    trigger.refresh_from_db()
    assert trigger.every == timedelta(hours=1)


def test_what_the_jobs_file_manages_is_refused_where_it_was_clicked(operator, now):
    save_job({"job_key": "ops:new"}, now, SYSTEM, managed_by="file")
    path = "/jobs/ops:new/edit"
    assert "The jobs file has the say in this job" in Page(operator.get(path)).text
    answer = operator.post(path, {**filled(operator, path), "description": "mine"})
    assert answer.status_code == 409
    assert Page(answer).all("p", role="alert")
    assert Job.objects.get().description == ""


@pytest.mark.parametrize("path", ["/jobs/no:such/edit", "/jobs/a%00b/edit"])
def test_a_job_that_is_not_there_is_404(operator, path):
    assert operator.get(path).status_code == operator.post(path).status_code == 404


def test_the_queries_of_the_form_do_not_depend_on_its_schedules(operator, django_assert_max_num_queries):
    job = JobFactory(job_key="ops:many")
    for _ in range(10):
        TriggerFactory(job=job, calendar=CalendarRuleFactory(weekdays=[1, 2, 3]).calendar)
    with django_assert_max_num_queries(15):
        assert operator.get("/jobs/ops:many/edit").status_code == 200


# The preview


def previewed(client, **fields) -> str:
    start = {"number": "0", "t0-kind": "cron", "t0-enabled": "on"}
    answer = client.get("/jobs/preview", {**start, **fields}, headers=HTMX)
    assert answer.status_code == 200
    assert b"<html" not in answer.content
    return Page(answer).text


def test_the_preview_says_in_words_and_instants_what_a_schedule_will_do(viewer):
    text = previewed(viewer, **{"t0-text": "0 2 * * *", "t0-timezone": "Europe/Vienna"})
    assert "At 02:00, Europe/Vienna" in text
    assert "2026-03-03 01:00:00 UTC 2026-03-04 01:00:00 UTC" in text
    assert "Every 15 minutes" in previewed(viewer, **{"t0-kind": "every", "t0-text": "15m"})
    assert "2026-03-05 18:00:00 UTC" in previewed(viewer, **{"t0-kind": "once", "t0-text": "2026-03-05T18:00"})
    assert "Write when it is to run" in previewed(viewer)


def test_the_preview_heeds_the_calendar_and_says_what_moved(viewer):
    calendar = CalendarFactory(name="office", timezone="UTC")
    CalendarRuleFactory(calendar=calendar, weekdays=[1, 2, 3, 4, 5])
    fields = {"t0-text": "0 12 * * 6", "t0-calendar": "office", "t0-on_blocked": "following"}
    assert "2026-03-09 12:00:00 UTC moved from 2026-03-07 12:00:00 UTC" in previewed(viewer, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"t0-text": "61 * * * *"},
        {"t0-text": "0 0 30 2 *"},
        {"t0-text": "\x00"},
        {"t0-text": "0 2 * * *", "t0-timezone": "Mars/Olympus"},
        {"t0-text": "0 2 * * *", "t0-calendar": "no such"},
        {"t0-text": "0 2 * * *", "t0-calendar": "\x00"},
        {"t0-text": "0 2 * * *", "t0-window": "x"},
        {"t0-kind": "every", "t0-text": "never"},
        {"t0-kind": "once", "t0-text": "2020-01-01T00:00:00Z"},
        {"t0-kind": "once", "t0-text": "9" * 300},
    ],
)
def test_what_cannot_be_a_schedule_is_said_in_its_preview(viewer, fields):
    start = {"number": "0", "t0-kind": "cron"}
    answer = viewer.get("/jobs/preview", {**start, **fields}, headers=HTMX)
    assert answer.status_code == 200
    assert answer.content.count(b'class="wrong"') == 1


def test_a_new_schedule_is_previewed_with_the_calendars_of_its_jobs_tenant(viewer):
    JobFactory(job_key="ops:theirs", tenant="other")
    CalendarRuleFactory(calendar=CalendarFactory(name="office", tenant="other"), weekdays=[1, 2, 3, 4, 5])
    fields = {"t0-text": "0 2 * * *", "t0-calendar": "office"}
    assert "There is no calendar of that name." in previewed(viewer, **fields)
    assert "At 02:00" in previewed(viewer, **fields, key="ops:theirs")


@pytest.mark.parametrize("fields", [{"number": "x"}, {"t0-kind": "moon"}, {"t0-id": "7"}])
def test_a_preview_of_nonsense_is_400(viewer, fields):
    assert viewer.get("/jobs/preview", fields).status_code == 400


def test_without_a_script_a_button_shows_the_preview_and_saves_nothing(operator):
    answer = operator.post("/jobs/new", {**filled(operator, "/jobs/new"), **NEW, "preview": "1"})
    page = Page(answer)
    assert answer.status_code == 200
    assert "At 02:00, Europe/Vienna" in page.text
    assert page.all("input", name="t0-text")[0]["value"] == "0 2 * * *"
    assert page.all("input", name="t1-text")
    assert not Job.objects.exists()


def test_h_is_spread_by_the_jobs_own_key(operator, now):
    first = previewed(operator, **{"t0-text": "H H * * *", "job_key": "ops:new"})
    made(operator, **{"t0-text": "H H * * *", "t0-timezone": ""})
    [fire] = [values["datetime"] for values in Page(operator.get("/jobs/ops:new")).all("time", data_relative="due")][:1]
    assert f"{fire[:10]} {fire[11:19]} UTC" in first


def test_forms_ask_for_no_script_of_their_own_and_name_each_field(operator, now):
    page = Page(operator.get("/jobs/new"))
    assert page.refused == []
    labels = {values["for"] for values in page.all("label")}
    shown = [one for tag in ("input", "select", "textarea") for one in page.all(tag) if one.get("type") != "hidden"]
    assert {one["id"] for one in shown} <= labels
