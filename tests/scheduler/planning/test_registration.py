"""A runner registers its jobs each time it starts: that must change nothing, and never say what is executed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import InvalidInput, NotFound
from runners.models import AuditEvent
from scheduler.models import Job, Run, Trigger
from scheduler.services.jobs import deactivate, delete_job, save_job
from scheduler.services.registration import register_job
from scheduler.services.triggers import save_trigger
from tests.factories import CalendarFactory, CalendarRuleFactory
from tests.scheduler.planning.support import ACTOR, ids, make_job, make_trigger, planned, principal
from tests.support.races import together

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
BODY = {"job_key": "demo:sdk", "schedule": "2s", "runner_id": "r1", "capabilities": ["py", "eu"], "timeout": "30s"}


def test_a_first_registration_makes_the_job_and_its_trigger_and_plans_at_once(now, registrar):
    answer = register_job(BODY, now, registrar)
    job, trigger = Job.objects.get(), Trigger.objects.get()
    assert (answer.job_key, answer.trigger_id, answer.status, answer.created) == (
        "demo:sdk",
        str(trigger.pk),
        "registered",
        True,
    )
    assert (job.managed_by, job.require, job.pin, job.timeout_seconds) == ("runner", ["eu", "py"], "", 30)
    assert (trigger.managed_by, trigger.kind, trigger.every, trigger.anchor_at) == (
        "runner",
        "interval",
        2 * SECOND,
        now,
    )
    assert planned(job)[:3] == [now + 2 * k * SECOND for k in (1, 2, 3)]


@pytest.mark.parametrize(
    ("text", "kind", "every", "cron"),
    [
        ("5m", "interval", timedelta(minutes=5), ""),
        ("300", "interval", timedelta(seconds=300), ""),
        ("*/5 * * * *", "cron", None, "*/5 * * * *"),
        ("@daily", "cron", None, "@daily"),
    ],
)
def test_a_schedule_is_an_interval_or_cron_text(now, registrar, text, kind, every, cron):
    register_job({"job_key": "demo:sdk", "schedule": text}, now, registrar)
    trigger = Trigger.objects.get()
    assert (trigger.kind, trigger.every, trigger.cron_expression) == (kind, every, cron)


def test_the_same_again_changes_nothing(clock, registrar):
    register_job(BODY, clock.now(), registrar)
    job = Job.objects.get()
    before = (Job.objects.values().get(), Trigger.objects.values().get(), ids(job), AuditEvent.objects.count())
    clock.tick(timedelta(minutes=3, seconds=1))
    answer = register_job({**BODY, "runner_id": "r2", "description": None}, clock.now(), registrar)
    assert not answer.created
    assert (Job.objects.values().get(), Trigger.objects.values().get(), ids(job), AuditEvent.objects.count()) == before


def test_a_registration_that_says_something_new_updates_the_job_and_keeps_the_anchor(clock, registrar):
    register_job(BODY, clock.now(), registrar)
    start = clock.now()
    clock.tick(timedelta(seconds=5))
    answer = register_job({**BODY, "schedule": "3s", "description": "new", "timeout": "9s"}, clock.now(), registrar)
    assert not answer.created
    job = Job.objects.get()
    assert (job.description, job.timeout_seconds) == ("new", 9)
    assert [at for at in planned(job) if at > clock.now()][:2] == [start + 6 * SECOND, start + 9 * SECOND]


def test_the_first_registration_decides_what_is_required_and_others_are_noted_once(now, registrar):
    register_job(BODY, now, registrar)
    for _ in range(3):
        register_job({**BODY, "capabilities": ["py", "us"]}, now, registrar)
        register_job({**BODY, "capabilities": []}, now, registrar)
    assert Job.objects.get().require == ["eu", "py"]
    noted = AuditEvent.objects.filter(action="job.require_ignored").values_list("diff", flat=True)
    assert sorted(diff["offered"] for diff in noted) == [[], ["py", "us"]]
    assert not AuditEvent.objects.filter(action="job.updated").exists()


def test_a_job_that_was_made_by_the_api_keeps_its_definition_and_gets_the_trigger(now, registrar):
    make_job(now, "demo:sdk", description="mine", require=["gpu"])
    answer = register_job({**BODY, "description": "theirs"}, now, registrar)
    job = Job.objects.get()
    assert (answer.created, job.managed_by, job.description, job.require) == (True, "api", "mine", ["gpu"])
    assert (job.timeout_seconds, Trigger.objects.get().managed_by) == (300, "runner")


def test_a_registration_leaves_the_triggers_that_people_made(now, registrar):
    job = make_job(now, "demo:sdk")
    own = make_trigger(job, now, cron_expression="0 3 * * *")
    register_job(BODY, now, registrar)
    register_job({**BODY, "schedule": "7s"}, now, registrar)
    own.refresh_from_db()
    assert own.cron_expression == "0 3 * * *"
    assert Trigger.objects.get(managed_by="runner").every == 7 * SECOND


def test_what_the_jobs_file_declares_wins(now, registrar):
    save_job({"job_key": "demo:sdk", "description": "file"}, now, ACTOR, managed_by="file")
    answer = register_job({**BODY, "description": "theirs"}, now, registrar)
    assert (answer.status, answer.created, answer.trigger_id) == ("skipped_dsl_precedence", False, None)
    assert Job.objects.get().description == "file"
    assert not Trigger.objects.exists()


def test_what_a_person_switched_off_stays_off(clock, registrar):
    register_job(BODY, clock.now(), registrar)
    save_trigger(Job.objects.get(), {"enabled": False}, clock.now(), trigger=Trigger.objects.get())
    register_job(BODY, clock.tick(), registrar)
    assert not Trigger.objects.get().enabled
    deactivate("demo:sdk", clock.now(), ACTOR)
    register_job({**BODY, "schedule": "9s"}, clock.tick(), registrar)
    assert not Job.objects.get().is_active
    assert not Run.objects.exists()


def test_after_a_deletion_it_is_a_new_job(now, registrar):
    register_job(BODY, now, registrar)
    old = Job.objects.get()
    delete_job("demo:sdk", now, ACTOR)
    assert register_job(BODY, now, registrar).created
    assert Job.objects.get(deleted_at=None).pk != old.pk


def test_zone_calendar_and_bounds_ride_along(now, registrar):
    calendar = CalendarFactory(name="days")
    CalendarRuleFactory(calendar=calendar, weekdays=[1, 2, 3, 4, 5])
    extra = {"timezone": "Europe/Vienna", "calendar": "days", "window": "08:00-18:00", "max_retries": 1, "tags": ["x"]}
    register_job({**BODY, "schedule": "0 9 * * *", **extra}, now, registrar)
    job, trigger = Job.objects.get(), Trigger.objects.get()
    assert (trigger.timezone, trigger.calendar, trigger.window_start.hour) == ("Europe/Vienna", calendar, 8)
    assert (job.max_retries, job.tags) == (1, ["x"])


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("job_key", {"job_key": "nope"}),
        ("job_key", {"job_key": None}),
        ("schedule", {"schedule": None}),
        ("schedule", {"schedule": ""}),
        ("schedule", {"schedule": "soon"}),
        ("schedule", {"schedule": "* * * *"}),
        ("schedule", {"schedule": "0 0 30 2 *"}),
        ("schedule", {"schedule": "0s"}),
        ("schedule", {"schedule": 300}),
        ("timezone", {"timezone": "Europe/Wien"}),
        ("capabilities", {"capabilities": "py"}),
        ("capabilities", {"capabilities": ["runner:r2"]}),
        ("runner_id", {"runner_id": "\x00"}),
        ("timeout", {"timeout": "0s"}),
        ("description", {"description": "\x00"}),
        ("calendar", {"calendar": "nowhere"}),
        ("action", {"action": {"type": "command", "shell": "evil"}}),
        ("pin", {"pin": "r2"}),
        ("require", {"require": ["x"]}),
        ("tenant", {"tenant": "acme"}),
        ("is_active", {"is_active": True}),
        ("nonsense", {"nonsense": 1}),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_field_and_makes_nothing(now, registrar, field, body):
    with pytest.raises(InvalidInput) as refused:
        register_job({**BODY, **body}, now, registrar)
    assert list(refused.value.fields) == [field]
    assert not Job.objects.exists()


def test_a_registration_without_a_schedule_or_that_is_no_object_is_refused(now, registrar):
    with pytest.raises(InvalidInput) as refused:
        register_job({"job_key": "demo:sdk"}, now, registrar)
    assert "schedule" in refused.value.fields
    with pytest.raises(InvalidInput):
        register_job([BODY], now, registrar)


def test_a_runners_metadata_cannot_say_what_is_executed(now, registrar):
    evil = {"__runner_exec": {"type": "command", "shell": "evil"}, "a": 1}
    register_job({**BODY, "metadata": evil}, now, registrar)
    assert Job.objects.get().metadata == {"a": 1}
    register_job({**BODY, "metadata": {**evil, "a": 2}}, now, registrar)
    assert (Job.objects.get().metadata, Job.objects.get().action) == ({"a": 2}, {})


def test_a_runner_registers_in_its_tenant_and_not_over_others(now, registrar):
    acme = principal("jobs:register", tenant="acme")
    register_job(BODY, now, acme)
    assert Job.objects.get().tenant == "acme"
    register_job({**BODY, "job_key": "demo:other"}, now, registrar)
    with pytest.raises(NotFound):
        register_job({**BODY, "job_key": "demo:other", "description": "stolen"}, now, acme)
    assert not Job.objects.filter(description="stolen").exists()


@pytest.mark.django_db(transaction=True)
def test_runners_that_register_at_one_moment_make_one_job_and_one_trigger(now, registrar):
    answers = together([lambda: register_job(BODY, now, registrar) for _ in range(8)])
    trigger = Trigger.objects.get()
    assert {answer.trigger_id for answer in answers} == {str(trigger.pk)}
    assert sorted(answer.created for answer in answers) == [False] * 7 + [True]
    assert planned(Job.objects.get())[:2] == [now + 2 * SECOND, now + 4 * SECOND]
