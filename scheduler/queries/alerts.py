"""Lists of channels, rules and alerts. The secret of a channel is in none of them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import Prefetch, Q, QuerySet

from scheduler.models import Alert, AlertChannel, AlertExemption, AlertRoute, AlertRule
from scheduler.queries.tags import tenants
from scheduler.services.jobs import DEFAULT_TENANT


def channel_list(*, tenant: str | None, limit: int, after: tuple[str, int] | None = None) -> list[AlertChannel]:
    """Return at most ``limit`` live channels by name and number, those after ``after``."""
    return _by_name(AlertChannel.objects.defer("secret"), tenant, limit, after)


def rule_list(*, tenant: str | None, limit: int, after: tuple[str, int] | None = None) -> list[AlertRule]:
    """Return at most ``limit`` live rules by name and number, those after ``after``, with channels and calendar."""
    return _by_name(_rules(), tenant, limit, after)


def rule_detail(rule_id: int, tenant: str | None) -> AlertRule | None:
    rows = _rules().filter(deleted_at__isnull=True, pk=rule_id)
    return (rows if tenant is None else rows.filter(tenant=tenant)).first()


def _rules() -> QuerySet[AlertRule]:
    routes = AlertRoute.objects.select_related("channel").defer("channel__secret", "channel__target")
    return AlertRule.objects.select_related("calendar").prefetch_related(Prefetch("routes", routes))


def alert_tenants() -> list[str]:
    """Whose rules there may be: the tenants that have jobs or channels, and the default one. Two queries."""
    with_channels = AlertChannel.objects.filter(deleted_at__isnull=True).order_by().values_list("tenant", flat=True)
    return sorted({DEFAULT_TENANT, *tenants(), *with_channels.distinct()})


def channel_names(rule: AlertRule) -> list[str]:
    return sorted(route.channel.name for route in rule.routes.all())


def exemption_list(
    now: datetime, *, tenant: str | None, limit: int, before: tuple[int] | None = None
) -> list[AlertExemption]:
    """Return at most ``limit`` exemptions in effect, newest first, those before ``before``."""
    rows = AlertExemption.objects.select_related("rule").filter(ended_at__isnull=True, until__gt=now)
    if tenant is not None:
        rows = rows.filter(tenant=tenant)
    if before is not None:
        rows = rows.filter(pk__lt=before[0])
    return list(rows.order_by("-pk")[:limit])


def _by_name(rows, tenant, limit, after):
    rows = rows.filter(deleted_at__isnull=True)
    if tenant is not None:
        rows = rows.filter(tenant=tenant)
    if after is not None:
        name, pk = after
        rows = rows.filter(Q(name__gt=name) | Q(name=name, pk__gt=pk))
    return list(rows.order_by("name", "pk")[:limit])


def alert_list(*, tenant: str | None, state: str | None, limit: int, before: tuple[UUID] | None = None) -> list[Alert]:
    """Return at most ``limit`` alerts, newest first, those before ``before``."""
    rows = Alert.objects.select_related("rule", "channel").defer("channel__secret", "channel__target")
    if tenant is not None:
        rows = rows.filter(tenant=tenant)
    if state is not None:
        rows = rows.filter(state=state)
    if before is not None:
        rows = rows.filter(pk__lt=before[0])
    return list(rows.order_by("-pk")[:limit])
