"""A busy installation to look at: jobs of all kinds with a past, a present and a future. For demonstrations and
measurements; it writes history that never happened, so it refuses where there are runs of anybody else."""

# ruff: noqa: S311 - the same installation every time, from a fixed seed

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from calendars.models import Calendar
from calendars.queries.versions import rule_versions
from croniq_site.kernel.database import chunks, write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput
from runners.services.audit import Actor, Event, record_events
from scheduler.models import Job, Run, Trigger
from scheduler.queries.followed_rules import FOLLOWED
from scheduler.services.calendars import edit_calendar
from scheduler.services.demo import WORKING_DAYS
from scheduler.services.groups import save_group
from scheduler.services.jobs import save_job
from scheduler.services.pause import pause_job
from scheduler.services.seed_runs import make_history, make_present

SEED = Actor("system", "seed_demo")
MOST_JOBS, MOST_RUNS = 5_000, 5_000_000
MADE_BEFORE = timedelta(days=400)
"""So long ago the jobs were made: their past reaches no farther."""
_FIRST_KEY = "billing:invoices"

_TEAMS = {
    "billing": ["invoices", "dunning", "ledger-close", "tax-report", "payouts", "reconcile"],
    "shop": ["stock-sync", "price-feed", "abandoned-carts", "search-index", "thumbnails", "recommendations"],
    "ops": ["backup", "log-rotate", "certificates", "disk-usage", "vacuum", "health-probe"],
    "crm": ["newsletter", "lead-score", "dedupe", "export", "birthday-mails", "import"],
    "data": ["warehouse-load", "daily-report", "funnel", "retention", "anomalies", "snapshots"],
}
_GROUPS = {"database": 3, "mail-relay": 1, "partner-api": 2}
_TENANTS = ("default", "default", "default", "acme", "globex")
_RHYTHMS = [
    # share of the jobs, the schedule ({} takes a minute), usual seconds
    (40, "{} {} * * *", (20, 1800)),
    (10, "{} 3 * * MON-FRI", (60, 3600)),
    (30, "{} * * * *", (2, 240)),
    (15, "*/15 * * * *", (1, 60)),
    (5, "*/5 * * * *", (0.2, 20)),
]


@dataclass(frozen=True)
class Seeded:
    """How much was made: ``runs`` have ended, ``live`` run or wait."""

    jobs: int
    runs: int
    letters: int
    live: int


@dataclass(frozen=True)
class SeedJob:
    """A job, its trigger, how many seconds it usually takes, and which share of its runs dies."""

    job: Job
    trigger: Trigger
    seconds: float
    dies: float


def seed_demo(jobs: int, runs: int, now: datetime, seed: int = 5) -> Seeded:
    """Make ``jobs`` jobs with all that belongs to them, ``runs`` runs that ended before ``now`` at the instants of
    their schedules (fewer, where 400 days have not as many), and some that run or wait. The same for one ``seed``.

    Raises InvalidInput by field; Conflict ``not_empty`` where there are runs already.
    """
    if not 1 <= jobs <= MOST_JOBS:
        raise InvalidInput.of("jobs", f"jobs is a number from 1 to {MOST_JOBS}.")
    if not 0 <= runs <= MOST_RUNS:
        raise InvalidInput.of("runs", f"runs is a number from 0 to {MOST_RUNS}.")
    if Run.objects.exists() or Job.objects.filter(job_key=_FIRST_KEY, deleted_at=None).exists():
        raise Conflict("There are runs already; seed_demo is for an empty database.", code="not_empty")
    pick = random.Random(seed)
    made = _make_jobs(jobs, now - MADE_BEFORE, now, pick)
    ended, letters = make_history(made, runs, now, pick)
    live = make_present(made, now, pick)
    # What is there is by the rules of today: no materializer has to move it.
    record_events([Event(FOLLOWED, "site", "rules", SEED, diff={"versions": rule_versions()})], now)
    for item in made[7 :: max(8, jobs // 4)]:
        pause_job(item.job.job_key, now, actor=SEED, reason="until the new warehouse is open")
    return Seeded(len(made), ended, letters, live)


def _make_jobs(number: int, since: datetime, now: datetime, pick: random.Random) -> list[SeedJob]:
    calendars = {tenant: _calendar_of(tenant, since) for tenant in sorted(set(_TENANTS))}
    for tenant in calendars:
        for name, limit in _GROUPS.items():
            save_group(name, limit, since, SEED, tenant)
    made = []
    for key in _keys(number):
        tenant = pick.choice(_TENANTS)
        job, _ = save_job(_definition(key, tenant, pick), since, SEED, managed_by="demo")
        _, expression, (low, high) = pick.choices(_RHYTHMS, [share for share, _, _ in _RHYTHMS])[0]
        calendar = calendars[tenant] if pick.random() < 0.15 else None
        trigger = Trigger(
            id=uuid4(),
            job=job,
            kind=Trigger.Kind.CRON,
            cron_expression=expression.format(pick.randrange(60), pick.choice([0, 1, 2, 2, 3, 3, 4, 5, 6, 12, 18, 22])),
            timezone=pick.choice(["", "", "Europe/Berlin", "America/New_York"]),
            calendar=calendar,
            managed_by="demo",
            cursor_at=now,
            next_materialize_at=now,
            created_at=since,
            updated_at=since,
        )
        dies = pick.choices([0.002, 0.03, 0.2], [80, 16, 4])[0]
        made.append(SeedJob(job, trigger, low * (high / low) ** pick.random(), dies))
    for some in chunks(made):
        with write_transaction():
            Trigger.objects.bulk_create(item.trigger for item in some)
    return made


def _definition(key: str, tenant: str, pick: random.Random) -> dict:
    team = key.partition(":")[0]
    definition: dict = {
        "job_key": key,
        "tenant": tenant,
        "description": f"Keeps {key.partition(':')[2].replace('-', ' ')} of {team} up to date.",
        "tags": sorted({team, *pick.sample(["nightly", "critical", "eu", "partner", "legacy"], pick.randrange(3))}),
        "require": [pick.choice(["eu", "gpu", "sql"])] if pick.random() < 0.2 else [],
        "timeout": "2h",
        "max_retries": pick.choice([0, 2, 3, 3]),
    }
    limited = pick.random()
    if limited < 0.15:
        definition["concurrency_group"] = pick.choice(sorted(_GROUPS))
    elif limited < 0.25:
        definition["overlap"] = pick.choice(["skip", "queue_one"])
    elif limited < 0.3:
        definition["max_concurrent"] = 2
    if pick.random() < 0.2:
        definition["dead_letter_replay_max_age"] = "3d"
        definition["dead_letter_operator_hint"] = "Ask the team before you replay it."
    return definition


def _keys(number: int) -> Sequence[str]:
    names = [f"{team}:{name}" for team, names in _TEAMS.items() for name in names]
    places = ["", "-eu", "-us", "-apac", *(f"-{n}" for n in range(2, MOST_JOBS))]
    return [f"{name}{place}" for place in places for name in names][:number]


def _calendar_of(tenant: str, since: datetime) -> Calendar:
    found = Calendar.objects.filter(tenant=tenant, name=WORKING_DAYS).first()
    if found is not None:
        return found
    rules = [{"effect": "include", "name": "weekdays", "weekdays": [1, 2, 3, 4, 5]}]
    edit_calendar(
        {"name": WORKING_DAYS, "timezone": "UTC", "description": "Monday to Friday.", "rules": rules},
        since,
        actor=SEED,
        tenant=tenant,
    )
    return Calendar.objects.get(tenant=tenant, name=WORKING_DAYS)
