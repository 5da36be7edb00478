"""Whatever happens in whatever order: no budget is over its limit, no slot leaks, nothing waits for a free one."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from runners.services.audit import SYSTEM
from scheduler.domain.budgets import has_room
from scheduler.domain.work import AckStatus, LossCause
from scheduler.models import Job, QueueEntry, Slot
from scheduler.services.admit import admit, limits_of
from scheduler.services.cancel import cancel_runs
from scheduler.services.groups import save_group
from scheduler.services.jobs import save_job
from scheduler.services.release import reap_leases, release
from scheduler.services.trigger_runs import trigger_run
from scheduler.services.waiting import pass_over_unclaimed
from tests.factories import RunnerInstanceFactory
from tests.scheduler.budgets.world import SECOND, State, ack, claim, fire, group_of, limited_job
from tests.scheduler.planning.support import ACTOR

pytestmark = pytest.mark.django_db


class World:
    """Three jobs, two of a group, and all that can happen to their runs; time goes by."""

    def __init__(self, now, seed: int) -> None:
        self.now, self.random = now, Random(seed)
        self.group = group_of(2)
        rules = [
            {"max_concurrent": 1, "concurrency_group": self.group},
            {"max_concurrent": None, "concurrency_group": self.group, "overlap": "queue_one"},
            {"max_concurrent": 2},
        ]
        self.jobs = [limited_job(max_queue_depth=1000, retry_base_seconds=5, **rule) for rule in rules]
        self.holder = RunnerInstanceFactory()
        self.held: list = []
        self.over: dict[str, int] = {}
        """What was in use when a limit fell under it: that much may be used until it has come down."""

    def step(self) -> None:
        self.now += self.random.choice([0, 1, 3, 20]) * SECOND
        often = [self.insert, self.claim, self.ack]
        once = [self.plan, self.fail, self.cancel, self.lose, self.reap, self.limit, self.group_limit]
        event = self.random.choice([*often, *often, *once, self.pass_over, self.sweep])
        event()
        self.check(event.__name__)

    def insert(self) -> None:
        trigger_run(self.random.choice(self.jobs).job_key, self.now)

    def plan(self) -> None:
        fire(self.random.choice(self.jobs), self.now + self.random.randint(1, 30) * SECOND)

    def claim(self) -> None:
        self.held += claim(self.now, self.holder, self.random.randint(1, 3))

    def _one(self):
        return self.held.pop(self.random.randrange(len(self.held))) if self.held else None

    def ack(self, status: AckStatus = AckStatus.SUCCESS) -> None:
        one = self._one()
        if one is not None:
            ack(one, self.holder, self.now, status)

    def fail(self) -> None:
        self.ack(AckStatus.FAILURE)

    def lose(self) -> None:
        one = self._one()
        if one is not None:
            release([(one.run_id, one.attempt)], self.now, self.random.choice(list(LossCause)))

    def cancel(self) -> None:
        run_ids = list(QueueEntry.objects.order_by("pk").values_list("pk", flat=True))
        if run_ids:
            cancel_runs([self.random.choice(run_ids)], self.now, SYSTEM)

    def reap(self) -> None:
        reap_leases(self.now)

    def limit(self) -> None:
        job = self.random.choice(self.jobs)
        limit = self.random.choice([1, 2, 3, None])
        save_job({"job_key": job.job_key, "max_concurrent": limit}, self.now, ACTOR, partial=True)
        self._note_what_is_over()

    def group_limit(self) -> None:
        save_group(self.group.name, self.random.randint(1, 3), self.now, ACTOR, "default")
        self._note_what_is_over()

    def pass_over(self) -> None:
        pass_over_unclaimed(self.now)

    def sweep(self) -> None:
        admit(self.now)

    def _used(self) -> dict[str, set[int]]:
        used: dict[str, set[int]] = {}
        for name, n in Slot.objects.values_list("budget", "n"):
            used.setdefault(name, set()).add(n)
        return used

    def _limits(self):
        return [limits_of(job) for job in Job.objects.select_related("concurrency_group")]

    def _note_what_is_over(self) -> None:
        self.over = {name: len(numbers) for name, numbers in self._used().items()}

    def check(self, event: str) -> None:
        used = self._used()
        for limits in self._limits():
            for budget in limits.budgets:
                count = len(used.get(budget.name, ()))
                assert count <= max(budget.limit, self.over.get(budget.name, 0)), (event, budget, count)
                self.over[budget.name] = count if count > budget.limit else 0
        held_states = [State.READY, State.CLAIMED, State.STOPPING]
        assert not Slot.objects.exclude(run__entry__state__in=held_states).exists(), (event, "a slot leaked")
        for entry in QueueEntry.objects.filter(state__in=held_states).select_related("job__concurrency_group"):
            names = {budget.name for budget in limits_of(entry.job).budgets}
            assert set(Slot.objects.filter(run_id=entry.run_id).values_list("budget", flat=True)) == names, event

    def nothing_waits_for_a_free_slot(self) -> None:
        admit(self.now)
        used = self._used()
        waiting = QueueEntry.objects.filter(state=State.GATED, available_at__lte=self.now)
        for entry in waiting.select_related("job__concurrency_group"):
            assert not has_room(limits_of(entry.job).budgets, used)

    def run_dry(self) -> None:
        """Nothing new comes; all that waits runs in the end."""
        for _ in range(400):
            self.now += timedelta(seconds=30)
            reap_leases(self.now)
            admit(self.now)
            for one in claim(self.now, self.holder, 10):
                ack(one, self.holder, self.now)
            if not QueueEntry.objects.exists():
                return
        raise AssertionError(f"{QueueEntry.objects.count()} runs wait for ever")


@pytest.mark.parametrize("seed", range(8))
def test_any_sequence_of_events_keeps_the_budgets(now, seed):
    world = World(now, seed)
    for _ in range(70):
        world.step()
        if world.random.random() < 0.2:
            world.nothing_waits_for_a_free_slot()
    world.run_dry()
    assert not Slot.objects.exists()
