"""Gaps of more fires than are listed: how many were skipped is told exactly, or told to be at least so many."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.queries.fires import trigger_fires
from scheduler.queries.gates import fires_counted
from scheduler.services import planning
from scheduler.services.calendars import edit_calendar
from scheduler.services.materialize import materialize
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger

pytestmark = pytest.mark.django_db

MONTH = timedelta(days=31)


@pytest.fixture
def office(now):
    rules = [
        {"effect": "include", "weekdays": [1, 2, 3, 4, 5], "window_start": "08:00", "window_end": "18:00"},
        {"effect": "exclude", "holiday_country": "AT"},
    ]
    edit_calendar({"name": "office", "timezone": "Europe/Vienna", "rules": rules}, now, actor=ACTOR)


@pytest.mark.parametrize(
    "when",
    [
        {"cron_expression": "*/2 * * * *", "timezone": "Europe/Vienna"},
        {"cron_expression": "*/2 * * * *", "timezone": "Europe/Vienna", "calendar": "office"},
        {"every": "97s", "window": ["22:00", "03:30"], "timezone": "Europe/Vienna"},
        {"every": "10s", "calendar": "office", "window": ["15:00", "19:00"]},
        {"cron_expression": "5 2 * * *", "timezone": "Europe/Vienna", "not_before": "2026-03-20T00:00:00Z"},
    ],
)
def test_what_is_counted_is_what_a_walk_finds(now, office, when):
    trigger = make_trigger(make_job(now), now, **when)
    for begin, end in [(now, now + MONTH), (now - MONTH, now + MONTH / 7), (now + MONTH / 3, now + MONTH / 2)]:
        assert fires_counted(trigger, after=begin, until=end) == len(trigger_fires(trigger, after=begin, until=end))


def test_a_gap_under_a_calendar_is_counted_exactly(clock, office):
    job = make_job(clock.now())
    trigger = make_trigger(job, clock.now(), cron_expression="* * * * *", calendar="office")
    planned_to = trigger.cursor_at
    assert materialize(clock.tick(MONTH)).is_done
    span = job.skipped_spans.get()
    assert span.count == len(trigger_fires(trigger, after=planned_to, until=span.last_at)) > planning.MOST_COUNTED


def test_where_a_policy_moves_fires_the_admin_says_at_least(admin_client, clock, office):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), cron_expression="* * * * *", calendar="office", on_blocked="defer")
    assert materialize(clock.tick(MONTH)).is_done
    assert job.skipped_spans.get().count == planning.MOST_COUNTED
    assert "≥ 5,000" in admin_client.get("/admin/scheduler/skippedspan/").content.decode()
    job.skipped_spans.update(count=7000)
    page = admin_client.get("/admin/scheduler/skippedspan/").content.decode()
    assert "7,000" in page
    assert "≥" not in page
