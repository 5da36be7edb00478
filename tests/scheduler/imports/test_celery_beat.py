"""Periodic tasks of django-celery-beat as jobs: the rules, without a table."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from calendars.domain.zones import load_zone
from scheduler.domain.celery_beat import Options, Tables, draft_of, drafts_of, expression_of
from scheduler.domain.imports import Draft, NotTaken
from scheduler.domain.schedules import CronSchedule, fires

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
EXPECTED = json.loads((Path(__file__).parents[1] / "cases" / "celery_beat" / "crontabs.json").read_text())
EVERY_HOUR = {"id": 1, "minute": "0", "hour": "*", "day_of_month": "*", "month_of_year": "*", "day_of_week": "*"}
TABLES = Tables(
    tasks=(),
    crontabs={1: EVERY_HOUR | {"timezone": "Asia/Tokyo"}, 2: EVERY_HOUR},
    intervals={1: {"id": 1, "every": 90, "period": "minutes"}, 2: {"id": 2, "every": 5, "period": "weeks"}},
    clocked={1: {"id": 1, "clocked_time": datetime(2026, 4, 1, 8, 0)}},  # noqa: DTZ001 - as SQLite gives it
)


def task(**columns: Any) -> dict[str, Any]:
    row = {"id": 7, "name": "reports.daily", "task": "app.tasks.report", "args": "[]", "kwargs": "{}", "enabled": True}
    schedule = {} if any(name.endswith("_id") for name in columns) else {"crontab_id": 1}
    return row | schedule | columns


def draft(options: Options | None = None, **columns: Any) -> Draft:
    return draft_of(task(**columns), TABLES, options or Options(), NOW)


def reason(**columns: Any) -> str:
    drafts, (refused,), _ = drafts_of(
        Tables([task(**columns)], TABLES.crontabs, TABLES.intervals, TABLES.clocked), Options(), NOW
    )
    assert drafts == []
    return refused.reason  # fmt: skip


@pytest.mark.parametrize("case", EXPECTED["cases"], ids=lambda case: " ".join(case["crontab"].values()))
def test_a_crontab_fires_when_celery_says_or_is_not_taken(case: dict[str, Any]) -> None:
    """The expected instants are those of Celery itself; `crontabs.json` says which version, and how they were made."""
    if "refused" in case:
        with pytest.raises(NotTaken):
            expression_of(case["crontab"])
        return
    schedule = CronSchedule(expression_of(case["crontab"]), case["timezone"])
    after = datetime.fromisoformat(case["after"])
    found = [fire.at for fire in fires(schedule, after=after, count=len(case["fires"]))]
    zone = load_zone(case["timezone"]).info
    assert [at.astimezone(zone).isoformat() for at in found] == case["fires"]


def test_both_days_of_a_crontab_have_to_match_in_celery() -> None:
    row = EVERY_HOUR | {"day_of_month": "8-14", "day_of_week": "mon,fri"}
    assert expression_of(row) == "0 * * * 1#2,5#2"
    assert expression_of(EVERY_HOUR | {"day_of_month": "*/2", "day_of_week": "1-5"}) == "0 * */2 * 1-5"
    with pytest.raises(NotTaken, match="both have to match"):
        expression_of(EVERY_HOUR | {"day_of_month": "13", "day_of_week": "5"})


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("minute", text) for text in ("60", "5/15", "*/0", "-5", "1-", "a", "1,,2", "L", "1" * 30, "*/x")),
        *(("hour", "24"), ("day_of_month", "0"), ("month_of_year", "13"), ("month_of_year", "jan")),
        *(("day_of_week", "7"), ("day_of_week", "xyz"), ("day_of_week", "mon#1")),
    ],
)
def test_what_celery_does_not_run_is_not_taken(field: str, text: str) -> None:
    with pytest.raises(NotTaken):
        expression_of(EVERY_HOUR | {field: text})


def test_a_task_is_a_job_of_a_handler_that_is_told_its_arguments() -> None:
    found = draft(args='[1, "ü"]', kwargs='{"a": {"b": null}}', headers='{"h": 1}', description="what it does")
    assert found.job_key == "celery:reports.daily"
    assert found.fields == {
        "metadata": {"task": "app.tasks.report", "args": [1, "ü"], "kwargs": {"a": {"b": None}}, "headers": {"h": 1}}
    }
    assert found.first == {
        "timeout": "24h",
        "max_retries": 0,
        "max_losses": 0,
        "catch_up": "latest",
        "description": "what it does",
        "tags": ["celery"],
        "is_active": True,
    }
    assert found.schedule == {
        "cron_expression": "0 * * * *",
        "timezone": "Asia/Tokyo",
        "not_before": None,
        "not_after": None,
    }
    assert draft(args=None, kwargs="", headers=None).fields["metadata"] == {
        "task": "app.tasks.report",
        "args": [],
        "kwargs": {},
    }


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("reports.daily", "celery:reports.daily"),
        ("Send-Mail_2", "celery:Send-Mail_2"),
        ("Send mail: all/now", "celery:send-mail-all-now-85c395e1"),
        ("日報", "celery:task-aabb91da"),
        ("x" * 200, "celery:" + "x" * 40 + "-aa20c23e"),
    ],
)
def test_keys_are_names_where_they_can_be_and_else_like_them(name: str, key: str) -> None:
    assert draft(name=name).job_key == key
    assert draft(name=name + " ").job_key != key


def test_zones_and_instants_without_one_are_those_of_the_option() -> None:
    vienna = Options(timezone="Europe/Vienna")
    assert draft(vienna, crontab_id=2).schedule["timezone"] == "Europe/Vienna"
    start, end = "2026-05-01 00:00:00", datetime(2026, 6, 1, tzinfo=UTC)
    found = draft(vienna, start_time=start, expires=end).schedule
    assert (found["not_before"].isoformat(), found["not_after"]) == ("2026-05-01T00:00:00+02:00", end)
    assert draft(clocked_id=1, one_off=True).schedule["run_at"] == datetime(2026, 4, 1, 8, 0, tzinfo=UTC)
    assert draft(vienna, clocked_id=1).schedule["run_at"].isoformat() == "2026-04-01T08:00:00+02:00"


def test_an_interval_goes_on_from_where_it_last_ran() -> None:
    last = datetime(2026, 3, 2, 11, 7, tzinfo=UTC)
    found = draft(interval_id=1, last_run_at=last)
    assert found.schedule["every"] == timedelta(minutes=90)
    assert found.first_schedule == {"anchor": last}
    start = datetime(2026, 3, 9, tzinfo=UTC)
    assert draft(interval_id=1, start_time=start).first_schedule == {"anchor": start}
    assert draft(interval_id=1).first_schedule == {"anchor": NOW}


def test_a_one_off_runs_at_its_next_instant_and_a_later_import_leaves_that() -> None:
    found = draft(one_off=True)
    assert (found.schedule, found.first_schedule) == ({}, {"run_at": datetime(2026, 3, 2, 12, 0, tzinfo=UTC)})
    start = datetime(2026, 3, 9, 0, 30, tzinfo=UTC)
    assert draft(one_off=True, start_time=start).first_schedule["run_at"] == start.replace(hour=1, minute=0)
    last = datetime(2026, 3, 2, 11, 7, tzinfo=UTC)
    assert draft(one_off=True, interval_id=1, last_run_at=last).first_schedule["run_at"] == last + timedelta(minutes=90)


def test_queues_expiry_and_state() -> None:
    found = draft(
        Options(queues=True, first={"require": ["python"], "pin": ""}), queue="mail", expire_seconds=30, enabled=0
    )
    assert (found.first["require"], found.first["queue_ttl"], found.first["is_active"]) == (
        ["mail", "python"],
        30,
        False,
    )
    _, _, (note,) = drafts_of(Tables([task(queue="mail", priority=5)], TABLES.crontabs), Options(), NOW)
    assert note.reason == "left out: priority, queue (--queues makes it a capability)"


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"task": "celery.backend_cleanup"}, "cleans up Celery's own results"),
        ({"crontab_id": None}, "it has 0 schedules"),
        ({"crontab_id": 1, "interval_id": 1}, "it has 2 schedules"),
        ({"solar_id": 1}, "it follows the sun"),
        ({"crontab_id": 99}, "its crontab schedule 99 is not there"),
        ({"interval_id": 2}, "'weeks' is no unit"),
        ({"args": "[1"}, "its args are no JSON"),
        ({"args": "{}"}, "its args are no list"),
        ({"kwargs": "[]"}, "its kwargs are no object"),
        ({"one_off": True, "enabled": False, "total_run_count": 1}, "it was to run once, and has run"),
        ({"expires": "soon"}, "'soon' is no instant"),
    ],
)
def test_what_cannot_be_taken_says_why(columns: dict[str, Any], says: str) -> None:
    assert says in reason(**columns)


def test_two_tasks_of_one_key_are_one_job() -> None:
    drafts, refused, _ = drafts_of(Tables([task(), task(id=8)], TABLES.crontabs), Options(), NOW)
    assert len(drafts) == 1
    assert refused[0].reason == "its key 'celery:reports.daily' is that of task 7"
