"""An edit of a calendar reaches the jobs that use it, in the same transaction."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from calendars.models import Calendar
from croniq_site.kernel.errors import Conflict
from scheduler.models import QueueEntry, Run
from scheduler.services.calendars import edit_calendar, remove_calendar
from scheduler.services.replan import replan_job
from tests.factories import JobFactory, TriggerFactory

pytestmark = pytest.mark.django_db
ALL_DAYS = [1, 2, 3, 4, 5, 6, 7]


def planned(job) -> list[datetime]:
    return sorted(Run.objects.filter(job=job).values_list("scheduled_for", flat=True))


@pytest.fixture
def office(now) -> Calendar:
    rules = [{"effect": "include", "weekdays": ALL_DAYS}]
    return edit_calendar({"name": "office", "timezone": "UTC", "rules": rules}, now).calendar


def test_closing_takes_the_planned_runs_away_and_opening_brings_them_back(now, office):
    job = JobFactory()
    TriggerFactory(job=job, calendar=office, every=timedelta(minutes=10))
    replan_job(job, now)
    every_ten = [now + timedelta(minutes=10 * k) for k in range(1, 7)]
    assert planned(job) == every_ten
    closed = {"effect": "exclude", "window_start": "12:15", "window_end": "12:45"}
    rules = [{"effect": "include", "weekdays": ALL_DAYS}]
    edit_calendar({"rules": [*rules, closed]}, now, calendar=office)
    assert planned(job) == [at for at in every_ten if not (12, 15) <= (at.hour, at.minute) < (12, 45)]
    assert QueueEntry.objects.filter(job=job).count() == 3
    edit_calendar({"rules": rules}, now, calendar=office)
    assert planned(job) == every_ten


def test_an_edit_that_is_refused_leaves_calendar_and_runs(now, office):
    job = JobFactory()
    TriggerFactory(job=job, calendar=office, every=timedelta(minutes=10))
    replan_job(job, now)
    before = set(Run.objects.values_list("pk", flat=True))
    edit_calendar({"name": "shop", "timezone": "UTC"}, now)
    with pytest.raises(Conflict):
        edit_calendar({"name": "shop", "rules": [{"effect": "exclude", "weekdays": ALL_DAYS}]}, now, calendar=office)
    assert set(Run.objects.values_list("pk", flat=True)) == before
    assert office.rules.get().effect == "include"


def test_an_edit_of_the_description_leaves_the_planned_runs_alone(now, office):
    job = JobFactory()
    trigger = TriggerFactory(job=job, calendar=office, every=timedelta(minutes=10))
    replan_job(job, now)
    trigger.refresh_from_db()
    before = (trigger.cursor_at, set(Run.objects.values_list("pk", flat=True)))
    edit_calendar({"description": "ours"}, now + timedelta(minutes=1), calendar=office)
    trigger.refresh_from_db()
    assert (trigger.cursor_at, set(Run.objects.values_list("pk", flat=True))) == before


def test_deleting_a_calendar_in_use_names_the_jobs(now, office):
    for key in ("ops:b", "ops:a"):
        TriggerFactory(job=JobFactory(job_key=key), calendar=office)
    with pytest.raises(Conflict, match="used by ops:a, ops:b") as refused:
        remove_calendar(office, now)
    assert refused.value.code == "calendar_in_use"
    assert Calendar.objects.filter(pk=office.pk).exists()
