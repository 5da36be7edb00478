"""What `/metrics` measures when it is asked: read by index, so that it costs the same however many runs have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Sum

from runners.models import Runner, RunnerInstance
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.models import Job, Lane, Tally
from scheduler.queries.jobs import OVERDUE_AFTER, fires_beyond
from scheduler.queries.runners import ONLINE_SECONDS
from scheduler.services.identity import FLAPPING_TAKEOVERS, FLAPPING_WINDOW
from scheduler.sql.gauges import job_facts


@dataclass(frozen=True)
class JobGauge:
    """A job that is not deleted. A paused or inactive one is never overdue and has no next fire."""

    job_id: int
    job_key: str
    is_overdue: bool
    next_fire_at: datetime | None


@dataclass(frozen=True)
class Tallied:
    kind: str
    label: str
    job_id: int | None
    count: int


def job_gauges(now: datetime) -> list[JobGauge]:
    """Return all jobs by key. Overdue as in `job_states`: a ready run that nobody took, or a fire that is no run."""
    facts = job_facts(now, now - OVERDUE_AFTER)
    beyond, missed = fires_beyond([job.job_id for job in facts if job.is_running and job.planned_at is None], now)
    return [
        JobGauge(
            job.job_id,
            job.job_key,
            is_overdue=job.is_running and (job.is_late or job.job_id in missed),
            next_fire_at=(job.planned_at or beyond.get(job.job_id)) if job.is_running else None,
        )
        for job in facts
    ]


def tallied() -> list[Tallied]:
    """Return the sums of all tallies, in one statement: folding them meanwhile changes nothing."""
    sums = Tally.objects.values_list("kind", "label", "job_id").annotate(Sum("count")).order_by("kind", "label")
    return [Tallied(*row) for row in sums]


def flapping_runners(now: datetime) -> list[str]:
    """Return the ids of the runners that were taken over three times or more within the last ten minutes."""
    recent = RunnerInstance.objects.filter(deposed_at__isnull=False, deposed_at__gt=now - FLAPPING_WINDOW)
    takeovers = Counter(recent.values_list("runner", flat=True))
    often = [pk for pk, count in takeovers.items() if count >= FLAPPING_TAKEOVERS]
    return sorted(Runner.objects.filter(pk__in=often).values_list("runner_id", flat=True)) if often else []


def capability_runners(now: datetime) -> dict[str, int]:
    """Return how many online runners that take work have each capability that an active job requires; a pin is one too.

    Where jobs of several tenants require it, it is the number of the tenant that has the fewest.
    """
    jobs = Job.objects.filter(lane=OuterRef("pk"), deleted_at__isnull=True, is_active=True)
    wanted = {
        (tenant, name)
        for tenant, require in Lane.objects.filter(Exists(jobs)).values_list("tenant", "require")
        for name in require
    }
    online = Runner.objects.filter(last_poll_at__gte=now - timedelta(seconds=ONLINE_SECONDS), drained_at__isnull=True)
    return runners_having(wanted, online.values_list("runner_id", "client__tenant", "capabilities"))


def runners_having(
    wanted: Collection[tuple[str, str]], online: Iterable[tuple[str, str | None, list[str]]]
) -> dict[str, int]:
    """`capability_runners` of what was read already: ``wanted`` are (tenant, capability), ``online`` the runners' ids,
    tenants and capabilities."""
    names = {name for _, name in wanted}
    having: Counter[tuple[str | None, str]] = Counter()
    for runner_id, tenant, capabilities in online:
        said = {name for name in capabilities if not name.startswith(PIN_PREFIX)}
        having.update((tenant, name) for name in names & {*said, PIN_PREFIX + runner_id})
    found: dict[str, int] = {}
    for tenant, name in sorted(wanted):
        count = having[tenant, name] + having[None, name]
        found[name] = min(count, found.get(name, count))
    return found
