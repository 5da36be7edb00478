"""Nights, holidays, clocks that jump and processes that start anew: every instant once, at its time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import holidays
import pytest

from scheduler.models import Job, QueueEntry, Run, SkippedSpan, Trigger
from scheduler.queries.fires import next_fires
from scheduler.services import caps
from scheduler.services import materialize as passes
from scheduler.services.calendars import edit_calendar
from tests.factories import CalendarFactory, CalendarRuleFactory, JobFactory, TriggerFactory
from tests.scheduler.planning.support import make_job, make_trigger
from tests.scheduler.planning.world import DAY, HOUR, MINUTE, SECOND, World

pytestmark = pytest.mark.django_db

WORKDAYS = [1, 2, 3, 4, 5]


@pytest.mark.parametrize("first", ["server", "materializer"])
@pytest.mark.parametrize(
    ("fields", "caught_up"),
    [({}, [0]), ({"catch_up": "none"}, []), ({"catch_up": "all", "max_catch_up": 3}, [-10, -5, 0])],
    ids=["latest", "none", "all"],
)
def test_everything_stopped_overnight_and_goes_on(world: World, fields, caught_up, first):
    start = world.clock.now().replace(hour=19, minute=50)
    world.clock.set(start)
    job = make_job(start, **fields)
    make_trigger(job, start, cron_expression="*/5 * * * *")
    eight = start + 10 * MINUTE
    world.until(eight, 5 * MINUTE, reaps=False)
    assert world.on_time(job) == [eight - 5 * MINUTE, eight]
    world.restart()
    world.clock.tick(12 * HOUR + 2 * MINUTE)
    for turn in (world.resume, world.plan) if first == "server" else (world.plan, world.resume):
        turn()
    world.reap()
    world.run_due(world.clock.now())
    morning = eight + 12 * HOUR
    assert world.instants(job)[2:] == [morning + minutes * MINUTE for minutes in caught_up]
    world.until(morning + 10 * MINUTE, reaps=False)
    assert world.ran[job.pk][2 + len(caught_up) :] == [(morning + n * MINUTE,) * 2 for n in (5, 10)]


CHRISTMAS = {
    "AT": "Europe/Vienna",
    "DE": "Europe/Berlin",
    "US": "America/New_York",
    "GB": "Europe/London",
}


def working_days(country: str, first: date, last: date) -> list[date]:
    """By the package itself and no code of ours."""
    off = holidays.country_holidays(country)
    days = [first + n * DAY for n in range((last - first).days + 1)]
    closed = (date(2026, 12, 24), date(2027, 1, 6))
    return [day for day in days if day.weekday() < 5 and day not in off and not closed[0] <= day <= closed[1]]


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restarted every few passes"])
def test_christmas(world: World, restarts):
    start, end = datetime(2026, 12, 22, 12, tzinfo=UTC), datetime(2027, 1, 8, 12, tzinfo=UTC)
    world.clock.set(start)
    jobs: dict[str, tuple[Job, Trigger, list[datetime]]] = {}
    for country, zone in CHRISTMAS.items():
        rules = [
            {"effect": "include", "weekdays": WORKDAYS},
            {"effect": "exclude", "holiday_country": country},
            {"effect": "exclude", "range_start": "2026-12-24", "range_end": "2027-01-06"},
        ]
        edit_calendar({"name": country, "timezone": zone, "rules": rules}, start)
        job = make_job(start, f"demo:{country.lower()}")
        trigger = make_trigger(job, start, cron_expression="0 2 * * *", timezone=zone, calendar=country)
        days = working_days(country, date(2026, 12, 23), date(2027, 1, 12))
        expected = [datetime(day.year, day.month, day.day, 2, tzinfo=ZoneInfo(zone)).astimezone(UTC) for day in days]
        jobs[country] = job, trigger, expected
    rng, looks = Random(24), 0
    while world.clock.now() < end:
        world.sleep_until(min(end, world.clock.now() + rng.randrange(60, 2600) * MINUTE), DAY)
        if restarts and rng.random() < 0.4:
            world.restart()
        for _, trigger, expected in jobs.values():
            coming = next(at for at in expected if at > world.clock.now())
            assert next_fires(trigger, world.clock.now(), 1) == [coming]
            looks += 1
    assert looks > 40
    for country, (job, _, expected) in jobs.items():
        assert world.on_time(job) == [at for at in expected if at <= end], country
    assert not SkippedSpan.objects.exists()
    assert not Run.objects.filter(verdict="skipped").exists()


def test_the_first_of_a_month_that_is_blocked_runs_on_the_last_open_day_before(world: World):
    """On time, though only an hour is planned ahead: August and November of 2026 begin at a weekend."""
    start = datetime(2026, 7, 20, tzinfo=UTC)
    world.clock.set(start)
    calendar = CalendarFactory(name="office")
    CalendarRuleFactory(calendar=calendar, weekdays=WORKDAYS)
    job = make_job(start)
    make_trigger(job, start, cron_expression="0 9 1 * *", calendar="office", on_blocked="preceding")
    world.sleep_until(datetime(2026, 11, 10, tzinfo=UTC), 20 * DAY)
    days = [date(2026, 7, 31), date(2026, 9, 1), date(2026, 10, 1), date(2026, 10, 30)]
    assert world.on_time(job) == [datetime(day.year, day.month, day.day, 9, tzinfo=UTC) for day in days]
    assert set(QueueEntry.objects.values_list("job_id", flat=True)) == set()


def test_no_seam_between_two_materializers_that_pass_at_random(world: World, settings):
    settings.CRONIQ_HORIZON_SECONDS = 600
    start = world.clock.now()
    job = make_job(start)
    make_trigger(job, start, cron_expression="* * * * *")
    rng = Random(6)
    looked: list[datetime | None] = [None, None]
    next_pass = [start, start]
    while (now := world.clock.now()) < start + 2 * HOUR:
        for n in (0, 1):
            if next_pass[n] <= now:
                passes._looked_at = looked[n]
                world.plan()
                looked[n] = passes._looked_at
                next_pass[n] = now + rng.randrange(1, 400) * SECOND
        if now == start + 67 * MINUTE:
            looked[0] = None  # started anew
            next_pass[0] = now + 3 * MINUTE
        world.clock.tick(MINUTE)
        world.run_due(world.clock.now())
    assert world.on_time(job) == [start + n * MINUTE for n in range(1, 121)]
    assert Run.objects.filter(scheduled_for__lte=start + 2 * HOUR).count() == 120


def ran_once(world: World, job: Job) -> list[datetime]:
    instants = world.instants(job)
    assert len(instants) == len(set(instants))
    return instants


def test_a_clock_that_goes_back_two_hours(world: World):
    job = make_job(world.clock.now())
    start = world.clock.now()
    make_trigger(job, start, cron_expression="*/10 * * * *")
    world.until(start + 3 * HOUR, 10 * MINUTE, reaps=False)
    world.step(-2 * HOUR)
    world.until(start + 4 * HOUR, 10 * MINUTE, reaps=False)
    world.reap()
    assert ran_once(world, job) == [start + 10 * n * MINUTE for n in range(1, 25)]


def test_a_clock_that_goes_five_hours_ahead_and_a_machine_that_sleeps_for_three(world: World):
    """Nobody noticed anything in between, so the server never missed its own heartbeat."""
    job = make_job(world.clock.now())
    start = world.clock.now()
    make_trigger(job, start, cron_expression="*/10 * * * *")
    world.until(start + HOUR, 10 * MINUTE, reaps=False)
    for jump in (5 * HOUR, 3 * HOUR):
        before, at = len(world.instants(job)), world.clock.now()
        world.clock.tick(jump + 3 * MINUTE)
        world.resume()
        world.plan()
        world.run_due(world.clock.now())
        assert world.instants(job)[before:] == [at + jump]
        world.until(at + jump + HOUR, 10 * MINUTE, reaps=False)
    ran_once(world, job)
    assert world.instants(job)[-1] == world.clock.now().replace(minute=0)


def test_the_year_2200_for_one_tick(world: World):
    job = make_job(world.clock.now())
    start = world.clock.now()
    make_trigger(job, start, cron_expression="*/10 * * * *")
    world.until(start + HOUR, 10 * MINUTE, reaps=False)
    there = datetime(2200, 1, 1, 0, 5, tzinfo=UTC)
    world.clock.set(there)
    world.resume()
    world.plan()
    world.clock.set(start + HOUR + 5 * SECOND)
    world.resume()
    world.until(start + 4 * HOUR, 20 * MINUTE)
    ran = ran_once(world, job)
    # What was planned then fell due in that tick, and was skipped; all else is as if it had never been.
    assert sorted(at for at in ran if at > start + 2 * HOUR) == [start + 10 * n * MINUTE for n in range(13, 25)]
    assert not QueueEntry.objects.filter(available_at__gt=there - DAY).exists()
    assert Trigger.objects.get().cursor_at < start + 6 * HOUR


def test_jobs_of_every_second_that_nobody_runs_grow_to_their_bounds(world: World, monkeypatch, settings):
    monkeypatch.setattr(caps, "MOST_PLANNED", 40)
    settings.CRONIQ_HORIZON_SECONDS = 30 * 86400
    start = world.clock.now()
    for n in range(2):
        job = make_job(start, f"demo:secondly-{n}", max_queue_depth=8, require=["nobody"])
        make_trigger(job, start, cron_expression="* * * * * *")
    other = make_job(start, "demo:other")
    make_trigger(other, start, every="30s")
    for _ in range(12):
        summary = world.step(15 * SECOND, runs=False)
        assert summary.is_done
        now = world.clock.now()
        for n in range(2):
            waiting = QueueEntry.objects.filter(job__job_key=f"demo:secondly-{n}")
            assert waiting.filter(available_at__gt=now).count() <= 40
            assert waiting.filter(available_at__lte=now).count() <= 8
        world.run_due(now)
    assert world.on_time(other) == [start + 30 * n * SECOND for n in range(1, 7)]


def test_rows_that_are_nonsense_among_a_hundred(world: World):
    start = world.clock.now()
    lane = JobFactory().lane
    jobs = [JobFactory(lane=lane) for _ in range(100)]
    triggers = [TriggerFactory(job=job, every=10 * MINUTE) for job in jobs]
    nowhere = CalendarFactory(timezone="Mars/Olympus")
    CalendarRuleFactory(calendar=nowhere, weekdays=[1])
    bad = {
        3: {"kind": "cron", "every": None, "anchor_at": None, "cron_expression": "* * * * *", "timezone": "Mars/Base"},
        41: {"kind": "cron", "every": None, "anchor_at": None, "cron_expression": "61 * * * *"},
        77: {"calendar": nowhere},
        99: {"every": timedelta(seconds=-5)},
    }
    for n, columns in bad.items():
        Trigger.objects.filter(pk=triggers[n].pk).update(**columns)
    world.plan()
    world.until(start + 20 * MINUTE, 10 * MINUTE, reaps=False)
    for n, job in enumerate(jobs):
        assert world.on_time(job) == ([] if n in bad else [start + 10 * MINUTE, start + 20 * MINUTE])
    broken = Trigger.objects.exclude(config_error="")
    assert {trigger.pk for trigger in broken} == {triggers[n].pk for n in bad}
    reasons = {n: Trigger.objects.get(pk=triggers[n].pk).config_error for n in bad}
    assert ["Mars/Base" in reasons[3], "61" in reasons[41], "Mars/Olympus" in reasons[77]] == [True] * 3
