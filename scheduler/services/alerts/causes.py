"""Write down what somebody is to be told of. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from croniq_site.kernel.database import WRITE_BATCH_ROWS, one_at_a_time, write_transaction
from croniq_site.kernel.ids import uuid7
from scheduler.domain.alerts import matches
from scheduler.models import Alert, AlertRule
from scheduler.queries.trouble import pulse

KEPT = timedelta(days=30)
"""So long an alert stays in the log after it was made."""
ERROR_MOST = 1000
FINDING = 0x616C7274
"""The number of the lock under which silences are found."""


@dataclass(frozen=True)
class FailedRun:
    """A run that failed for good."""

    run_id: UUID
    job_key: str
    tenant: str
    reason: str
    error: str


def tell_of_failures(runs: Iterable[FailedRun], now: datetime) -> None:
    """Write an alert for each rule that is about one of these runs. Needs the transaction in which they end.

    One query where there is no rule.
    """
    rules = list(AlertRule.objects.filter(kind=AlertRule.Kind.FAILED, deleted_at__isnull=True))
    if not rules:
        return
    _write(
        alert_of(
            rule,
            Alert.Event.FAILED,
            f"run:{run.run_id}",
            now,
            job_key=run.job_key,
            detail={"execution_id": str(run.run_id), "reason": run.reason, "error": run.error[:ERROR_MOST]},
        )
        for run in runs
        for rule in rules
        if rule.tenant == run.tenant and matches(rule.job_glob, run.job_key)
    )


def alert_of(
    rule: AlertRule, event: str, cause: str, now: datetime, *, job_key: str = "", detail: dict[str, Any]
) -> Alert:
    return Alert(
        id=uuid7(now),
        rule=rule,
        channel_id=rule.channel_id,
        tenant=rule.tenant,
        event=event,
        cause=cause,
        job_key=job_key,
        detail=detail,
        created_at=now,
        next_at=now,
    )


def _write(alerts: Iterable[Alert]) -> int:
    """Write those whose cause is not known yet. Who comes second with a cause changes nothing."""
    return len(Alert.objects.bulk_create(list(alerts), batch_size=WRITE_BATCH_ROWS, ignore_conflicts=True))


def watch_scheduler(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Begin and end silences of the scheduler: a chore of the reaper; returns how many alerts it wrote.

    The scheduler is silent for a rule when no materializer has finished a pass for the rule's grace. That is told once
    however many find it and however long it lasts, and so is its end.
    """
    rules = AlertRule.objects.filter(kind=AlertRule.Kind.SCHEDULER_SILENT, deleted_at__isnull=True)
    if not rules.exists():
        return 0
    written = 0
    with write_transaction(), one_at_a_time(FINDING):
        # Read once the lock is held: a pass that ended meanwhile is no silence.
        last_tick = pulse().ticks.get("materialize")
        for rule in rules.order_by("pk")[:limit]:
            written += _watch(rule, last_tick, now)
    return written


def _watch(rule: AlertRule, last_tick: datetime | None, now: datetime) -> int:
    silence = Alert.objects.filter(rule=rule, event=Alert.Event.SILENT, ended_at__isnull=True).first()
    since = max(last_tick or rule.created_at, rule.created_at)
    if silence is None:
        if now - since <= timedelta(seconds=rule.grace_seconds):
            return 0
        detail = {"since": since.isoformat(timespec="seconds")}
        return _write([alert_of(rule, Alert.Event.SILENT, f"silent:{since.isoformat()}", now, detail=detail)])
    if last_tick is None or last_tick <= silence.created_at:
        return 0
    Alert.objects.filter(pk=silence.pk, ended_at__isnull=True).update(ended_at=now)
    detail = {**silence.detail, "until": last_tick.isoformat(timespec="seconds")}
    return _write([alert_of(rule, Alert.Event.RECOVERED, f"recovered:{silence.pk}", now, detail=detail)])


def drop_old_alerts(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete alerts that are older than `KEPT`, oldest first; what waits and a silence that goes on stay."""
    # Ids are in the order of creation, so the oldest are found without an index on the instant.
    oldest = Alert.objects.filter(next_at__isnull=True).exclude(event=Alert.Event.SILENT, ended_at__isnull=True)
    found = oldest.order_by("pk").values_list("pk", "created_at")[:limit]
    old = [pk for pk, created_at in found if created_at < now - KEPT]
    return Alert.objects.filter(pk__in=old, next_at__isnull=True).delete()[0] if old else 0
