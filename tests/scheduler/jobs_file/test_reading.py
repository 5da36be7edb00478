"""All that is wrong with a file is said at once, in the words of the services, with the lines."""

from __future__ import annotations

import pytest

from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.job_fields import FIELDS, job_columns
from scheduler.services.jobs_file_check import checked_jobs_file, problems_offline
from tests.scheduler.jobs_file.support import EXAMPLE, found, read, text


def messages(content: str, now) -> list[str]:
    return [one.message for one in sorted(checked_jobs_file(text(content), now).file.problems)]


def test_a_sound_file_gives_jobs_with_all_their_columns(now):
    file = read(EXAMPLE, now)
    assert file.problems == []
    job = file.jobs["billing:invoices"]
    assert job.columns == job_columns(
        {
            "description": "Send the invoices",
            "action": {"type": "command", "argv": ["send", "--all"], "env": {"API_TOKEN": "s3cret", "MODE": "live"}},
            "timeout": "10m",
            "concurrency_group": "database",
            "is_active": True,
        },
        partial=False,
    )
    assert [one.fields for one in job.triggers][1] == {"every": "20m"}
    assert list(file.calendars) == ["business-days"]


def test_every_error_is_found_at_once_with_its_line(now):
    content = """
        tenant: Not A Slug
        calenders: {}
        calendars:
          c:
            timezone: Europe/Berln
            colour: red
            rules:
              - {effect: exclude, weekdays: [FOO]}
              - {effect: perhaps, weekdays: [MON]}
              - {effect: include, weekday: [MON], dates: [today]}
              - {effect: include}
          "": {}
        groups:
          g: {max_concurrent: 0}
          h: {limit: 1}
        jobs:
          nocolon: {}
          a:b:
            timeout: soon
            max_retry: 3
            max_retries: many
            retry: {strategy: random, base: 0s, bse: 1s}
            action: {type: command, argv: [x], env: {A-B: c}}
            run_on_change: 1
            triggers:
              - {cron_expression: "99 * * * *"}
              - {every: 5m, timezone: Nowhere, on_blocked: x, window: y}
              - {timezone: UTC}
              - {every: 5m, run_at: "2030-01-01T00:00:00Z"}
              - [1]
          a:c:
            - 1
    """
    assert found(content, now) == [
        (2, "tenant"),
        (3, "calenders"),
        (6, "calendars.c.timezone"),
        (7, "calendars.c.colour"),
        (9, "calendars.c.rules.0.weekdays"),
        (10, "calendars.c.rules.1.effect"),
        (11, "calendars.c.rules.2.weekday"),
        (11, "calendars.c.rules.2.dates"),
        (12, "calendars.c.rules.3.effect"),
        (13, "calendars..name"),
        (13, "calendars..timezone"),
        (15, "groups.g.max_concurrent"),
        (16, "groups.h.max_concurrent"),
        (16, "groups.h.limit"),
        (18, "jobs.nocolon"),
        (20, "jobs.a:b.timeout"),
        (21, "jobs.a:b.max_retry"),
        (22, "jobs.a:b.max_retries"),
        (23, "jobs.a:b.retry.strategy"),
        (23, "jobs.a:b.retry.base"),
        (23, "jobs.a:b.retry.bse"),
        (24, "jobs.a:b.action.env"),
        (25, "jobs.a:b.run_on_change"),
        (27, "jobs.a:b.triggers.0.cron_expression"),
        (28, "jobs.a:b.triggers.1.timezone"),
        (28, "jobs.a:b.triggers.1.on_blocked"),
        (28, "jobs.a:b.triggers.1.window"),
        (29, "jobs.a:b.triggers.2.cron_expression"),
        (30, "jobs.a:b.triggers.3.run_at"),
        (31, "jobs.a:b.triggers.4"),
        (31, "jobs.a:b.triggers.4.cron_expression"),
        (33, "jobs.a:c"),
    ]


def test_what_is_wrong_with_a_field_hides_no_reference(now):
    content = """
        jobs:
          a:b:
            timout: 5m
            concurrency_group: g
            triggers: [{every: 5m, calendar: c, zone: x}, {every: no}]
    """
    problems = sorted(problems_offline(checked_jobs_file(text(content), now), now))
    assert [one.path.removeprefix("jobs.a:b.") for one in problems] == [
        "timout",
        "concurrency_group",
        "triggers.0.calendar",
        "triggers.0.zone",
        "triggers.1.every",
    ]


BAD = {
    "description": 1,
    "metadata": [],
    "action": {"type": "magic"},
    "tags": "a",
    "timeout": "5 parsecs",
    "lease": "1s",
    "max_retries": -1,
    "require": ["runner:x"],
    "priority": 1.5,
    "overlap": "maybe",
    "coalesce": "yes",
    "dead_letter_retention": -1,
}


