"""/v1/jobs/states of real schedules, planned or not, by a clock that moves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from calendars.models import CalendarRule
from scheduler.models import Trigger
from scheduler.queries.gauges import job_gauges
from scheduler.queries.jobs import JobState, job_states, live_jobs
from scheduler.services.calendars import edit_calendar
from scheduler.services.materialize import materialize
from scheduler.services.skip import skip_next
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def state(now) -> JobState:
    (found,) = job_states(live_jobs(), now)
    return found


def test_next_fires_come_from_planned_runs_and_beyond_them_from_the_schedule(now) -> None:
    make_trigger(make_job(now), now, cron_expression="0 */6 * * *")
    materialize(now)
    assert state(now).next_fire_at == now + timedelta(hours=6)
    late = now + timedelta(hours=5, minutes=30)
    materialize(late)
    assert state(late).next_fire_at == now + timedelta(hours=6)


def test_a_fire_that_was_taken_out_is_not_the_next_one_anywhere(now) -> None:
    make_trigger(make_job(now), now, every="6h")
    for _ in range(2):
        skip_next("demo:job", now, ACTOR)
    third = now + timedelta(hours=18)
    assert state(now).next_fire_at == third
    assert [gauge.next_fire_at for gauge in job_gauges(now)] == [third]
    skip_next("demo:job", now, ACTOR)
    assert state(now).next_fire_at == now + timedelta(hours=24)


def test_a_job_whose_fires_nobody_planned_is_overdue(now) -> None:
    trigger = make_trigger(make_job(now), now, every="2h")
    due = now + timedelta(hours=2)
    assert Trigger.objects.get(pk=trigger.pk).cursor_at < due
    assert not state(due + MINUTE).overdue
    found = state(due + MINUTE + timedelta(seconds=1))
    assert (found.overdue, found.next_fire_at) == (True, now + timedelta(hours=4))


def test_a_job_is_not_overdue_because_nothing_had_to_be_planned(now) -> None:
    make_trigger(make_job(now), now, cron_expression="0 3 1 1 *")
    assert not state(now + timedelta(days=30)).overdue


def test_a_broken_schedule_is_told_and_is_not_overdue(now) -> None:
    trigger = make_trigger(make_job(now), now, every="2h")
    Trigger.objects.filter(pk=trigger.pk).update(timezone="Nowhere/Land", next_materialize_at=now)
    materialize(now + MINUTE)
    found = state(now + timedelta(days=1))
    assert "Nowhere/Land" in found.config_error
    assert (found.overdue, found.next_fire_at) == (False, None)


def test_a_broken_calendar_is_told_at_the_job_that_uses_it_and_at_no_other(api, now) -> None:
    rules = [{"effect": "include", "weekdays": [1, 2, 3, 4, 5]}]
    edit_calendar({"name": "office", "timezone": "UTC", "rules": rules}, now)
    make_trigger(make_job(now), now, every="2h", calendar="office")
    make_trigger(make_job(now, "demo:other"), now, every="2h")
    CalendarRule.objects.update(weekdays=["someday"])
    Trigger.objects.update(next_materialize_at=now)
    materialize(now + MINUTE)
    told = {body["job_key"]: body["config_error"] for body in api("jobs:read").get("/v1/jobs/states").json()}
    assert "'office', rule 1, weekdays" in told["demo:job"]
    assert told["demo:other"] is None
