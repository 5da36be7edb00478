"""What is planned ahead has bounds: a thousand runs of a trigger, and a share of a total for each."""

from __future__ import annotations

import pytest

from scheduler.models import Job, QueueEntry, Trigger
from scheduler.services import caps
from scheduler.services.materialize import materialize
from tests.factories import JobFactory, LaneFactory, TriggerFactory
from tests.scheduler.planning.support import make_job, make_trigger, planned
from tests.scheduler.planning.world import DAY, HOUR, SECOND, World

pytestmark = pytest.mark.django_db

THOUSAND = 1000
SHARE = 2
DEPTH = 3


@pytest.fixture(autouse=True)
def recount():
    caps.forget_count()
    yield
    caps.forget_count()


def secondly(number: int, lane, now) -> list[Job]:
    """Jobs of every second that no runner may have."""
    jobs = [JobFactory.build(job_key=f"demo:secondly-{n}", lane=lane, max_queue_depth=DEPTH) for n in range(number)]
    jobs = Job.objects.bulk_create(jobs)
    Trigger.objects.bulk_create(
        TriggerFactory.build(job=job, kind="cron", every=None, anchor_at=None, cron_expression="* * * * * *")
        for job in jobs
    )
    Trigger.objects.update(created_at=now, cursor_at=now, next_materialize_at=now)
    return jobs


def waiting_at(now) -> tuple[int, int, int, int]:
    """Most planned runs of a secondly job, all planned ones, most due ones of such a job, all entries."""
    ahead: dict[int, int] = {}
    due: dict[int, int] = {}
    for job_id, at in QueueEntry.objects.filter(job__job_key__startswith="demo:sec").values_list(
        "job_id", "available_at"
    ):
        side = ahead if at > now else due
        side[job_id] = side.get(job_id, 0) + 1
    total = QueueEntry.objects.filter(available_at__gt=now).count()
    return max(ahead.values(), default=0), total, max(due.values(), default=0), QueueEntry.objects.count()


def test_each_trigger_has_its_share_of_the_total_and_at_least_its_next_run(clock, settings):
    settings.CRONIQ_MAX_PLANNED = 10
    jobs = secondly(3, LaneFactory(require=["nobody"]), clock.now())
    sparse = make_job(clock.now(), "demo:sparse")
    assert caps.most_planned(clock.now()) == 3
    make_trigger(sparse, clock.now(), every="30m")
    assert materialize(clock.now()).is_done
    assert [planned(job) for job in jobs] == [[clock.now() + n * SECOND for n in (1, 2, 3)]] * 3
    assert len(planned(sparse)) == 2
    # Counted once a minute; the clock may go back.
    assert caps.most_planned(clock.now() + 59 * SECOND) == 3
    assert caps.most_planned(clock.now() + 60 * SECOND) == 2
    settings.CRONIQ_MAX_PLANNED = 2
    assert caps.most_planned(clock.now() + 30 * SECOND) == 1
    settings.CRONIQ_MAX_PLANNED = 5_000_000
    assert caps.most_planned(clock.now()) == caps.MOST_PLANNED == 1000


def test_the_share_is_of_those_that_are_planned_and_is_counted_again_when_the_clock_went_back(clock, settings):
    settings.CRONIQ_MAX_PLANNED = 12
    secondly(3, LaneFactory(require=["nobody"]), clock.now())
    TriggerFactory(enabled=False)
    TriggerFactory(next_materialize_at=None)
    assert caps.most_planned(clock.now()) == 4
    Trigger.objects.filter(enabled=True, next_materialize_at__isnull=False).first().delete()
    assert caps.most_planned(clock.now() + SECOND) == 4
    assert caps.most_planned(clock.now() - SECOND) == 6


@pytest.mark.parametrize("more", [{}, {"not_before": "2020-01-01T00:00:00Z"}], ids=["plain", "whole"])
def test_a_share_that_shrinks_takes_no_cursor_back(clock, settings, more):
    """What was planned is not walked over again, and nothing of it is made up for as if it had been missed."""
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="1s", **more)
    before = Trigger.objects.get().cursor_at
    assert before > clock.now() + 100 * SECOND
    settings.CRONIQ_MAX_PLANNED = 5
    Trigger.objects.update(next_materialize_at=clock.tick())
    assert materialize(clock.now()).inserted == 0
    assert Trigger.objects.get().cursor_at == before


def test_a_job_beside_many_that_nobody_runs_is_on_time(world: World, settings):
    settings.CRONIQ_HORIZON_SECONDS = 30 * 86400
    settings.CRONIQ_MAX_PLANNED = 6 * SHARE
    start = world.clock.now()
    world.plan()
    secondly(5, LaneFactory(require=["nobody"]), start)
    other = make_job(start, "demo:other")
    make_trigger(other, start, every="2s")
    caps.forget_count()
    for _ in range(5):
        world.step(2 * SECOND)
        most, total, due, _ = waiting_at(world.clock.now())
        assert (most <= SHARE, total <= 6 * SHARE, due <= DEPTH) == (True, True, True)
    assert world.on_time(other) == [start + 2 * n * SECOND for n in range(1, 6)]


@pytest.mark.realtime
@pytest.mark.timeout(600)
def test_a_thousand_jobs_of_every_second_that_nobody_runs_for_a_week_stay_within_their_bounds(world: World, settings):
    """The caps are small, for what is looked at is that they hold, and a row more or less costs the same at each size:
    with the default total each of the thousand would have a thousand runs ahead, and the test millions of rows. That
    what is due stays within the depth of the queue is the story of the few above."""
    settings.CRONIQ_HORIZON_SECONDS = 30 * 86400
    settings.CRONIQ_MAX_PLANNED = (THOUSAND + 1) * SHARE
    start = world.clock.now()
    world.plan()
    secondly(THOUSAND, LaneFactory(require=["nobody"]), start)
    other = make_job(start, "demo:other")
    make_trigger(other, start, every="2s")
    caps.forget_count()
    for _ in range(2):
        # Nobody plans for half a week; then everybody does, and a moment later all are on time again.
        world.step(84 * HOUR, reaps=False)
        world.ran.clear()
        world.step(SHARE * SECOND, reaps=False)
        assert world.on_time(other)[-1] == world.clock.now()
        most, total, _, entries = waiting_at(world.clock.now())
        assert most == SHARE
        assert total <= settings.CRONIQ_MAX_PLANNED
    assert world.clock.now() > start + 7 * DAY
    # What fell due, too, is no more than was planned, and the newest run of each downtime; the week has 604,800 fires.
    assert entries <= settings.CRONIQ_MAX_PLANNED + THOUSAND * 2 * (2 * SHARE + 1)
    assert not Trigger.objects.exclude(config_error="").exists()
