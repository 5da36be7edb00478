"""What a plan says: what is new, what is another, what is left, and which fires move. It writes nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.domain.jobs_file_plan import differences, plan_body, plan_lines
from scheduler.models import Job, Trigger
from scheduler.queries.fires import next_fires
from scheduler.services.jobs_file_check import without_secrets
from scheduler.services.pause import pause_job
from scheduler.services.skip import skip_next
from tests.factories import RunnerFactory
from tests.scheduler.jobs_file.support import EXAMPLE, apply, changes, plan, snapshot
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def test_on_an_empty_tenant_everything_is_new(now):
    before = snapshot()
    planned = plan(EXAMPLE, now)
    assert changes(planned) == [
        ("add", "calendar", "business-days"),
        ("add", "group", "database"),
        ("add", "job", "billing:invoices"),
        ("add", "job", "ops:tick"),
    ]
    # now is a Monday in winter, 13:00 in Berlin.
    assert {(one.job_key, one.before, one.after) for one in planned.moved} == {
        ("billing:invoices", None, now + 20 * MINUTE),
        ("ops:tick", None, now + 5 * MINUTE),
    }
    assert snapshot() == before


def test_on_what_was_applied_it_is_empty(now):
    apply(EXAMPLE, now)
    later = plan(EXAMPLE, now + timedelta(days=40), prune=True)
    assert (later.changes, later.moved, later.unlisted, later.unowned, later.errors) == ((), (), (), (), [])


def test_a_change_is_told_field_by_field_and_which_fires_move(now):
    apply(EXAMPLE, now)
    edited = (
        EXAMPLE.replace("timeout: 10m", "timeout: 15m\n        retry: {base: 9s}")
        .replace("{every: 5m}", "{every: 7m}")
        .replace("max_concurrent: 2", "max_concurrent: 3")
        .replace("MODE: live", "MODE: dry")
    )
    planned = plan(edited, now + MINUTE)
    assert changes(planned) == [
        ("change", "group", "database"),
        ("change", "job", "billing:invoices"),
        ("change", "job", "ops:tick"),
    ]
    told = {
        (change.name, part.field): (part.before, part.after) for change in planned.changes for part in change.fields
    }
    assert told == {
        ("database", "max_concurrent"): (2, 3),
        ("billing:invoices", "timeout"): ("10m", "15m"),
        ("billing:invoices", "retry.base"): ("2s", "9s"),
        ("billing:invoices", "action.env.MODE"): ("live", "dry"),
    }
    (trigger,) = planned.changes[-1].triggers
    assert [(part.field, part.before, part.after) for part in trigger.fields] == [("every", "5m", "7m")]
    assert trigger.schedule == "every 7 minutes"
    (moved,) = planned.moved
    # The anchor stays that of its making.
    assert (moved.job_key, moved.before, moved.after) == ("ops:tick", now + 5 * MINUTE, now + 7 * MINUTE)


def test_a_calendar_moves_the_fires_of_all_who_use_it(now):
    apply(EXAMPLE, now)
    job = make_job(now, "api:job")
    make_trigger(job, now, cron_expression="0 0 * * *", calendar="business-days")
    planned = plan(EXAMPLE.replace("weekdays: [SAT, SUN]", "weekdays: [SAT, SUN, TUE]"), now)
    assert changes(planned) == [("change", "calendar", "business-days")]
    assert [one.job_key for one in planned.moved] == ["api:job"]
    assert planned.moved[0].after == planned.moved[0].before + timedelta(days=1)


def test_the_next_fire_is_told_as_it_would_be_after_apply(now):
    apply(EXAMPLE, now)
    edited = EXAMPLE.replace('"0 3 * * *"', '"30 13 * * *"').replace("every: 20m", "every: 45m")
    (moved,) = plan(edited, now).moved
    apply(edited, now)
    assert moved.after == min(next_fires(one, now, 1)[0] for one in Trigger.objects.filter(job__job_key=moved.job_key))


def test_a_fire_that_was_taken_out_is_not_the_next_one(now):
    apply(EXAMPLE, now)
    skip_next("ops:tick", now, ACTOR)
    (moved,) = plan(EXAMPLE.replace("{every: 5m}", "{every: 2m}"), now).moved
    assert (moved.before, moved.after) == (now + 10 * MINUTE, now + 2 * MINUTE)


def test_secrets_are_in_no_line_and_in_no_body(now):
    apply(EXAMPLE, now)
    for content in (EXAMPLE.replace("s3cret", "h1dden"), EXAMPLE.replace("API_TOKEN: s3cret, ", "")):
        planned = plan(content, now)
        said = "\n".join(plan_lines(planned, without_secrets)) + str(plan_body(planned, without_secrets))
        assert "action.env.API_TOKEN" in said
        assert "s3cret" not in said
        assert "h1dden" not in said
    assert "(another)" in "\n".join(plan_lines(plan(EXAMPLE.replace("s3cret", "h1dden"), now), without_secrets))
    assert "s3cret" not in "\n".join(plan_lines(plan(EXAMPLE.replace("ops:tick", "ops:tock"), now), without_secrets))


def test_what_is_not_in_the_file_any_more_is_left_or_with_prune_removed(now):
    apply(EXAMPLE, now)
    make_job(now, "api:job")
    planned = plan("jobs: {ops:tack: {}}", now)
    assert changes(planned) == [("add", "job", "ops:tack")]
    left = {(one.kind, one.name): one.reason for one in planned.unlisted}
    assert left.keys() == {
        ("job", "billing:invoices"),
        ("job", "ops:tick"),
        ("calendar", "business-days"),
        ("group", "database"),
    }
    assert "'ops:tack'" in left["job", "ops:tick"]
    assert "'ops:tack'" not in left["job", "billing:invoices"]
    pruned = plan("jobs: {ops:tack: {}}", now, prune=True)
    assert {change[1:] for change in changes(pruned) if change[0] == "remove"} == left.keys()
    assert pruned.unlisted == ()
    assert {one.job_key: one.after for one in pruned.moved} == {"billing:invoices": None, "ops:tick": None}


def test_what_others_use_stays_with_prune_too(now):
    apply(EXAMPLE, now)
    job = make_job(now, "api:job", concurrency_group="database")
    make_trigger(job, now, cron_expression="0 0 * * *", calendar="business-days")
    planned = plan("jobs: {}", now, prune=True)
    assert {change[1:] for change in changes(planned)} == {("job", "billing:invoices"), ("job", "ops:tick")}
    assert {(one.name, "api:job" in one.reason) for one in planned.unlisted} == {
        ("business-days", True),
        ("database", True),
    }


def test_what_others_manage_is_not_the_files_unless_it_adopts_it(now):
    make_job(now, "ops:same", timeout="2m")
    make_job(now, "ops:other", timeout="2m")
    content = "jobs: {ops:same: {timeout: 2m}, ops:other: {timeout: 3m}}"
    planned = plan(content, now)
    assert planned.changes == ()
    assert [(one.path, "ops:other" in one.message, "adopt" in one.message) for one in planned.errors] == [
        ("jobs.ops:other", True, True)
    ]
    assert [one.name for one in planned.unowned] == ["ops:same"]
    adopting = plan(content, now, adopt=True)
    assert (changes(adopting), adopting.errors) == ([("adopt", "job", "ops:same"), ("change", "job", "ops:other")], [])


def test_a_job_of_another_tenant_is_none_of_the_file(now):
    make_job(now, "ops:tick", tenant="other")
    for options in ({}, {"adopt": True}):
        (problem,) = plan("jobs: {ops:tick: {}}", now, **options).errors
        assert (problem.path, "'other'" in problem.message) == ("jobs.ops:tick", True)
    assert plan("tenant: other\njobs: {ops:tick: {}}", now).errors == []


@pytest.mark.parametrize(
    ("job", "path", "meant"),
    [
        ("{triggers: [{every: 5m, calendar: busines-days}]}", "triggers.0.calendar", "'business-days'"),
        ("{concurrency_group: databse}", "concurrency_group", "'database'"),
        ("{concurrency_group: none-like-it}", "concurrency_group", "make it first"),
    ],
)
def test_a_reference_to_nothing_is_an_error_and_what_is_like_it_is_named(job, path, meant, now):
    apply(EXAMPLE, now)
    (problem,) = plan(f"jobs:\n  a:b: {job}", now).errors
    assert (problem.mark.line, problem.path) == (2, f"jobs.a:b.{path}")
    assert meant in problem.message


def test_a_trigger_that_would_never_fire_is_refused_with_its_line_but_one_that_has_fired_is_not(now):
    once = f'jobs:\n  a:b:\n    triggers:\n      - run_at: "{(now + MINUTE).isoformat()}"'
    apply(once, now)
    assert plan(once, now + 5 * MINUTE).problems == ()
    (problem,) = plan(once + "\n      - cron_expression: 0 0 30 2 *", now).errors
    assert (problem.mark.line, problem.path) == (5, "jobs.a:b.triggers.1.cron_expression")
    never = """
        calendars: {never: {timezone: UTC, rules: [{effect: include, dates: ["2001-01-01"]}]}}
        jobs: {a:b: {triggers: [{every: 5m, calendar: never}]}}
    """
    (problem,) = plan(never, now).errors
    assert problem.path == "jobs.a:b.triggers.0.calendar"


def test_a_capability_that_is_spelled_near_a_runners_is_warned_of(now):
    RunnerFactory(capabilities=["postgres"], last_poll_at=now)
    planned = plan("jobs: {a:b: {require: [postgrs]}, a:c: {require: [quantum]}}", now)
    assert {one.path for one in planned.problems if "'postgres'" in one.message} == {"jobs.a:b.require"}
    assert planned.errors == []


def test_a_capability_or_a_pin_that_nobody_has_is_warned_of_once(now):
    RunnerFactory(runner_id="one", capabilities=["postgres"], last_poll_at=now)
    text = "jobs: {a:b: {require: [tape, postgres]}, a:c: {require: [tape]}, a:d: {pin: two}, a:e: {pin: one}}"
    planned = plan(text, now)
    assert [(one.path, one.message, one.is_warning) for one in planned.problems] == [
        (
            "jobs.a:b.require",
            "No live runner has the capability 'tape'; its runs wait until one has. 1 more of the file's jobs require "
            "it.",
            True,
        ),
        (
            "jobs.a:d.pin",
            "No live runner has the capability 'runner:two'; its runs wait until one has. Did you mean 'runner:one'?",
            True,
        ),
    ]


def test_all_that_differs_is_told_also_what_is_empty_or_null(now):
    told = list(
        differences({"a": 1, "b": {"c": 1}, "d": {}}, {"b": {}, "d": {"e": None}, "f": {}, "g": {"h": {"i": 1}}})
    )
    assert [(one.field, one.before, one.after) for one in told] == [
        *(("a", 1, None), ("b.c", 1, None), ("d.e", None, None), ("f", None, {}), ("g.h.i", None, 1))
    ]
    assert list(differences({"a": {"b": [1]}}, {"a": {"b": [1]}})) == []


def test_the_hash_is_that_of_the_changes(now):
    first = plan(EXAMPLE, now)
    assert plan(EXAMPLE, now + MINUTE).hash == first.hash
    assert plan(EXAMPLE.replace("s3cret", "h1dden"), now).hash != first.hash
    make_job(now, "ops:tick")
    assert plan(EXAMPLE, now, adopt=True).hash != first.hash


def test_a_paused_job_is_as_it_is_declared(now):
    apply(EXAMPLE, now)
    pause_job("ops:tick", now, reason="holidays")
    assert plan(EXAMPLE, now).changes == ()
    Job.objects.filter(job_key="ops:tick").update(is_active=False)
    (change,) = plan(EXAMPLE, now).changes
    assert [(part.field, part.before, part.after) for part in change.fields] == [("is_active", False, True)]
