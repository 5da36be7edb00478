"""A plain trigger is planned without a model: what is decided is what `plan_of` decides of its row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest.mock import patch
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.domain.occurrences import to_micro
from scheduler.models import Job, Trigger
from scheduler.services import planning
from scheduler.services.plain import plan_plain
from scheduler.sql.due import DueJob, DueTrigger

NOW = datetime(2026, 10, 24, 22, 40, 0, 123_456, tzinfo=UTC)
"""An hour before Central Europe's clocks go back is within a day of it."""
MICRO = timedelta(microseconds=1)
CRONS = ["* * * * *", "*/7 * * * *", "30 2 * * *", "H/5 * * * *", "0 0 29 2 *", "*/20 * * * * *", "0 0 0 1 1 * 2026"]
ZONES = ["", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]


@st.composite
def triggers(draw) -> Trigger:
    job = Job(pk=draw(st.integers(1, 2**40)), job_key=draw(st.sampled_from(["a:b", "c:d"])), lane_id=1)
    created = NOW - draw(st.integers(0, 5_000)) * timedelta(seconds=1)
    trigger = Trigger(
        id=uuid4(),
        job=job,
        timezone=draw(st.sampled_from(ZONES)),
        created_at=created,
        cursor_at=NOW + draw(st.integers(0, 3_600_000_000)) * MICRO,
    )
    if draw(st.booleans()):
        trigger.kind, trigger.cron_expression = "cron", draw(st.sampled_from(CRONS))
    else:
        trigger.kind, trigger.every = "interval", draw(st.integers(1_000_000, 90_000_000_000)) * MICRO
        trigger.anchor_at = created + draw(st.integers(-(10**11), 10**11)) * MICRO
    return trigger


def due(trigger: Trigger) -> DueTrigger:
    """The row as `lock_due_triggers` gives it."""
    job = trigger.job
    return DueTrigger(
        trigger.pk,
        trigger.kind,
        trigger.cron_expression,
        None if trigger.every is None else trigger.every // MICRO,
        None if trigger.anchor_at is None else to_micro(trigger.anchor_at),
        trigger.timezone,
        to_micro(trigger.created_at),
        to_micro(trigger.cursor_at),
        "",
        is_plain=True,
        job=DueJob._make(getattr(job, name) for name in DueJob._fields),
    )


def both(trigger: Trigger, now: datetime, hours: int, most: int, room: int) -> tuple:
    with (
        patch.object(planning, "most_planned", lambda now: most),
        patch.object(planning, "horizon", lambda: timedelta(hours=hours)),
    ):
        slow = planning.plan_of(trigger, now, room)
    fast = plan_plain(due(trigger), to_micro(now), to_micro(now + timedelta(hours=hours)), most, room)
    return fast, slow


@given(triggers(), st.integers(0, 900), st.sampled_from([1, 30]), st.integers(1, 1000), st.integers(1, 120))
@example(
    Trigger(
        id=uuid4(),
        job=Job(pk=1, job_key="a:b"),
        kind="cron",
        cron_expression="0 0 0 1 1 * 2026",
        created_at=NOW,
        cursor_at=NOW,
    ),
    0,
    1,
    1000,
    100,
)
def test_plain_and_whole_plans_are_the_same(trigger, seconds, hours, most, room):
    now = min(NOW + seconds * timedelta(seconds=1), trigger.cursor_at)
    fast, slow = both(trigger, now, hours, most, room)
    assert fast is not None
    assert (list(fast.fires), list(fast.occurrences)) == (slow.fires, slow.occurrences)
    assert (fast.was, fast.cursor_at, fast.next_materialize_at) == (slow.was, slow.cursor_at, slow.next_materialize_at)
    assert (fast.skipped, fast.config_error) == (slow.skipped, slow.config_error) == (None, "")
    assert list(planning._planned_runs(fast)) == list(planning._planned_runs(slow))


@pytest.mark.parametrize(
    "columns",
    [
        {"cursor_at": NOW - MICRO},
        {"timezone": "Mars/Base"},
        {"kind": "cron", "cron_expression": "61 * * * *"},
        {"every": timedelta(seconds=-5)},
        {"every": timedelta(microseconds=999_999)},
        {"every": timedelta(days=4000)},
        {"anchor_at": datetime(1969, 12, 31, tzinfo=UTC)},
        {"anchor_at": None},
        {"kind": "once", "run_at": NOW},
    ],
)
def test_what_is_not_plain_is_left_to_the_whole_plan(columns):
    columns = {"kind": "interval", "every": timedelta(minutes=1), "anchor_at": NOW, "cursor_at": NOW} | columns
    trigger = Trigger(id=uuid4(), job=Job(pk=1, job_key="a:b"), created_at=NOW, **columns)
    assert plan_plain(due(trigger), to_micro(NOW), to_micro(NOW + timedelta(hours=1)), 1000, 100) is None


def test_what_more_than_its_schedule_decides_about_is_left_to_the_whole_plan():
    columns = {"kind": "interval", "every": timedelta(minutes=1), "anchor_at": NOW, "cursor_at": NOW}
    row = due(Trigger(id=uuid4(), job=Job(pk=1, job_key="a:b"), created_at=NOW, **columns))
    until = to_micro(NOW + timedelta(hours=1))
    plan = plan_plain(row, to_micro(NOW), until, 1000, 100)
    assert plan is not None
    assert len(plan.fires) == 60
    assert plan_plain(row._replace(is_plain=False), to_micro(NOW), until, 1000, 100) is None
