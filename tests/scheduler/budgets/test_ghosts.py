"""CC-02: runners that claim and are never heard of again, restarts and edits of the limit, fifty rounds of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from runners.models import RunnerInstance
from scheduler.domain.polls import PollRequest
from scheduler.domain.work import Ack, AckAnswer, AckStatus, Claimed
from scheduler.models import Job, QueueEntry, Run, Slot
from scheduler.services.admit import admit
from scheduler.services.finish import finish
from scheduler.services.jobs import save_job
from scheduler.services.poll import open_poll
from scheduler.services.release import reap_leases
from tests.factories import ApiClientFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.budgets.world import SECOND, State, claim, limited_job, running
from tests.scheduler.planning.support import ACTOR, principal

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]

ROUNDS = 50
LIMITS = {0: 2, 20: 1, 28: 3, 36: None, 40: 2}
"""From which round on the job is limited to how many."""


class Ghosts:
    """Two runners, each of which claims a run and dies; and one that does its work."""

    def __init__(self, job: Job, now: datetime) -> None:
        self.job, self.now = job, now
        self.client = ApiClientFactory()
        self.limit: int | None = 2

    def process(self, runner_id: str, instance_id: str) -> RunnerInstance:
        """The first poll of a process; if the runner was another one before, it is deposed."""
        request = PollRequest(runner_id, instance_id)
        opened = open_poll(request, principal("work:poll", client=self.client), self.now)
        return RunnerInstance.objects.select_related("runner").get(pk=opened.holder_id)

    def claim(self, holder: RunnerInstance, most: int) -> list[Claimed]:
        before = running()
        claimed = claim(self.now, holder, most)
        if self.limit is not None:
            assert running() <= max(self.limit, before), "more began than the limit in force allows"
            assert Slot.objects.count() <= max(self.limit, before)
        return claimed

    def finish(self, holder: RunnerInstance, held: list[Claimed]) -> int:
        acks = [Ack(one.run_id, one.attempt, holder.runner.runner_id, AckStatus.SUCCESS) for one in held]
        assert finish(acks, self.now) == [AckAnswer.ACCEPTED] * len(acks)
        return len(acks)


def test_two_ghosts_for_fifty_rounds_with_restarts_and_edits_of_the_limit(now):
    job = limited_job(max_concurrent=2, max_losses=1000, max_queue_depth=1000)
    world = Ghosts(job, now)
    worker = world.process("worker", "w")
    done = 0
    for number in range(ROUNDS):
        if number in LIMITS:
            world.limit = LIMITS[number]
            save_job({"job_key": job.job_key, "max_concurrent": world.limit}, world.now, ACTOR, partial=True)
        for _ in range(3):
            QueueEntryFactory(
                job=job,
                state=State.GATED if world.limit else State.READY,
                available_at=world.now,
                waits_since=world.now,
            )
        admit(world.now)
        are_back = number % 3 == 0
        ghosts = [
            world.process(f"ghost-{place}", f"{number}") if are_back else RunnerInstanceFactory() for place in range(2)
        ]
        taken = [one for ghost in ghosts for one in world.claim(ghost, 1)]
        assert len(taken) == min(2, world.limit or 2)
        if world.limit is not None and world.limit <= 2:
            assert world.claim(worker, 5) == [], "the ghosts have all there is"
        world.now += SECOND
        if are_back:
            # They are back at once under their names: what they had is free in that moment.
            for place in range(2):
                world.process(f"ghost-{place}", f"{number} again")
            assert running() == 0
        else:
            # In the midst of it the limit is edited to what it is and to another one and back: no slot is lost by it.
            for limit in (1, 3, world.limit) if number % 9 == 1 else ():
                save_job({"job_key": job.job_key, "max_concurrent": limit}, world.now, ACTOR, partial=True)
                assert Slot.objects.filter(run__entry__state=State.CLAIMED).count() == (len(taken) if limit else 0)
            world.now += timedelta(seconds=60)
            reap_leases(world.now)
            assert running() == 0
        held = world.claim(worker, 100)
        assert len(held) == min(world.limit or 100, QueueEntry.objects.count())
        done += world.finish(worker, held)
    while QueueEntry.objects.exists():
        held = world.claim(worker, 100)
        assert 0 < len(held) <= world.limit
        done += world.finish(worker, held)
    assert done == Run.objects.filter(verdict="completed").count() == 3 * ROUNDS
    assert not Slot.objects.exists()