@pytest.mark.parametrize("name", BAD)
def test_the_words_are_those_of_the_api(name, now):
    with pytest.raises(InvalidInput) as refused:
        job_columns({name: BAD[name]}, partial=True)
    (problem,) = read(f"jobs: {{'a:b': {{{name}: {BAD[name]!r}}}}}", now).problems
    assert problem.message in refused.value.fields[problem.path.removeprefix("jobs.a:b.")]


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        ("calender: {}", "calendars"),
        ("jobs: {a:b: {timout: 5m}}", "timeout"),
        ("jobs: {a:b: {retry: {stratgy: fixed}}}", "retry.strategy"),
        ("jobs: {a:b: {triggers: [{cron_expresion: '* * * * *'}]}}", "cron_expression"),
        ("groups: {g: {max_concurent: 1}}", "max_concurrent"),
        ("calendars: {c: {timezone: UTC, rule: []}}", "rules"),
        (
            "calendars: {c: {timezone: UTC, rules: [{effect: include, weekdays: [MON], window_strt: '08:00'}]}}",
            "window_start",
        ),
    ],
)
def test_the_one_that_is_meant_is_named(content, meant, now):
    assert any(f"Did you mean {meant}?" in message for message in messages(content, now))


@pytest.mark.parametrize(
    "content", ["jobs:", "jobs: {}", "x-aside: [1]\njobs: {a:b: , a:c: {triggers: }}", "calendars:"]
)
def test_little_is_enough(content, now):
    assert found(content, now) == []


@pytest.mark.parametrize("content", ["[]", "text", "12", "---"])
def test_what_declares_nothing_is_no_jobs_file(content, now):
    """Else an empty file would, with --prune, remove everything."""
    assert len(found(content, now)) == 1


def test_what_anchors_hold_may_stand_aside(now):
    content = """
        x-usual: &usual {timeout: 2m, require: [linux]}
        jobs:
          a:b: {<<: *usual, timeout: 3m}
    """
    columns = read(content, now).jobs["a:b"].columns
    assert (columns["timeout_seconds"], columns["require"]) == (180.0, ["linux"])


def test_every_field_of_a_job_may_stand_in_the_file(now):
    for name in FIELDS:
        assert read(f"jobs: {{a:b: {{{name}: null}}}}", now).problems == []


def test_offline_a_strange_reference_is_a_warning_and_one_that_is_like_another_is_named(now):
    content = """
        calendars: {business-days: {timezone: UTC}}
        groups: {database: {max_concurrent: 1}}
        jobs:
          a:a: {require: [gpu], prefer: [gpux]}
          a:b:
            require: [gpu, linux]
            concurrency_group: databse
            triggers: [{every: 5m, calendar: busines-days}, {every: 5m, calendar: elsewhere}]
    """
    problems = sorted(problems_offline(checked_jobs_file(text(content), now), now))
    assert all(one.is_warning for one in problems)
    assert [(one.mark.line, one.path) for one in problems] == [
        (5, "jobs.a:a.prefer"),
        (8, "jobs.a:b.concurrency_group"),
        (9, "jobs.a:b.triggers.0.calendar"),
        (9, "jobs.a:b.triggers.1.calendar"),
    ]
    assert [
        "gpu" in one.message or "'database'" in one.message or "'business-days'" in one.message for one in problems
    ] == [*(True, True, True, False)]


def test_offline_a_schedule_that_never_fires_is_an_error(now):
    content = """
        calendars:
          never: {timezone: UTC, rules: [{effect: include, dates: ["2001-01-01"]}]}
        jobs:
          a:b: {triggers: [{every: 5m, calendar: never}, {run_at: "2001-01-01T00:00:00Z"}]}
    """
    problems = problems_offline(checked_jobs_file(text(content), now), now)
    assert [(one.mark.line, one.path, one.is_warning) for one in problems] == [
        (5, "jobs.a:b.triggers.0.calendar", False)
    ]


def test_what_looks_like_a_secret_is_warned_of(now):
    content = """
        jobs:
          a:b:
            action:
              type: command
              argv: [psql]
              env:
                DB_PASSWORD: hunter2
                API_TOKEN: {secret: TOKEN}
                MODE: live
            metadata: {nested: {secret_key: x}, keys: 3}
    """
    checked = checked_jobs_file(text(content), now)
    assert [(one.mark.line, one.path, one.is_warning) for one in sorted(checked.file.problems)] == [
        (8, "jobs.a:b.action.env.DB_PASSWORD", True),
        (11, "jobs.a:b.metadata.nested.secret_key", True),
    ]
    assert not any("hunter2" in one.message for one in checked.file.problems)
