"""Write down what somebody is to be told of. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet

from croniq_site.kernel.database import WRITE_BATCH_ROWS
from croniq_site.kernel.ids import uuid7
from scheduler.domain.alerts import is_about
from scheduler.models import Alert, AlertExemption, AlertRule
from scheduler.queries.alert_exemptions import exemptions_at

KEPT = timedelta(days=30)
"""So long an alert stays in the log after it was made."""
ERROR_MOST = 1000
MOMENTS = (Alert.Event.RECOVERED, Alert.Event.DIGEST, Alert.Event.TEST)
"""What is over when it is made."""


@dataclass(frozen=True)
class FailedRun:
    """A run that failed for good."""

    run_id: UUID
    scheduled_for: datetime
    job_key: str
    tenant: str
    reason: str
    error: str
    tags: list[str] = field(default_factory=list)


def tell_of_failures(runs: Iterable[FailedRun], now: datetime) -> None:
    """Write an alert for each rule that is about one of these runs. Needs the transaction in which they end.

    One query where there is no rule.
    """
    failed = AlertRule.objects.filter(kind=AlertRule.Kind.FAILED, deleted_at__isnull=True)
    rules = list(failed.prefetch_related("routes"))
    if not rules:
        return
    exemptions = exemptions_at(now)
    write_alerts(
        alert
        for run in runs
        for rule in rules
        if rule.tenant == run.tenant
        and is_about(rule.job_glob, rule.tags, run.job_key, run.tags)
        and not exemptions.is_disabled(rule, run.job_key)
        for alert in alerts_of(
            rule,
            Alert.Event.FAILED,
            f"failed:{run.run_id}",
            now,
            job_key=run.job_key,
            detail={
                "execution_id": str(run.run_id),
                "scheduled_for": run.scheduled_for.isoformat(),
                "reason": run.reason,
                "error": run.error[:ERROR_MOST],
            },
        )
    )


def alerts_of(
    rule: AlertRule, event: str, cause: str, now: datetime, *, job_key: str = "", detail: dict[str, Any]
) -> list[Alert]:
    """One for each channel of the rule."""
    return [
        Alert(
            id=uuid7(now),
            rule=rule,
            channel_id=route.channel_id,
            tenant=rule.tenant,
            event=event,
            cause=cause,
            job_key=job_key,
            detail=detail,
            created_at=now,
            next_at=now,
            ended_at=now if event in MOMENTS else None,
        )
        for route in rule.routes.all()
    ]


def write_alerts(alerts: Iterable[Alert]) -> int:
    """Write those whose cause is not known yet. Who comes second with a cause changes nothing."""
    return len(Alert.objects.bulk_create(list(alerts), batch_size=WRITE_BATCH_ROWS, ignore_conflicts=True))


def end_untold(rule: AlertRule, now: datetime) -> None:
    """Write that nothing of what the rule told goes on, and tell nobody. Needs the write transaction that has locked
    it."""
    going_on = Alert.objects.filter(rule=rule, ended_at__isnull=True)
    held = going_on.exclude(held="").filter(attempt=0, state=Alert.State.WAITING)
    held.update(ended_at=now, state=F("held"), next_at=None, finished_at=now)
    going_on.update(ended_at=now)


def over_and_said() -> QuerySet[Alert]:
    """Alerts that wait for nobody and of which nothing goes on any more; a failure does not go on."""
    return Alert.objects.filter(next_at__isnull=True).exclude(
        ended_at__isnull=True, event__in=[event for event in Alert.Event if event != Alert.Event.FAILED]
    )


def drop_old_alerts(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete alerts that are older than `KEPT`, oldest first, and exemptions that have been over for so long; what
    waits and what goes on stays, but for failures."""
    # Ids are in the order of creation, so the oldest are found without an index on the instant; but for those that a
    # clock ahead of its time has stamped.
    found = over_and_said().filter(created_at__lte=now).order_by("pk").values_list("pk", "created_at")[:limit]
    old = [pk for pk, created_at in found if created_at < now - KEPT]
    gone = Alert.objects.filter(pk__in=old).delete()[0] if old else 0
    over = AlertExemption.objects.filter(until__lt=now - KEPT).order_by("pk").values_list("pk", flat=True)[:limit]
    return gone + AlertExemption.objects.filter(pk__in=list(over)).delete()[0]
