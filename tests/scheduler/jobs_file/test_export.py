"""What is exported declares what there is: a plan of it is empty, and on another machine it makes the same."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calendars.domain.rules import WEEKDAYS
from calendars.services import checked_calendar
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.job_fields import FIELDS, job_columns
from scheduler.domain.jobs_file_written import calendar_written, job_written, trigger_written
from scheduler.domain.trigger_fields import NEW, trigger_columns
from scheduler.domain.yaml_text import read_yaml, write_yaml
from scheduler.models import Job, Trigger
from scheduler.queries.jobs_file import exported
from scheduler.services.calendars import edit_calendar
from scheduler.services.groups import save_group
from scheduler.services.jobs_file_check import checked_jobs_file
from scheduler.services.jobs_file_plan import plan_jobs_file
from tests.scheduler.jobs_file.support import EXAMPLE, apply
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=12).filter(
    lambda t: t == t.strip()
)
NAMES = st.one_of(TEXTS, st.sampled_from(["NO", "12", "a: b", "- x", "'", "true", "1e5"]))
FREE = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=30)
SECONDS = st.one_of(st.sampled_from(["90s", "1.5h", "36h", "0.25s"]), st.floats(1e-7, 3e8), st.integers(1, 10**8))
JSON = st.recursive(
    st.one_of(FREE, st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(-1e9, 1e9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)
ACTIONS = st.one_of(
    st.just({"type": "handler"}),
    st.builds(
        lambda argv, env, stdin: {"type": "command", "argv": ["run", *argv], "env": env, "stdin": stdin},
        st.lists(FREE, max_size=3),
        st.dictionaries(st.from_regex(r"[A-Z_]{1,6}", fullmatch=True), FREE, max_size=2),
        FREE,
    ),
    st.builds(lambda script: {"type": "command", "shell": "set -e\n" + script}, FREE),
)
OF_JOB: dict[str, st.SearchStrategy[Any]] = {
    "description": FREE,
    "metadata": st.dictionaries(NAMES, JSON, max_size=3),
    "action": ACTIONS,
    "tags": st.lists(NAMES, max_size=3),
    "lease": st.sampled_from(["5s", "7.5s", "2m", 61]),
    "max_retries": st.integers(0, 10_000),
    "max_losses": st.integers(0, 10_000),
    "require": st.lists(NAMES.filter(lambda n: not n.startswith(("runner:", "croniq:"))), max_size=3),
    "prefer": st.lists(NAMES.filter(lambda n: not n.startswith(("runner:", "croniq:"))), max_size=3),
    "pin": NAMES,
    "priority": st.integers(-32_767, 32_767),
    "max_concurrent": st.integers(1, 10_000),
    "concurrency_group": st.just("database"),
    "overlap": st.sampled_from(["parallel", "queue_one", "skip"]),
    "coalesce": st.booleans(),
    "max_queue_depth": st.integers(1, 1_000_000),
    "catch_up": st.sampled_from(["all", "latest", "none"]),
    "max_catch_up": st.integers(1, 1000),
    "dead_letter_enabled": st.booleans(),
    "dead_letter_retention": st.one_of(SECONDS, st.just(0)),
    "dead_letter_operator_hint": FREE,
    "retry": st.fixed_dictionaries(
        {},
        optional={
            "strategy": st.sampled_from(["fixed", "linear"]),
            "base": SECONDS,
            "cap": SECONDS,
            "jitter": st.floats(0, 1),
        },
    ),
    "is_active": st.booleans(),
}
OF_JOB |= {name: SECONDS for name in FIELDS if name not in OF_JOB}
JOBS = st.fixed_dictionaries({}, optional=OF_JOB)
INSTANTS = st.integers(1, 2**50).map(lambda microseconds: NOW + timedelta(microseconds=microseconds))
SCHEDULES = st.one_of(
    st.sampled_from(["* * * * *", "0 3 * * MON-FRI", "H H * * *", "0 0 1 1 *", "*/15 9-17 * * *", "@daily"]).map(
        lambda text: {"cron_expression": text}
    ),
    st.builds(
        lambda every, at: {"every": every, "anchor": at}, st.sampled_from(["10m", "1.5h", "90m", "7d"]), INSTANTS
    ),
    INSTANTS.map(lambda at: {"run_at": at, "on_blocked": "advance"}),
    INSTANTS.map(lambda at: {"run_at": at}),
)
TRIGGERS = st.builds(
    lambda schedule, more: {**more, **schedule},
    SCHEDULES,
    st.fixed_dictionaries(
        {},
        optional={
            "timezone": st.sampled_from(["Europe/Berlin", "Asia/Kolkata", "UTC"]),
            "calendar": st.just("business-days"),
            "on_blocked": st.sampled_from(["advance", "defer", "following", "preceding"]),
            "window": st.sampled_from(["00:00-23:59:59", ["22:00", "21:00"]]),
            "not_before": st.just("2026-03-03T00:00:00.000001Z"),
            "not_after": st.just("2090-01-01T00:00:00Z"),
            "enabled": st.booleans(),
        },
    ),
)
RULES = st.one_of(
    st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=7).map(lambda days: {"weekdays": days}),
    st.just({"month_days": [1, -1], "yearly_dates": ["02-29"], "dates": ["2027-01-01"], "range_start": "2026-01-01"}),
    st.just(
        {"range_start": "2026-01-01", "range_end": "2026-12-31", "window_start": "22:00", "window_end": "06:00:30"}
    ),
    st.just({"holiday_country": "NO", "holiday_observed": False}),
    st.just({"holiday_country": "DE", "holiday_subdivision": "BY", "holiday_categories": ["public"]}),
)


def reread(value: Any) -> Any:
    return read_yaml(write_yaml(value).encode())[0].plain()


@given(JOBS)
@settings(max_examples=150, deadline=None)
def test_a_job_that_is_written_is_read_back_the_same(fields):
    columns = job_columns({"is_active": True, **fields}, partial=False)
    for whole in (False, True):
        assert job_columns({"is_active": True, **reread(job_written(columns, whole=whole))}, partial=False) == columns


@given(TRIGGERS)
def test_a_trigger_that_is_written_is_read_back_the_same(fields):
    def read(values: Any) -> dict[str, Any]:
        return trigger_columns(values, before=NEW, job_key="a:b", default_zone="UTC", now=NOW)

    columns = read(fields)
    written = reread(trigger_written(columns, fields.get("calendar")))
    assert (read(written), written.get("calendar")) == (columns, fields.get("calendar"))


@given(st.lists(RULES, max_size=4), FREE)
def test_a_calendar_that_is_written_is_read_back_the_same(rules, description):
    values = {
        "timezone": "Europe/Oslo",
        "description": description,
        "rules": [{"effect": "exclude", **r} for r in rules],
    }
    checked = checked_calendar(values)
    back = {"description": "", "rules": [], **checked_calendar(reread(calendar_written(**checked)))}
    assert back == checked


def plan_of_export(now: datetime, tenant: str = "default", **options: Any):
    data = write_yaml(exported(tenant)).encode()
    return plan_jobs_file(checked_jobs_file(data, now), now, **options).plan


@pytest.mark.django_db
@given(st.lists(st.tuples(JOBS, st.lists(TRIGGERS, max_size=3)), min_size=1, max_size=3), st.lists(RULES, max_size=2))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_plan_of_what_was_exported_is_empty(jobs, rules):
    with transaction.atomic():
        save_group("database", 3, NOW, ACTOR, "default")
        values = {"name": "business-days", "timezone": "Europe/Oslo"}
        edit_calendar(
            {**values, "rules": [{"effect": "exclude", **rule} for rule in rules if "weekdays" not in rule]}, NOW
        )
        for number, (fields, triggers) in enumerate(jobs):
            job = make_job(NOW, f"made:{number}", **fields)
            for trigger in triggers:
                with suppress(InvalidInput):  # what would never fire is not there
                    make_trigger(job, NOW, **trigger)
        later = NOW + timedelta(hours=5)
        planned = plan_of_export(later)
        assert (planned.changes, planned.errors) == ((), [])
        assert len(planned.unowned) == len(jobs) + 2
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_on_another_machine_it_makes_the_same(now):
    apply(EXAMPLE, now)
    columns = [name for name in (field.attname for field in Trigger._meta.fields) if name in NEW]
    before = list(Trigger.objects.order_by("kind", "every").values(*columns, "job__job_key", "calendar__name"))
    content = write_yaml(exported("default"))
    apply("jobs: {}", now, prune=True)
    assert not Job.objects.filter(deleted_at=None).exists()
    apply(content, now + timedelta(minutes=3))
    again = Trigger.objects.filter(job__deleted_at=None).order_by("kind", "every")
    assert list(again.values(*columns, "job__job_key", "calendar__name")) == before


@pytest.mark.django_db
def test_an_export_is_of_one_tenant_and_says_which(now):
    make_job(now, "a:b")
    make_job(now, "a:c", tenant="other")
    assert exported("default") == {"jobs": {"a:b": {}}}
    assert exported("other") == {"tenant": "other", "jobs": {"a:c": {}}}
    assert plan_of_export(now, "other", adopt=True).tenant == "other"


@pytest.mark.django_db
def test_an_export_of_nothing_is_a_jobs_file(now):
    assert plan_of_export(now).problems == ()
