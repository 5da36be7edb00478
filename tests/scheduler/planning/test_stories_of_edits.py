"""Edits while everything runs: what only the old definition gave goes, what both give stays, nothing comes back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scheduler.domain.work import AckAnswer
from scheduler.models import QueueEntry, Run, Trigger
from scheduler.services.calendars import edit_calendar
from scheduler.services.claim import claim_due
from scheduler.services.jobs import activate, deactivate, delete_job, save_job
from scheduler.services.pause import pause_job, resume_job
from scheduler.services.trigger_runs import trigger_run
from scheduler.services.triggers import save_trigger
from tests.factories import RunnerInstanceFactory
from tests.scheduler.planning.support import ACTOR, ids, make_job, make_trigger, planned
from tests.scheduler.planning.world import DAY, HOUR, MINUTE, SECOND, World
from tests.support.races import together

pytestmark = pytest.mark.django_db


def test_hourly_becomes_daily_becomes_minutely(world: World, settings):
    settings.CRONIQ_HORIZON_SECONDS = 24 * 3600
    noon = world.clock.now()
    world.clock.tick(-30 * MINUTE)
    job = make_job(world.clock.now())
    trigger = make_trigger(job, world.clock.now(), cron_expression="0 * * * *")
    assert len(planned(job)) == 24
    world.step(30 * MINUTE, runs=False)
    (claimed,) = world.claim()
    world.clock.tick(10 * MINUTE)
    save_trigger(job, {"cron_expression": "0 3 * * *"}, world.clock.now(), trigger=trigger)
    three = noon + 15 * HOUR
    assert planned(job) == [noon, three]  # the claimed one is there still
    world.clock.tick(MINUTE)
    assert world.ack(claimed) is AckAnswer.ACCEPTED
    world.clock.set(noon + 20 * MINUTE)
    before = ids(job)[three]
    save_trigger(job, {"cron_expression": "* * * * *"}, world.clock.now(), trigger=trigger)
    assert ids(job)[three] == before
    assert planned(job)[0] == noon + 21 * MINUTE
    world.until(noon + 25 * MINUTE)
    assert world.on_time(job) == [noon + minutes * MINUTE for minutes in range(21, 26)]
    assert all(at == noon or at > noon + 20 * MINUTE for at in ids(job))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(3))
def test_an_edit_and_a_claim_at_the_same_moment(now, attempt):
    """An old run that is claimed, or one that is gone: never both, never neither."""
    job = make_job(now)
    trigger = make_trigger(job, now, every="10m")
    holder = RunnerInstanceFactory()
    soon = now + 30 * MINUTE  # the claiming server's clock is ahead of the editing one's
    old = ids(job)
    claims, _ = together(
        [
            lambda: list(claim_due(soon, 2, holder.pk, [job.lane_id])),
            lambda: save_trigger(job, {"every": "7m"}, now, trigger=trigger),
        ]
    )
    claimed = {run.run_id: run.scheduled_for for run in claims}
    sevens = {now + 7 * k * MINUTE for k in range(1, 9)}
    left = ids(job)
    assert {run_id for at, run_id in left.items() if at not in sevens} == {
        run_id for run_id, at in claimed.items() if at not in sevens
    }
    assert set(left) >= sevens
    assert set(claimed) <= set(left.values())
    holders = dict(QueueEntry.objects.values_list("run_id", "holder_id"))
    assert {run_id for run_id, by in holders.items() if by is not None} == set(claimed)
    assert set(holders) == set(left.values())
    assert len(set(old)) == 6


def test_what_changes_no_fire_changes_no_run(world: World):
    start = world.clock.now()
    job = make_job(start)
    fields = {"every": "7m"}
    trigger = make_trigger(job, start, **fields)
    world.step(3 * MINUTE)
    before = ids(job)
    assert len(before) == 8

    def edits():
        now = world.clock.now()
        yield lambda: save_job({"job_key": "demo:job", "description": "ours"}, now, ACTOR, partial=True)
        yield lambda: save_trigger(job, fields, now, trigger=trigger)
        yield lambda: save_trigger(job, {"enabled": False}, now, trigger=trigger)
        yield lambda: save_trigger(job, {"enabled": True}, now, trigger=trigger)
        yield lambda: deactivate("demo:job", now, ACTOR)
        yield lambda: activate("demo:job", now, ACTOR)
        yield world.restart

    for edit in edits():
        edit()
        world.step(SECOND, reaps=False)
        if Trigger.objects.get().enabled and type(job).objects.get().is_active:
            assert {at: run for at, run in ids(job).items() if at in before} == before
        else:
            assert planned(job) == []
    world.until(start + 40 * MINUTE, MINUTE, reaps=False)
    assert world.instants(job) == [start + 7 * k * MINUTE for k in (1, 2, 3, 4, 5)]


def test_nothing_of_a_pause_is_left_as_due(world: World):
    world.clock.set(datetime(2026, 3, 2, 11, 29, tzinfo=UTC))
    job = make_job(world.clock.now())
    trigger = make_trigger(job, world.clock.now(), cron_expression="* * * * *")
    world.until(datetime(2026, 3, 2, 11, 31, 30, tzinfo=UTC), 30 * SECOND, reaps=False)
    pause_job("demo:job", world.clock.now())
    world.until(datetime(2026, 3, 2, 11, 33, 30, tzinfo=UTC), 60 * SECOND)
    save_trigger(job, {"cron_expression": "*/2 * * * *"}, world.clock.now(), trigger=trigger)
    world.until(datetime(2026, 3, 2, 11, 35, 30, tzinfo=UTC), 60 * SECOND)
    resume_job("demo:job", world.clock.now())
    assert planned(job)[0].minute == 36
    world.until(datetime(2026, 3, 2, 11, 38, tzinfo=UTC), 30 * SECOND, reaps=False)
    assert [at.minute for at in world.on_time(job)] == [30, 31, 36, 38]
    skipped = Run.objects.filter(verdict="skipped").order_by("scheduled_for")
    assert [(run.scheduled_for.minute, run.reason) for run in skipped] == [(n, "paused") for n in (32, 33, 34)]


def test_a_job_is_deleted_with_runs_of_all_kinds_and_its_name_is_used_again(world: World):
    start = world.clock.now()
    job = make_job(start)
    make_trigger(job, start, every="10m")
    world.until(start + 10 * MINUTE, 10 * MINUTE)
    world.step(10 * MINUTE, runs=False)
    (claimed,) = world.claim()
    queued = trigger_run("demo:job", world.clock.now()).run_id
    delete_job("demo:job", world.clock.now(), ACTOR)
    assert world.ack(claimed) is AckAnswer.ACCEPTED
    assert world.ack(claimed) is AckAnswer.REPEATED
    again = make_job(world.clock.now())
    make_trigger(again, world.clock.now(), every="5m")
    world.until(start + 40 * MINUTE, 5 * MINUTE)
    verdicts = dict(Run.objects.filter(job=job).values_list("pk", "verdict"))
    assert sorted(verdicts.values()) == ["cancelled", "completed", "completed"]
    assert (verdicts[claimed.run_id], verdicts[queued]) == ("completed", "cancelled")
    assert world.instants(again) == [start + minutes * MINUTE for minutes in (25, 30, 35, 40)]
    assert not Run.objects.filter(job=job, verdict=None).exists()


def test_two_triggers_meet_at_nine_and_keep_the_run_as_long_as_one_of_them_gives_it(world: World):
    world.clock.set(datetime(2026, 3, 2, 8, 10, tzinfo=UTC))
    nine = datetime(2026, 3, 2, 9, tzinfo=UTC)
    job = make_job(world.clock.now())
    hourly = make_trigger(job, world.clock.now(), cron_expression="0 * * * *")
    daily = make_trigger(job, world.clock.now(), cron_expression="0 9 * * *")
    (run_id,) = ids(job).values()
    save_trigger(job, {"cron_expression": "30 * * * *"}, world.clock.tick(MINUTE), trigger=hourly)
    assert ids(job)[nine] == run_id
    save_trigger(job, {"cron_expression": "0 * * * *"}, world.clock.tick(MINUTE), trigger=hourly)
    save_trigger(job, {"cron_expression": "0 21 * * *"}, world.clock.tick(MINUTE), trigger=daily)
    assert ids(job) == {nine: run_id}
    world.until(nine, MINUTE, reaps=False)
    assert world.on_time(job) == [nine]
    save_trigger(job, {"cron_expression": "0 22 * * *"}, world.clock.tick(MINUTE), trigger=hourly)
    assert planned(job) == []


def test_a_day_becomes_a_holiday_and_a_working_day_again_and_then_nothing_is_open(world: World, settings):
    settings.CRONIQ_HORIZON_SECONDS = 8 * 86400
    start = world.clock.now()
    rules = [{"effect": "include", "weekdays": [1, 2, 3, 4, 5]}]
    calendar = edit_calendar({"name": "office", "timezone": "UTC", "rules": rules}, start).calendar
    job = make_job(start)
    trigger = make_trigger(job, start, cron_expression="0 9 * * *", calendar="office")
    before = ids(job)
    tuesday = datetime(2026, 3, 10, 9, tzinfo=UTC)
    assert sorted(before)[-1] == tuesday
    holiday = {"effect": "exclude", "dates": ["2026-03-10"]}
    edit_calendar({"rules": [*rules, holiday]}, world.clock.tick(MINUTE), calendar=calendar)
    assert ids(job) == {at: run for at, run in before.items() if at != tuesday}
    edit_calendar({"rules": rules}, world.clock.tick(MINUTE), calendar=calendar)
    assert ids(job) == before
    edit_calendar({"rules": [*rules, holiday]}, world.clock.tick(MINUTE), calendar=calendar)
    world.sleep_until(datetime(2026, 3, 11, 12, tzinfo=UTC), DAY)
    assert [at.day for at in world.on_time(job)] == [3, 4, 5, 6, 9, 11]
    always = {"effect": "exclude", "weekdays": [1, 2, 3, 4, 5, 6, 7]}
    edit_calendar({"rules": [always]}, world.clock.tick(MINUTE), calendar=calendar)
    trigger.refresh_from_db()
    assert (planned(job), "closed" in trigger.config_error) == ([], True)
    world.sleep_until(datetime(2026, 3, 14, 12, tzinfo=UTC), DAY)
    edit_calendar({"rules": rules}, world.clock.now(), calendar=calendar)
    trigger.refresh_from_db()
    assert (planned(job)[0].day, trigger.config_error) == (16, "")
    assert len(planned(job)) == 5
