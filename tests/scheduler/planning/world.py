"""A small installation under a clock that moves only when told: materializers, a reaper, a server and a runner."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from croniq_site.kernel.clock import ManualClock
from runners.models import Heartbeat
from scheduler.domain.work import Ack, AckAnswer, AckStatus, Claimed
from scheduler.models import Job, Lane, Run
from scheduler.services import caps
from scheduler.services import materialize as passes
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.materialize import MaterializeSummary, next_due_at
from scheduler.services.missed import skip_missed
from scheduler.services.rules import forget_rules
from scheduler.workers import materializer, reaper
from tests.factories import HeartbeatFactory, RunnerInstanceFactory

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class World:
    """`step` lets time pass and then everybody have a turn; ``ran`` is what the runner did, as (instant, when)."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.holder = RunnerInstanceFactory()
        self.ran: dict[int, list[tuple[datetime, datetime]]] = {}
        self.offers: list[str] = []
        self.serve = HeartbeatFactory(beat_at=clock.now())

    def step(self, by: timedelta = MINUTE, *, reaps: bool = True, runs: bool = True) -> MaterializeSummary:
        now = self.clock.tick(by)
        self.beat()
        summary = self.plan()
        if reaps:
            self.reap()
        if runs:
            self.run_due(now)
        return summary

    def until(self, end: datetime, by: timedelta = MINUTE, **who: bool) -> None:
        while self.clock.now() < end:
            self.step(min(by, end - self.clock.now()), **who)

    def sleep_until(self, end: datetime, longest: timedelta = 6 * HOUR) -> None:
        """As `until`, but as the processes sleep: to the next moment at which something is due, or that a run is."""
        while self.clock.now() < end:
            now = self.clock.now()
            due = [next_due_at(), Run.objects.filter(entry__available_at__gt=now).order_by("scheduled_for").first()]
            instants = [due[0], due[1] and due[1].scheduled_for, now + longest, end]
            self.step(min(at for at in instants if at is not None and at > now) - now, reaps=False)

    def beat(self) -> None:
        Heartbeat.objects.filter(pk=self.serve.pk).update(beat_at=self.clock.now())

    def plan(self) -> MaterializeSummary:
        """Passes until all that is due is done; never more than a few, for each is bounded by what it plans."""
        for _ in range(20):
            summary = materializer.run_once(self.clock.now())
            if summary.is_done:
                assert materializer.pause_seconds(summary, self.clock.now(), 5.0) >= 0.25
                return summary
        raise AssertionError("the materializer does not come to rest")

    def reap(self) -> None:
        assert self.reap_pass().failed == ()

    def reap_pass(self) -> reaper.ReapPass:
        return reaper.run_once(self.clock.now())

    def restart(self) -> None:
        """All processes are new: what one of them remembered is gone."""
        passes._looked_at = None
        caps.forget_count()
        forget_rules()

    def resume(self) -> None:
        """The server is back after a time in which nothing was there."""
        skip_missed(self.clock.now())
        self.beat()

    def claim(self) -> list[Claimed]:
        lanes = list(Lane.objects.filter(require=self.offers).values_list("pk", flat=True))
        return list(claim_due(self.clock.now(), 500, self.holder.pk, lanes))

    def ack(self, claimed: Claimed) -> AckAnswer:
        runner_id = self.holder.runner.runner_id
        return finish([Ack(claimed.run_id, claimed.attempt, runner_id, AckStatus.SUCCESS)], self.clock.now())[0]

    def run_due(self, now: datetime) -> None:
        claims = self.claim()
        runner_id = self.holder.runner.runner_id
        acks = [Ack(run.run_id, run.attempt, runner_id, AckStatus.SUCCESS) for run in claims]
        assert set(finish(acks, now)) <= {AckAnswer.ACCEPTED}
        for run in claims:
            self.ran.setdefault(run.job_id, []).append((run.scheduled_for, now))

    def instants(self, job: Job) -> list[datetime]:
        return [at for at, _ in self.ran.get(job.pk, [])]

    def on_time(self, job: Job) -> list[datetime]:
        """The instants of the job's runs, each begun at its very instant and only once."""
        for at, began in self.ran.get(job.pk, []):
            assert began == at, f"{at} began at {began}"
        assert [n for n in Counter(self.instants(job)).values() if n > 1] == []
        return self.instants(job)
