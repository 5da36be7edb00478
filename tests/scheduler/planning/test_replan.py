"""An edit plans its job again: what no trigger gives any more goes, the rest keeps its ids."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import QueueEntry, Run, Trigger
from scheduler.services.calendars import edit_calendar
from scheduler.services.claim import claim_due
from scheduler.services.materialize import materialize
from scheduler.services.triggers import delete_trigger, save_trigger
from tests.factories import CalendarFactory, CalendarRuleFactory, RunnerInstanceFactory
from tests.scheduler.planning.support import ACTOR, ids, make_job, make_trigger, planned
from tests.support.polling import poll_until
from tests.support.races import Session, is_waiting_for_lock, together

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def test_an_edit_of_a_schedule_keeps_the_ids_of_the_runs_that_stay(clock):
    job = make_job(clock.now())
    trigger = make_trigger(job, clock.now(), cron_expression="*/10 * * * *")
    before = ids(job)
    clock.tick(5 * MINUTE)
    save_trigger(job, {"cron_expression": "*/15 * * * *"}, clock.now(), trigger=trigger)
    start = clock.now() - 5 * MINUTE
    after = ids(job)
    assert sorted(after) == [start + 15 * k * MINUTE for k in (1, 2, 3, 4)]
    kept = {at: run for at, run in after.items() if at in before}
    assert kept == {at: before[at] for at in (start + 30 * MINUTE, start + 60 * MINUTE)}
    assert QueueEntry.objects.count() == Run.objects.count() == 4


def test_saving_the_same_again_changes_nothing(clock):
    job = make_job(clock.now())
    fields = {"every": "10m", "timezone": "Europe/Vienna", "window": "08:00-20:00", "not_after": "2027-01-01T00:00:00Z"}
    trigger = make_trigger(job, clock.now(), **fields)
    before, row = ids(job), Trigger.objects.values().get()
    _, is_new = save_trigger(job, fields, clock.tick(7 * MINUTE), trigger=trigger)
    assert (is_new, ids(job), Trigger.objects.values().get()) == (False, before, row)


def test_a_new_period_keeps_the_anchor(clock):
    job = make_job(clock.now())
    start = clock.now()
    trigger = make_trigger(job, start, every="10m")
    clock.tick(7 * MINUTE)
    save_trigger(job, {"every": "15m"}, clock.now(), trigger=trigger)
    assert planned(job) == [start + 15 * k * MINUTE for k in (1, 2, 3, 4)]


def test_a_run_that_two_triggers_give_stays_when_one_of_them_goes(clock):
    job = make_job(clock.now())
    tens = make_trigger(job, clock.now(), cron_expression="*/10 * * * *")
    make_trigger(job, clock.now(), cron_expression="*/15 * * * *")
    before = ids(job)
    delete_trigger(tens.pk, clock.now(), actor=ACTOR)
    assert ids(job) == {at: run for at, run in before.items() if at.minute % 15 == 0}


def test_a_disabled_trigger_takes_its_plans_back_and_begins_at_now_when_it_is_enabled(clock):
    job = make_job(clock.now(), catch_up="all")
    trigger = make_trigger(job, clock.now(), every="10m")
    save_trigger(job, {"enabled": False}, clock.now(), trigger=trigger)
    assert planned(job) == []
    materialize(clock.tick(5 * HOUR))
    assert planned(job) == []
    save_trigger(job, {"enabled": True}, clock.tick(5 * MINUTE), trigger=trigger)
    assert planned(job)[0] == clock.now() + 5 * MINUTE
    assert len(planned(job)) == 6


def test_an_edit_never_brings_back_what_is_past(clock):
    job = make_job(clock.now(), catch_up="all")
    trigger = make_trigger(job, clock.now(), cron_expression="0 * * * *")
    QueueEntry.objects.all().delete()
    Run.objects.all().delete()
    clock.tick(3 * HOUR + 30 * MINUTE)  # nobody planned, and now the schedule becomes another
    save_trigger(job, {"cron_expression": "*/10 * * * *"}, clock.now(), trigger=trigger)
    assert planned(job)[0] == clock.now() + 10 * MINUTE
    assert not job.skipped_spans.exists()


def test_another_trigger_of_the_job_still_catches_up_what_it_missed(clock):
    job = make_job(clock.now(), catch_up="all")
    make_trigger(job, clock.now(), every="1h")
    edited = make_trigger(job, clock.now(), cron_expression="30 3 * * *")
    QueueEntry.objects.all().delete()
    Run.objects.all().delete()
    start = clock.now()
    clock.tick(3 * HOUR + 30 * MINUTE)
    save_trigger(job, {"cron_expression": "30 4 * * *"}, clock.now(), trigger=edited)
    assert planned(job) == [start + k * HOUR for k in (2, 3, 4)]


def test_due_and_claimed_runs_are_no_candidates(clock):
    job = make_job(clock.now())
    trigger = make_trigger(job, clock.now(), every="10m")
    clock.tick(20 * MINUTE)
    holder = RunnerInstanceFactory()
    claimed = claim_due(clock.now(), 1, holder.pk, [job.lane_id])[0]
    delete_trigger(trigger.pk, clock.now(), actor=ACTOR)
    entries = dict(QueueEntry.objects.values_list("run__scheduled_for", "state"))
    assert entries == {
        claimed.scheduled_for: QueueEntry.State.CLAIMED,
        clock.now(): QueueEntry.State.READY,  # due, and waiting for a runner: it fell due under the old schedule
    }


def test_a_broken_trigger_does_not_keep_its_job_from_being_edited(clock):
    job = make_job(clock.now())
    broken = make_trigger(job, clock.now(), cron_expression="*/10 * * * *")
    other = make_trigger(job, clock.now(), every="30m")
    Trigger.objects.filter(pk=broken.pk).update(timezone="Europe/Atlantis")
    save_trigger(job, {"every": "20m"}, clock.now(), trigger=other)
    assert planned(job) == [clock.now() + 20 * k * MINUTE for k in (1, 2, 3)]
    broken.refresh_from_db()
    assert "Atlantis" in broken.config_error


def test_a_calendar_edit_plans_every_job_that_uses_it_again(clock):
    calendar = CalendarFactory(name="hours")
    CalendarRuleFactory(calendar=calendar, weekdays=[], window_start="12:00", window_end="12:30")
    users = [make_job(clock.now(), f"demo:user-{n}") for n in range(2)]
    for job in users:
        make_trigger(job, clock.now(), cron_expression="*/10 * * * *", calendar="hours")
    before = [ids(job) for job in users]
    rules = [{"effect": "include", "window_start": "12:15", "window_end": "12:45"}]
    edit_calendar({"name": "hours", "timezone": "UTC", "rules": rules}, clock.now(), actor=ACTOR, calendar=calendar)
    at = clock.now() + 20 * MINUTE
    for job, was in zip(users, before, strict=True):
        assert planned(job) == [at, at + 10 * MINUTE, at + 20 * MINUTE]
        assert ids(job)[at] == was[at]


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_is_first_keeps_its_run_and_the_edit_leaves_it(now, database):
    job = make_job(now)
    trigger = make_trigger(job, now, every="10m")
    holder = RunnerInstanceFactory()
    soon = now + 10 * MINUTE  # the claiming server's clock is ahead of the editing one's
    with Session() as claimer, Session() as editor:
        claimer.begin()
        claimed = claimer.run(claim_due, soon, 1, holder.pk, [job.lane_id])[0]
        pid = editor.backend_pid if database == "postgresql" else None
        edit = editor.start(delete_trigger, trigger.pk, now, actor=ACTOR)
        if pid is not None:  # SQLite: the edit's transaction does not begin before the claim's has ended
            # The edit has seen the entry wait, and wants to delete what the claim has locked.
            poll_until(lambda: is_waiting_for_lock(pid))
        claimer.commit()
        edit.result(20)
    entry = QueueEntry.objects.get()
    assert (entry.run_id, entry.state, entry.holder_id) == (claimed.run_id, QueueEntry.State.CLAIMED, holder.pk)
    assert Run.objects.get().pk == claimed.run_id


@pytest.mark.django_db(transaction=True)
def test_an_edit_that_is_first_leaves_nothing_to_claim(now):
    job = make_job(now)
    trigger = make_trigger(job, now, every="10m")
    holder = RunnerInstanceFactory()
    soon = now + 10 * MINUTE
    with Session() as editor, Session() as claimer:
        editor.begin()
        editor.run(delete_trigger, trigger.pk, now, actor=ACTOR)
        claim = claimer.start(claim_due, soon, 5, holder.pk, [job.lane_id])
        editor.commit()
        assert len(claim.result(20)) == 0
    assert not Run.objects.exists()
    assert not QueueEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_edits_and_passes_of_one_job_take_turns(now):
    job = make_job(now)
    triggers = [make_trigger(job, now, every="7m"), make_trigger(job, now, cron_expression="*/10 * * * *")]
    later = now + 40 * MINUTE
    together(
        [
            lambda: materialize(later),
            lambda: save_trigger(job, {"every": "11m"}, later, trigger=triggers[0]),
            lambda: save_trigger(job, {"cron_expression": "*/20 * * * *"}, later, trigger=triggers[1]),
            lambda: materialize(later),
        ]
    )
    materialize(later)
    elevens = {now + 11 * k * MINUTE for k in range(1, 20)}
    twenties = {now + 20 * k * MINUTE for k in range(1, 20)}
    future = [at for at in planned(job) if at > later]
    assert future == sorted(at for at in elevens | twenties if later < at <= later + HOUR)
