"""The past and the present of an installation that `seed_demo` makes up."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from croniq_site.kernel.database import chunks, write_transaction
from croniq_site.kernel.ids import uuid7, uuid7_of
from runners.domain.scopes import RUNNER_SCOPES
from runners.models import Runner, RunnerInstance
from runners.services.clients import create_client
from scheduler.domain.fingerprints import fingerprint_of
from scheduler.domain.occurrences import to_micro
from scheduler.models import Attempt, DeadLetter, Job, QueueEntry, Run, RunLog, SkippedSpan, Slot
from scheduler.queries.fires import trigger_fires
from scheduler.services.admit import limits_of
from scheduler.services.planning import most_attempts

if TYPE_CHECKING:
    from scheduler.services.seed import SeedJob

DAY = timedelta(days=1)
MOST_DAYS = 399
RUNNERS = 8
LETTERS_KEPT = timedelta(days=30)
LIVE_LEASE = timedelta(hours=1)
"""Nobody renews what is made up: it is to be looked at for a while."""

_SKIPS = ("downtime", "downtime", "queue_full", "overlap", "paused")
_ERRORS = (
    "ConnectionError: host db-{n}.internal:5432 refused the connection after {m} ms",
    "exit code {n}",
    "TimeoutError: GET https://partner.example/orders/{m}?page={n} took longer than 30 s",
    "Traceback (most recent call last)\n  File \"/srv/app/jobs/load.py\", line {n}, in run\nKeyError: 'customer_{m}'",
    "disk full: /var/lib/export/part-{m}.parquet",
    "ValueError: row {m} of 018f4e9c-8a1b-7c3d-9e2f-{m:012d} has no amount",
)


@dataclass
class _Rows:
    runs: list[Run] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    lines: list[RunLog] = field(default_factory=list)


def make_history(made: Sequence[SeedJob], number: int, now: datetime, pick: random.Random) -> tuple[int, int]:
    """Make the ``number`` newest runs that the jobs' schedules would have given; return how many, and how many letters
    of them. At most 500 runs a transaction."""
    runs = letters = 0
    for some in chunks(list(_newest_fires(made, number, now))):
        rows = _Rows()
        for item, at in some:
            _add_run(rows, item, at, now, pick)
        with write_transaction():
            Run.objects.bulk_create(rows.runs)
            Attempt.objects.bulk_create(rows.attempts)
            DeadLetter.objects.bulk_create(rows.letters)
            RunLog.objects.bulk_create(rows.lines)
        runs += len(rows.runs)
        letters += len(rows.letters)
    for item in made[3::11]:
        first_at = now - timedelta(hours=pick.randrange(4, 60))
        SkippedSpan.objects.create(
            job=item.job,
            first_at=first_at,
            last_at=first_at + timedelta(hours=2),
            count=pick.randrange(2, 30),
            reason="downtime",
            recorded_at=first_at + timedelta(hours=3),
        )
    return runs, letters


def make_present(made: Sequence[SeedJob], now: datetime, pick: random.Random) -> int:
    """Let some jobs run, and of those with limits let more wait than may run; return how many runs that are."""
    client = create_client("seed-runners", RUNNER_SCOPES, now)
    instances = []
    for number in range(RUNNERS):
        capabilities = ["croniq:command", *(["eu"] if number % 2 else []), *(["sql"] if number % 3 == 0 else [])]
        runner = Runner.objects.create(
            runner_id=f"runner-{number + 1}",
            client=client,
            capabilities=capabilities,
            max_inflight=8,
            created_at=now - DAY,
            last_poll_at=now - timedelta(seconds=90 if number == RUNNERS - 1 else 1),
        )
        instances.append(
            RunnerInstance.objects.create(
                runner=runner, instance_id="seed", first_seen_at=now - DAY, last_poll_at=runner.last_poll_at
            )
        )
    used: dict[str, int] = {}
    live = 0
    with write_transaction():
        for item in made:
            budgets = limits_of(item.job).budgets
            wanted = 3 if budgets else int(pick.random() < 0.1)
            for place in range(wanted):
                is_let_in = all(used.get(budget.name, 0) < budget.limit for budget in budgets)
                began = now - timedelta(seconds=30 + 60 * place + pick.randrange(20))
                run = _live_run(item.job, began, pick.choice(instances) if is_let_in else None, now)
                live += 1
                for budget in budgets if is_let_in else ():
                    n = used.get(budget.name, 0)
                    Slot.objects.create(budget=budget.name, n=n, run=run, admitted_at=began)
                    used[budget.name] = n + 1
            if live > 60:
                break
    return live


def _newest_fires(made: Sequence[SeedJob], number: int, now: datetime) -> Iterator[tuple[SeedJob, datetime]]:
    """The newest fires of all jobs together, day by day backwards."""
    left = number
    for days in range(MOST_DAYS):
        if left <= 0:
            return
        since, until = now - (days + 1) * DAY, now - days * DAY - timedelta(minutes=5 if days == 0 else 0)
        found = [(item, fire.at) for item in made for fire in trigger_fires(item.trigger, after=since, until=until)]
        found.sort(key=lambda pair: pair[1], reverse=True)
        yield from found[:left]
        left -= len(found)


def _add_run(rows: _Rows, item: SeedJob, at: datetime, now: datetime, pick: random.Random) -> None:
    job = item.job
    run = Run(
        id=UUID(uuid7_of(to_micro(at), job.pk)),
        job=job,
        kind=Run.Kind.SCHEDULED,
        scheduled_for=at,
        occurrence_at=at,
        created_at=at - timedelta(minutes=30),
    )
    rows.runs.append(run)
    chance = pick.random()
    if chance < 0.004:
        run.verdict = run.problem = Run.Verdict.SKIPPED
        run.reason, run.finished_at = pick.choice(_SKIPS), at
        return
    run.runner_id = f"runner-{pick.randrange(RUNNERS) + 1}"
    run.claimed_at = at + timedelta(seconds=pick.expovariate(1 / 2) + (60 * pick.random() if chance > 0.97 else 0))
    seconds = item.seconds * pick.lognormvariate(0, 0.35)
    run.finished_at = min(run.claimed_at + timedelta(seconds=seconds), now)
    run.claimed_at = min(run.claimed_at, run.finished_at)
    run.duration_ms = (run.finished_at - run.claimed_at) // timedelta(milliseconds=1)
    run.attempt, run.verdict = 1, Run.Verdict.COMPLETED
    if pick.random() < item.dies:
        _let_die(rows, run, job, now, pick)
    elif chance > 0.995:
        run.attempt = 2
        _add_attempt(rows, run, 1, pick)
    if chance > 0.98:
        rows.lines += [
            RunLog(run=run, attempt=run.attempt, logged_at=run.claimed_at, level="info", message=f"step {n} of 3")
            for n in (1, 2, 3)
        ]


def _let_die(rows: _Rows, run: Run, job: Job, now: datetime, pick: random.Random) -> None:
    assert run.finished_at is not None  # noqa: S101 - a run that ended
    run.verdict = run.problem = Run.Verdict.DEAD
    run.error, run.reason = _error(job, pick), "retries_exhausted"
    run.attempt = most_attempts(job)
    for attempt in range(1, run.attempt):
        _add_attempt(rows, run, attempt, pick)
    if now - run.finished_at < LETTERS_KEPT:
        rows.letters.append(
            DeadLetter(
                id=uuid7(run.finished_at),
                run=run,
                job=job,
                error=run.error,
                attempt=run.attempt,
                dead_reason=run.reason,
                scheduled_for=run.scheduled_for,
                fire_at=run.scheduled_for,
                metadata={"region": "eu"},
                created_at=run.finished_at,
                expires_at=run.finished_at + LETTERS_KEPT,
                fingerprint=fingerprint_of(run.error, run.reason),
            )
        )


def _error(job: Job, pick: random.Random) -> str:
    """A job mostly dies of one thing."""
    template = _ERRORS[job.pk % len(_ERRORS)] if pick.random() < 0.8 else pick.choice(_ERRORS)
    return template.format(n=pick.randrange(1, 9), m=pick.randrange(10_000))


def _add_attempt(rows: _Rows, run: Run, attempt: int, pick: random.Random) -> None:
    """An attempt before the last: between them they take the time from the run's instant to its last claim."""
    assert run.claimed_at is not None  # noqa: S101 - a run that was claimed
    share = (run.claimed_at - run.scheduled_for) / run.attempt
    began = run.scheduled_for + share * (attempt - 0.5)
    values: dict[str, Any] = {"outcome": Attempt.Outcome.FAILED, "error": "exit code 1"}
    if pick.random() < 0.1:
        values = {"outcome": Attempt.Outcome.LOST, "cause": "lease"}
    rows.attempts.append(
        Attempt(
            run=run, attempt=attempt, runner_id=run.runner_id, claimed_at=began, ended_at=began + share * 0.5, **values
        )
    )


def _live_run(job: Job, began: datetime, holder: RunnerInstance | None, now: datetime) -> Run:
    """A run that was triggered at ``began``: claimed by ``holder``, or, without one, waiting for its slots."""
    run = Run.objects.create(
        id=uuid7(began),
        job=job,
        kind=Run.Kind.TRIGGERED,
        scheduled_for=began,
        occurrence_at=began,
        created_at=began,
    )
    claim = {
        "state": QueueEntry.State.CLAIMED,
        "attempt": 1,
        "holder": holder,
        "claimed_at": began + timedelta(seconds=1),
        "lease_expires_at": now + LIVE_LEASE,
        "deadline_at": now + 2 * LIVE_LEASE,
    }
    QueueEntry.objects.create(
        run=run,
        job=job,
        lane_id=job.lane_id,
        available_at=began,
        waits_since=began,
        max_attempts=most_attempts(job),
        max_losses=job.max_losses,
        lease_seconds=job.lease_seconds,
        timeout_seconds=job.timeout_seconds,
        **(claim if holder is not None else {"state": QueueEntry.State.GATED}),
    )
    return run
