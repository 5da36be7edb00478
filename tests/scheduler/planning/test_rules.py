"""The rules of a zone change under planned runs: a new process plans by new rules what the old one planned."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from calendars.domain import openings, zones
from runners.models import AuditEvent
from scheduler.domain import window
from scheduler.models import Run
from scheduler.services import rules
from tests.scheduler.planning.support import ids, make_job, make_trigger, planned
from tests.scheduler.planning.world import HOUR, MINUTE, World
from tests.support.collector import recorded_spans

pytestmark = pytest.mark.django_db

EIGHT = datetime(2026, 3, 3, 8, tzinfo=UTC)
"""Nine o'clock of Vienna, by the rules that are true."""


@pytest.fixture
def new_rules(monkeypatch, world: World):
    """Start everything anew with Vienna's clock as that of another place."""
    real = zones._load

    def start(place: str) -> None:
        def load(name: str) -> zones.Zone:
            return zones.Zone(name, ZoneInfo(place)) if name == "Europe/Vienna" else real(name)

        monkeypatch.setattr(zones, "_load", load)
        monkeypatch.setattr(rules, "rule_versions", lambda: {"tzdata": place, "holidays": "1"})
        window._remembered.cache_clear()
        openings.openings_of.cache_clear()
        world.restart()

    yield start
    monkeypatch.undo()
    window._remembered.cache_clear()
    openings.openings_of.cache_clear()
    rules.forget_rules()


@pytest.fixture
def nine(world: World, settings):
    """A job at nine and ten o'clock of Vienna, planned and followed by the true rules, at 06:30 UTC."""
    settings.CRONIQ_HORIZON_SECONDS = 4 * 3600
    world.clock.set(EIGHT - 90 * MINUTE)
    job = make_job(world.clock.now())
    make_trigger(job, world.clock.now(), cron_expression="0 9,10 * * *", timezone="Europe/Vienna")
    world.plan()
    assert planned(job) == [EIGHT, EIGHT + HOUR]
    return job


@pytest.mark.parametrize(("place", "hours"), [("Europe/Helsinki", -1), ("Europe/London", 1)])
def test_unclaimed_runs_move_with_the_wall_clock(world: World, nine, new_rules, place, hours):
    new_rules(place)
    world.step(MINUTE)
    assert planned(nine) == [EIGHT + (hours + n) * HOUR for n in (0, 1)]
    world.until(EIGHT + 3 * HOUR, 10 * MINUTE - MINUTE, reaps=False)
    assert sorted(world.instants(nine)) == [EIGHT + (hours + n) * HOUR for n in (0, 1)]
    assert not Run.objects.filter(verdict="skipped").exists()


def test_a_run_that_would_be_past_by_the_new_rules_is_not_lost(
    world: World, nine, new_rules, django_capture_on_commit_callbacks
):
    world.until(EIGHT - 30 * MINUTE, 30 * MINUTE, reaps=False)
    new_rules("Europe/Helsinki")
    with recorded_spans() as spans, django_capture_on_commit_callbacks(execute=True):
        world.step(MINUTE)
    planned_for = {span.attributes["croniq.scheduled_for"] for span in spans.named("croniq.plan")}
    assert (EIGHT - HOUR).isoformat() in planned_for
    assert world.ran[nine.pk] == [(EIGHT - HOUR, world.clock.now())]
    world.until(EIGHT + 3 * HOUR, MINUTE + HOUR, reaps=False)
    assert world.instants(nine) == [EIGHT - HOUR, EIGHT]


def test_a_run_that_was_begun_by_the_old_rules_is_not_begun_again(world: World, nine, new_rules):
    world.until(EIGHT, 30 * MINUTE, reaps=False)
    assert world.on_time(nine) == [EIGHT]
    new_rules("Europe/London")
    world.step(30 * MINUTE, reaps=False)
    world.until(EIGHT + 4 * HOUR, 30 * MINUTE, reaps=False)
    # By London's clock the first is at 09:00 UTC, which has run at 08:00; the second is at 10:00.
    assert world.on_time(nine) == [EIGHT, EIGHT + 2 * HOUR]
    skipped = Run.objects.get(verdict="skipped")
    assert (skipped.scheduled_for, skipped.reason) == (EIGHT + HOUR, "rules_changed")


def test_the_same_rules_are_followed_once_and_change_nothing(world: World, nine, monkeypatch):
    before = ids(nine)
    events = AuditEvent.objects.filter(action=rules.FOLLOWED)
    assert events.count() == 1
    monkeypatch.setattr(rules, "_follow", lambda job, now: pytest.fail("planned again for nothing"))
    world.restart()
    world.step(MINUTE)
    assert (ids(nine), events.count()) == (before, 1)


def test_many_jobs_are_planned_again_a_few_a_pass(world: World, new_rules, monkeypatch):
    monkeypatch.setattr(rules, "JOBS_A_PASS", 2)
    world.clock.set(EIGHT - 30 * MINUTE)
    jobs = [make_job(world.clock.now(), f"demo:{n}") for n in range(5)]
    for job in jobs:
        make_trigger(job, world.clock.now(), cron_expression="0 9 * * *", timezone="Europe/Vienna")
    world.plan()
    new_rules("Europe/London")
    done = [rules.follow_rules(world.clock.now()) for _ in range(4)]
    assert done == [False, False, True, True]
    assert [planned(job) for job in jobs] == [[]] * 5
    world.until(EIGHT + 2 * HOUR, 30 * MINUTE, reaps=False)
    assert [world.on_time(job) for job in jobs] == [[EIGHT + HOUR]] * 5


def at(*times: str) -> list[datetime]:
    return [datetime.fromisoformat(f"2026-03-03T{time}:00Z") for time in times]


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("08:00 09:00", "09:00 10:00", "08:00-09:00 09:00-10:00"),
        ("08:00 09:00 12:30", "08:00 09:00 13:30", "12:30-13:30"),
        ("08:00 08:20 08:40", "09:00 09:20 09:40", "08:00-09:00 08:20-09:20 08:40-09:40"),
        ("08:00", "08:00 09:00", ""),
        ("08:00", "", ""),
        ("08:00", "11:01", ""),
    ],
)
def test_which_instant_moved_where(old, new, moved):
    pairs = rules.moved_instants(at(*old.split()), at(*new.split()))
    assert " ".join(f"{was:%H:%M}-{to:%H:%M}" for was, to in pairs) == moved
