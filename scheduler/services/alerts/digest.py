"""What became of a week, told on Monday morning."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Count

from scheduler.models import Alert, AlertRule, Run
from scheduler.queries.waiting_letters import waiting_letters
from scheduler.services.alerts.causes import alerts_of

AT = time(7)
"""Of Monday, in CRONIQ_TIME_ZONE."""
MOST_NAMED = 10


def week_told(rule: AlertRule, now: datetime) -> list[Alert]:
    """Return the digest of the week before this one, until it is written; none of a week that had ended before the rule
    was made."""
    local = now.astimezone(ZoneInfo(settings.CRONIQ_TIME_ZONE))
    monday = (local - timedelta(days=local.weekday())).date()
    due_at = datetime.combine(monday, AT, tzinfo=local.tzinfo)
    if now < due_at or rule.created_at > due_at:
        return []
    week = "{}-W{:02d}".format(*(monday - timedelta(days=7)).isocalendar()[:2])
    cause = f"digest:{week}"
    if Alert.objects.filter(rule=rule, cause=cause).exists():
        return []
    start, end = (datetime.combine(day, time(0), tzinfo=local.tzinfo) for day in (monday - timedelta(days=7), monday))
    detail = {"week": week, **week_of(rule.tenant, start, end)}
    return alerts_of(rule, Alert.Event.DIGEST, cause, now, detail=detail)


def week_of(tenant: str, start: datetime, end: datetime) -> dict[str, Any]:
    """Count a tenant's runs that were scheduled for [start, end) by what became of them, the jobs that failed most, its
    letters that wait (those that were replayed do not) and what was told. Four queries."""
    runs = Run.objects.filter(job__tenant=tenant, scheduled_for__gte=start, scheduled_for__lt=end).order_by()
    verdicts = dict(runs.filter(verdict__isnull=False).values_list("verdict").annotate(Count("pk")))
    bad = runs.filter(problem__in=[Run.Verdict.FAILED, Run.Verdict.DEAD]).values_list("job__job_key")
    failing = bad.annotate(number=Count("pk")).order_by("-number", "job__job_key")[:MOST_NAMED]
    told = Alert.objects.filter(tenant=tenant, created_at__gte=start, created_at__lt=end).order_by()
    return {
        "from": start.isoformat(),
        "until": end.isoformat(),
        "runs": {verdict: verdicts.get(verdict, 0) for verdict in Run.Verdict.values},
        "failing": dict(failing),
        "dead_letters": waiting_letters().filter(job__tenant=tenant).count(),
        "alerts": dict(told.values_list("state").annotate(Count("pk"))),
    }
