"""Lists of channels, rules and alerts. The secret of a channel is in none of them."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q

from scheduler.models import Alert, AlertChannel, AlertRule


def channel_list(*, tenant: str | None, limit: int, after: tuple[str, int] | None = None) -> list[AlertChannel]:
    """Return at most ``limit`` live channels by name and number, those after ``after``."""
    return _by_name(AlertChannel.objects.defer("secret"), tenant, limit, after)


def rule_list(*, tenant: str | None, limit: int, after: tuple[str, int] | None = None) -> list[AlertRule]:
    """Return at most ``limit`` live rules by name and number, those after ``after``."""
    return _by_name(AlertRule.objects.select_related("channel").defer("channel__secret"), tenant, limit, after)


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
