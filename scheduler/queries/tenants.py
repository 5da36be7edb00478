"""Tenants: there is one as soon as a job, a calendar or an API client says so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q, QuerySet

from calendars.models import Calendar
from runners.models import ApiClient, Runner
from scheduler.models import Job, QueueEntry
from scheduler.queries.runners import ONLINE_SECONDS
from scheduler.services.jobs import DEFAULT_TENANT

State = QueueEntry.State


@dataclass(frozen=True)
class TenantRow:
    """``clients`` and ``runners`` (those online) are its own, beside those that serve all. ``waiting`` counts due runs
    that nobody has claimed."""

    name: str
    jobs: int
    paused: int
    calendars: int
    clients: int
    runners: int
    running: int
    waiting: int


@dataclass(frozen=True)
class Tenants:
    """``rows`` by name; ``clients`` and ``runners`` serve all tenants."""

    rows: tuple[TenantRow, ...]
    clients: int
    runners: int


def tenants(now: datetime) -> Tenants:
    """Look at all tenants, of which the default one is always there. Six queries."""
    live = Job.objects.filter(deleted_at__isnull=True)
    jobs = {
        tenant: (number, paused)
        for tenant, number, paused in live.order_by()
        .values_list("tenant")
        .annotate(Count("pk"), held=Count("pk", filter=Q(paused_at__isnull=False)))
    }
    calendars = _by(Calendar.objects.all(), "tenant")
    clients = _by(ApiClient.objects.filter(is_active=True), "tenant")
    online = Runner.objects.filter(last_poll_at__gte=now - timedelta(seconds=ONLINE_SECONDS))
    runners = _by(online, "client__tenant")
    running = _by(QueueEntry.objects.filter(state__in=[State.CLAIMED, State.STOPPING]), "lane__tenant")
    due = QueueEntry.objects.filter(state__in=[State.READY, State.GATED], available_at__lte=now)
    waiting = _by(due, "lane__tenant")
    names = {DEFAULT_TENANT, *jobs, *calendars, *clients, *waiting, *running} - {None}
    rows = (
        TenantRow(
            name,
            *jobs.get(name, (0, 0)),
            calendars=calendars[name],
            clients=clients[name],
            runners=runners[name],
            running=running[name],
            waiting=waiting[name],
        )
        for name in sorted(names)
    )
    return Tenants(tuple(rows), clients[None], runners[None])


def _by(rows: QuerySet, column: str) -> Counter[str | None]:
    return Counter(dict(rows.order_by().values_list(column).annotate(Count("pk"))))
