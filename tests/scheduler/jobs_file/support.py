"""A jobs file as the tests write it, and what there is of what it declares."""

from __future__ import annotations

from datetime import datetime
from textwrap import dedent
from typing import Any

from calendars.models import Calendar, CalendarRule
from runners.models import AuditEvent
from scheduler.domain.jobs_file import JobsFile, read_jobs_file
from scheduler.domain.jobs_file_plan import Plan
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Run, Trigger
from scheduler.services.jobs_file import Applied, apply_jobs_file
from scheduler.services.jobs_file_check import checked_jobs_file
from scheduler.services.jobs_file_plan import plan_jobs_file
from tests.scheduler.planning.support import ACTOR

EXAMPLE = """
    calendars:
      business-days:
        timezone: Europe/Berlin
        rules:
          - {effect: exclude, weekdays: [SAT, SUN]}
          - {effect: exclude, holiday_country: DE}
    groups:
      database: {max_concurrent: 2}
    jobs:
      billing:invoices:
        description: Send the invoices
        action: {type: command, argv: [send, --all], env: {API_TOKEN: s3cret, MODE: live}}
        timeout: 10m
        concurrency_group: database
        triggers:
          - {cron_expression: "0 3 * * *", timezone: Europe/Berlin, calendar: business-days}
          - {every: 20m}
      ops:tick: {triggers: [{every: 5m}]}
"""


def text(content: str) -> bytes:
    return dedent(content).encode()


def read(content: str, now: datetime) -> JobsFile:
    return read_jobs_file(text(content), now=now, default_zone="UTC")


def found(content: str, now: datetime) -> list[tuple[int, str]]:
    """What is wrong with the file by itself: lines and paths, in order."""
    return [(one.mark.line, one.path) for one in sorted(checked_jobs_file(text(content), now).file.problems)]


def plan(content: str, now: datetime, **options: Any) -> Plan:
    return plan_jobs_file(checked_jobs_file(text(content), now), now, **options).plan


def apply(content: str, now: datetime, **options: Any) -> Applied:
    data = text(content)
    return apply_jobs_file(checked_jobs_file(data, now), now, ACTOR, source="croniq.yaml", data=data, **options)


def snapshot() -> list[Any]:
    """All that applying a file could touch, but the audit's own columns."""
    models = (Calendar, CalendarRule, ConcurrencyGroup, Job, Trigger, Run, QueueEntry)
    return [list(model.objects.order_by("pk").values()) for model in models] + [AuditEvent.objects.count()]


def changes(plan: Plan) -> list[tuple[str, str, str]]:
    return [(change.action, change.kind, change.name) for change in plan.changes]
