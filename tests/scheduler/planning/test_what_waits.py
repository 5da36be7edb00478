"""What runs that wait go on with, and who is planned first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import QueueEntry, Trigger
from scheduler.services.jobs import save_job
from scheduler.services.materialize import materialize
from scheduler.services.missed import skip_missed
from scheduler.services.trigger_runs import trigger_run
from tests.factories import HeartbeatFactory
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger, planned

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def test_who_prefers_a_runner_for_one_run_still_requires_what_the_job_requires(now):
    make_job(now, require=["eu"])
    trigger_run("demo:job", now, prefer=["ssd"])
    lane = QueueEntry.objects.select_related("lane").get().lane
    assert (lane.require, lane.prefer) == (["eu"], ["ssd"])


def test_a_run_that_was_tried_goes_on_with_the_attempts_that_it_began_with(now):
    make_job(now, max_retries=5, max_losses=4)
    fresh, tried = (trigger_run("demo:job", now).run_id for _ in range(2))
    # Three attempts, one of them lost: the loss has raised the cap.
    QueueEntry.objects.filter(run_id=tried).update(attempt=3, max_attempts=7, losses=1)
    save_job({"job_key": "demo:job", "max_retries": 1, "max_losses": 0}, now, ACTOR, partial=True)
    numbers = {run: rest for run, *rest in QueueEntry.objects.values_list("run_id", "max_attempts", "max_losses")}
    assert numbers == {fresh: [2, 0], tried: [7, 4]}


def test_the_trigger_that_waits_longest_to_be_planned_is_planned_first(clock):
    jobs = [make_job(clock.now(), f"demo:{n}") for n in range(3)]
    waits = {1: 30, 2: 20, 0: 10}  # minutes; in another order than that of the ids
    for n, minutes in waits.items():
        make_trigger(jobs[n], clock.now(), every="1h")
        QueueEntry.objects.all().delete()
        Trigger.objects.filter(job=jobs[n]).update(next_materialize_at=clock.now() + timedelta(minutes=60 - minutes))
    clock.tick(HOUR)
    for done in ([1], [1, 2], [1, 2, 0]):
        materialize(clock.now(), limit=1)
        waiting = set(Trigger.objects.filter(next_materialize_at__lte=clock.now()).values_list("job_id", flat=True))
        assert waiting == {job.pk for n, job in enumerate(jobs) if n not in done}


def test_what_was_kept_after_an_outage_waits_for_its_runner_however_long_that_takes(now):
    job = make_job(now, "demo:kept", misfire_grace=3600)
    make_trigger(job, now, every="20m")
    HeartbeatFactory(kind="serve", beat_at=now)
    back = now + 45 * MINUTE
    assert skip_missed(back) == 1
    kept = planned(job)[0]
    assert kept == now + 40 * MINUTE
    HeartbeatFactory(kind="serve", beat_at=back + 3 * HOUR)
    assert skip_missed(back + 3 * HOUR) == 0
    assert planned(job)[0] == kept
