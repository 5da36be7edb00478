"""Everything stopped, and planned runs fell due meanwhile: the job's catch-up policy decides, once for all of them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from runners.models import Heartbeat
from runners.services.outages import note_outage
from scheduler.models import QueueEntry, Run, Slot
from scheduler.services import missed
from scheduler.services.admit import admit
from scheduler.services.claim import claim_due
from scheduler.services.materialize import materialize
from scheduler.services.missed import skip_missed
from scheduler.services.pause import pause_job
from scheduler.services.replan import lock_job
from scheduler.services.trigger_runs import trigger_run
from tests.factories import HeartbeatFactory, RunFactory, RunnerInstanceFactory, TriggerFactory
from tests.scheduler.planning.support import make_job, make_trigger, planned
from tests.support.races import Session

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
FIVE = 5 * MINUTE


def evening(now: datetime) -> datetime:
    return now.replace(hour=20, minute=0)


def stopped(now: datetime, **fields) -> tuple:
    """A 5-minute job, planned an hour ahead, when everything stops at 20:00."""
    stop = evening(now)
    job = make_job(stop - MINUTE, **fields)
    make_trigger(job, stop - MINUTE, cron_expression="*/5 * * * *")
    materialize(stop)
    QueueEntry.objects.filter(available_at__lte=stop).delete()
    Run.objects.filter(scheduled_for__lte=stop, entry__isnull=True).update(
        verdict="completed", finished_at=stop, attempt=1
    )
    HeartbeatFactory(kind="serve", beat_at=stop)
    return job, stop


def due(job, at: datetime) -> list[datetime]:
    return [instant for instant in planned(job) if instant <= at]


@pytest.mark.parametrize("first", ["materializer", "server"])
@pytest.mark.parametrize(
    ("fields", "minutes"),
    [
        ({}, [0]),
        ({"catch_up": "latest"}, [0]),
        ({"catch_up": "none"}, []),
        ({"catch_up": "all", "max_catch_up": 3}, [-10, -5, 0]),
        ({"catch_up": "all", "max_catch_up": 3, "misfire_grace": 500}, [-5, 0]),
    ],
)
def test_everything_stopped_from_eight_in_the_evening_to_two_past_eight(now, first, fields, minutes):
    job, stop = stopped(now, **fields)
    before = planned(job)
    assert (before[0], before[-1]) == (stop + FIVE, stop + 55 * MINUTE)
    back = stop + timedelta(hours=12, minutes=2)
    steps = [lambda: skip_missed(back), lambda: materialize(back)]
    for step in steps if first == "server" else steps[::-1]:
        step()
    for _ in range(2):  # and again, as every reaper does
        skip_missed(back + timedelta(seconds=5))
    eight = stop + timedelta(hours=12)
    assert due(job, back) == [eight + offset * MINUTE for offset in minutes]
    assert planned(job)[len(minutes)] == eight + FIVE
    skipped = Run.objects.filter(job=job, verdict="skipped")
    assert set(skipped.values_list("reason", flat=True)) == {"downtime"}
    assert sorted(skipped.values_list("scheduled_for", flat=True)) == before


@pytest.mark.parametrize(
    ("fields", "kept"),
    [({}, [30]), ({"catch_up": "none"}, []), ({"catch_up": "all", "max_catch_up": 4}, [15, 20, 25, 30])],
)
def test_an_outage_shorter_than_what_was_planned(now, fields, kept):
    job, stop = stopped(now, **fields)
    back = stop + 32 * MINUTE
    assert skip_missed(back) == 6 - len(kept)
    assert due(job, back) == [stop + minutes * MINUTE for minutes in kept]
    assert skip_missed(back + MINUTE) == 0


def test_what_is_late_by_less_than_a_minute_is_merely_late(now):
    job, stop = stopped(now)
    make_trigger(job, stop, cron_expression="* * * * * *")
    materialize(stop)
    assert skip_missed(stop + timedelta(seconds=60)) == 0
    assert skip_missed(stop + timedelta(seconds=62)) == 61
    assert due(job, stop + timedelta(seconds=62)) == [stop + timedelta(seconds=62)]


def test_runs_that_waited_before_it_began_or_that_no_runner_took_after_it_are_not_missed(now):
    job, stop = stopped(now)
    make_trigger(job, stop, cron_expression="2-59/5 * * * *")
    materialize(stop)
    Heartbeat.objects.update(beat_at=stop + 6 * MINUTE)  # the one of 20:05 waited by then
    back = stop + 19 * MINUTE
    note_outage(back)
    Heartbeat.objects.update(beat_at=back + FIVE)
    assert skip_missed(back + FIVE) == 4
    assert due(job, back + FIVE) == [stop + minutes * MINUTE for minutes in (2, 5, 17, 20, 22)]


def test_held_runs_of_a_paused_job_and_tried_ones_are_left_alone(now):
    paused, stop = stopped(now)
    pause_job(paused.job_key, stop)
    tried = make_job(stop, "demo:tried")
    make_trigger(tried, stop, cron_expression="*/5 * * * *")
    QueueEntry.objects.filter(job=tried).update(attempt=1)
    back = stop + 32 * MINUTE
    assert skip_missed(back) == 0
    assert (len(due(paused, back)), len(due(tried, back))) == (6, 6)


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_comes_first_wins(now, database):
    job, stop = stopped(now)
    back = stop + 32 * MINUTE
    with Session() as claimer:
        if database == "postgresql":
            claimer.begin()
            mine = claimer.run(
                lambda: QueueEntry.objects.select_for_update().filter(job=job).order_by("available_at").first().pk
            )
            assert skip_missed(back) == 4
            claimer.commit()
        else:
            # One writer: the claim is there before, or it finds nothing.
            mine = claimer.run(lambda: QueueEntry.objects.filter(job=job).order_by("available_at").first().pk)
            claimer.run(lambda: QueueEntry.objects.filter(pk=mine).update(attempt=1))
            assert skip_missed(back) == 4
    assert QueueEntry.objects.filter(pk=mine).exists()
    assert Run.objects.filter(job=job, verdict="skipped").count() == 4


def test_what_somebody_asked_for_while_nobody_served_runs(now):
    """A page and a command trigger runs without a server; no catch-up policy is about them."""
    job, stop = stopped(now, catch_up="none")
    asked = trigger_run(job.job_key, stop + 10 * MINUTE).run_id
    back = stop + 32 * MINUTE
    skip_missed(back)
    assert list(QueueEntry.objects.filter(available_at__lte=back).values_list("run_id", flat=True)) == [asked]


def test_a_limited_job_keeps_what_its_policy_wants_and_the_slot_goes_to_that(now):
    job, stop = stopped(now, max_concurrent=1)
    admit(stop + 20 * MINUTE)  # a reaper went on
    assert QueueEntry.objects.get(state=QueueEntry.State.READY).available_at == stop + FIVE
    back = stop + 32 * MINUTE
    assert skip_missed(back) == 5
    assert due(job, back) == [stop + 30 * MINUTE]
    slot = Slot.objects.get()
    entry = QueueEntry.objects.get(state=QueueEntry.State.READY)
    assert (entry.available_at, entry.run_id) == (stop + 30 * MINUTE, slot.run_id)


def test_a_claim_that_comes_after_the_look_keeps_its_run_and_its_slot(now, monkeypatch):
    _, stop = stopped(now, max_concurrent=1)
    admit(stop + 20 * MINUTE)
    claimed = QueueEntry.objects.get(state=QueueEntry.State.READY)

    def after_the_look(job_id):
        holder = RunnerInstanceFactory()
        assert [one.run_id for one in claim_due(back, 1, holder.pk, [claimed.lane_id])] == [claimed.run_id]
        return lock_job(job_id)

    back = stop + 32 * MINUTE
    monkeypatch.setattr(missed, "lock_job", after_the_look)
    assert skip_missed(back) == 4
    assert QueueEntry.objects.get(run_id=claimed.run_id).state == QueueEntry.State.CLAIMED
    assert Slot.objects.get().run_id == claimed.run_id


@pytest.mark.parametrize("how", ["disabled", "broken", "skipped"])
def test_no_run_gives_way_to_a_newer_fire_that_does_not_come(now, how):
    job, stop = stopped(now)
    back = stop + 32 * MINUTE
    if how == "skipped":
        at = stop + 31 * MINUTE
        RunFactory(
            job=job,
            scheduled_for=at,
            created_at=back,
            verdict="skipped",
            problem="skipped",
            finished_at=back,
            attempt=0,
        )
    else:
        off = {"enabled": False} if how == "disabled" else {"config_error": "nonsense"}
        TriggerFactory(job=job, cursor_at=stop, next_materialize_at=None, **off)
    assert skip_missed(back) == 5
    assert due(job, back) == [stop + 30 * MINUTE]
