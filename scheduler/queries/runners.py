"""Runners: who polls, what they hold, how often their identity changed hands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from runners.models import Runner, RunnerInstance
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.models import Job, QueueEntry
from scheduler.services.identity import FLAPPING_TAKEOVERS, FLAPPING_WINDOW
from scheduler.sql.arrays import ArrayHolds

ONLINE_SECONDS = 60
"""A poll is held for up to 30 s: a runner that polled within two of them is there."""
STALE_SECONDS = 300
"""Later than this since the last poll a runner is taken for dead."""

STATUSES = ("online", "stale", "dead")


@dataclass(frozen=True)
class RunnerRow:
    id: int
    runner_id: str
    client: str
    tenant: str | None
    status: str
    capabilities: list[str]
    tags: list[str]
    max_inflight: int
    inflight: int
    last_poll_at: datetime
    takeovers: int
    flapping: bool
    drained_at: datetime | None
    drain_reason: str


def lacking_capabilities(job: Job, now: datetime) -> list[str]:
    """Return what the job requires and no runner has that may serve its tenant and was seen in the last 5 minutes."""
    return lacking_among(job.require, job.tenant, now - timedelta(seconds=STALE_SECONDS))


def lacking_among(require: Iterable[str], tenant: str, seen_since: datetime) -> list[str]:
    """Return those capabilities that no runner has that may serve the tenant, takes work and polled since then.

    Each by itself: that there is one for each does not say that one has them all. A pin is had by the runner it names.
    """
    seen = _seen_for(tenant, seen_since)

    def is_had(name: str) -> bool:
        if name.startswith(PIN_PREFIX):
            return seen.filter(runner_id=name.removeprefix(PIN_PREFIX)).exists()
        return seen.filter(ArrayHolds("capabilities", name)).exists()

    return [name for name in require if not is_had(name)]


def online_capabilities(tenant: str, now: datetime) -> list[frozenset[str]]:
    """Return what each online runner has that may serve the tenant and takes work; a pin is had by the runner that it
    names."""
    seen = _seen_for(tenant, now - timedelta(seconds=ONLINE_SECONDS)).values_list("runner_id", "capabilities")
    return [
        frozenset(name for name in has if not name.startswith(PIN_PREFIX)) | {PIN_PREFIX + runner_id}
        for runner_id, has in seen
    ]


def _seen_for(tenant: str, since: datetime) -> QuerySet[Runner]:
    serves = Q(client__tenant=None) | Q(client__tenant=tenant)
    return Runner.objects.filter(serves, last_poll_at__gte=since, drained_at__isnull=True)


def status_of(last_poll_at: datetime, now: datetime) -> str:
    """Return online, stale or dead, from the last poll alone."""
    silent_seconds = (now - last_poll_at).total_seconds()
    if silent_seconds <= ONLINE_SECONDS:
        return "online"
    return "stale" if silent_seconds <= STALE_SECONDS else "dead"


def runner_list(
    now: datetime, *, tenant: str | None = None, status: str | None = None, limit: int, after: str = ""
) -> list[RunnerRow]:
    """Return at most ``limit`` runners in the order of their ids, those after ``after``.

    A tenant sees the runners of its own clients, not the pool that serves all.
    """
    runners = _of_tenant(rows_with_counts(now), tenant).filter(runner_id__gt=after)
    online_after = now - timedelta(seconds=ONLINE_SECONDS)
    stale_after = now - timedelta(seconds=STALE_SECONDS)
    if status == "online":
        runners = runners.filter(last_poll_at__gte=online_after)
    elif status == "stale":
        runners = runners.filter(last_poll_at__lt=online_after, last_poll_at__gte=stale_after)
    elif status == "dead":
        runners = runners.filter(last_poll_at__lt=stale_after)
    return [row_of(runner, now) for runner in runners.order_by("runner_id")[:limit]]


def rows_with_counts(now: datetime) -> QuerySet[Runner]:
    """Return the runners with all that `row_of` reads."""
    held = QueueEntry.objects.filter(
        holder__runner=OuterRef("pk"), state__in=[QueueEntry.State.CLAIMED, QueueEntry.State.STOPPING]
    )
    deposed = RunnerInstance.objects.filter(runner=OuterRef("pk"), deposed_at__gt=now - FLAPPING_WINDOW)
    return Runner.objects.select_related("client").annotate(
        inflight=_count(held, "holder__runner"), recent_takeovers=_count(deposed, "runner")
    )


def online_and_taking(now: datetime) -> tuple[int, int]:
    """Return how many runners are online, and how many of them take work."""
    online = Runner.objects.filter(last_poll_at__gte=now - timedelta(seconds=ONLINE_SECONDS))
    counts = online.aggregate(online=Count("pk"), taking=Count("pk", filter=Q(drained_at__isnull=True)))
    return counts["online"], counts["taking"]


def runner_counts(now: datetime) -> dict[str, int]:
    """Return how many runners there are of each status."""
    online_after = now - timedelta(seconds=ONLINE_SECONDS)
    stale_after = now - timedelta(seconds=STALE_SECONDS)
    alive = Runner.objects.filter(last_poll_at__gte=online_after).count()
    known = Runner.objects.filter(last_poll_at__gte=stale_after).count()
    return {"online": alive, "stale": known - alive, "dead": Runner.objects.count() - known}


def _of_tenant(runners: QuerySet[Runner], tenant: str | None) -> QuerySet[Runner]:
    return runners if tenant is None else runners.filter(client__tenant=tenant)


def _count(rows: QuerySet, by: str) -> Coalesce:
    return Coalesce(Subquery(rows.order_by().values(by).annotate(n=Count("pk")).values("n")), 0)


def row_of(runner: Runner, now: datetime) -> RunnerRow:
    return RunnerRow(
        id=runner.pk,
        runner_id=runner.runner_id,
        client=runner.client.name,
        tenant=runner.client.tenant,
        status=status_of(runner.last_poll_at, now),
        capabilities=runner.capabilities,
        tags=runner.tags,
        max_inflight=runner.max_inflight,
        inflight=runner.inflight,
        last_poll_at=runner.last_poll_at,
        takeovers=runner.takeovers,
        flapping=runner.recent_takeovers >= FLAPPING_TAKEOVERS,
        drained_at=runner.drained_at,
        drain_reason=runner.drain_reason,
    )
