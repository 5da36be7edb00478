"""A calendar is edited in the moment in which a trigger is bound to it: its runs are planned by the new rules."""

from __future__ import annotations

from datetime import timedelta

import pytest

from calendars.models import Calendar
from scheduler.services.calendars import edit_calendar
from scheduler.services.jobs import save_job
from scheduler.services.triggers import save_trigger
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger, planned
from tests.support.polling import poll_until
from tests.support.races import Session, is_waiting_for_lock, together

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
FIRST_HALF = [{"effect": "include", "window_start": "12:00", "window_end": "12:30"}]
SECOND_HALF = [{"effect": "include", "window_start": "12:30", "window_end": "13:00"}]
TENS = {"cron_expression": "*/10 * * * *", "calendar": "hours"}


@pytest.fixture
def hours(now) -> Calendar:
    return edit_calendar({"name": "hours", "timezone": "UTC", "rules": FIRST_HALF}, now).calendar


def second_half(job, now) -> bool:
    return planned(job) == [now + minutes * MINUTE for minutes in (30, 40, 50)]


@pytest.mark.parametrize("is_new", [True, False], ids=["a new trigger", "an edited one"])
@pytest.mark.parametrize("first", ["edit", "save"])
def test_a_trigger_that_is_bound_while_the_calendar_is_edited(now, database, hours, first, is_new):
    user, job = make_job(now, "demo:user"), make_job(now, "demo:binds")
    make_trigger(user, now, **TENS)
    trigger = None if is_new else make_trigger(job, now, cron_expression="*/15 * * * *")

    def edit() -> None:
        edit_calendar({"rules": SECOND_HALF}, now, calendar=hours)

    def save() -> None:
        save_trigger(job, TENS, now, trigger=trigger)

    with Session() as one, Session() as other:
        one.begin()
        pid = other.backend_pid if database == "postgresql" else None
        one.run(edit if first == "edit" else save)
        waits = other.start(save if first == "edit" else edit)
        if pid is not None:  # SQLite: the second transaction does not begin before the first has ended
            poll_until(lambda: is_waiting_for_lock(pid))
        one.commit()
        waits.result(20)
    assert second_half(job, now)
    assert second_half(user, now)


def test_edits_of_calendars_jobs_and_triggers_at_one_moment_end(now, hours):
    """Each takes its locks in the same order: jobs, then the calendar."""
    jobs = [make_job(now, f"demo:{n}") for n in range(3)]
    triggers = [make_trigger(job, now, **TENS) for job in jobs]
    for _ in range(2):
        together(
            [
                lambda: edit_calendar({"rules": SECOND_HALF}, now, calendar=hours),
                lambda: edit_calendar({"rules": FIRST_HALF}, now, calendar=hours),
                lambda: save_trigger(jobs[0], {"calendar": None}, now, trigger=triggers[0]),
                lambda: save_trigger(jobs[0], TENS, now),
                lambda: save_job({"job_key": "demo:1", "description": "ours"}, now, ACTOR, partial=True),
            ]
        )
        save_trigger(jobs[0], TENS, now, trigger=triggers[0])
        edit_calendar({"rules": SECOND_HALF}, now, calendar=hours)
        assert all(second_half(job, now) for job in jobs)
