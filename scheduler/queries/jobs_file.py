"""What there is of a tenant that a jobs file could declare, and the file that declares it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from calendars.models import Calendar
from calendars.queries.specs import rule_values
from scheduler.domain.job_fields import FIELDS, RETRY
from scheduler.domain.jobs_file import DEFAULT_TENANT
from scheduler.domain.jobs_file_written import calendar_written, job_written, trigger_written
from scheduler.domain.trigger_fields import COLUMNS
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Trigger
from scheduler.queries.jobs import live_jobs

_GROUP = "concurrency_group"
_HELD = (QueueEntry.State.CLAIMED, QueueEntry.State.STOPPING)


@dataclass(frozen=True, slots=True)
class Existing:
    """Live jobs by key, their triggers by the job's id in the order of their making, calendars and groups by name.

    ``foreign``: of the keys that were asked for, those of other tenants' jobs, with their tenants.
    """

    jobs: dict[str, Job]
    triggers: dict[int, list[Trigger]]
    calendars: dict[str, Calendar]
    groups: dict[str, ConcurrencyGroup]
    foreign: dict[str, str]

    def triggers_of(self, job: Job) -> list[Trigger]:
        return self.triggers.get(job.pk, [])

    def users_of(self, calendar: str) -> list[Job]:
        """The jobs that have a trigger with this calendar, by key."""
        return [
            job
            for job in self.jobs.values()
            if any(one.calendar is not None and one.calendar.name == calendar for one in self.triggers_of(job))
        ]


def existing(tenant: str, keys: Collection[str] = ()) -> Existing:
    """Read all of it. Five queries, however much there is."""
    jobs = {job.job_key: job for job in live_jobs(tenant).order_by("job_key")}
    triggers: dict[int, list[Trigger]] = defaultdict(list)
    by_id = {job.pk: job for job in jobs.values()}
    rows = Trigger.objects.filter(job__tenant=tenant, job__deleted_at__isnull=True)
    for trigger in rows.select_related("calendar").order_by("created_at", "id"):
        if trigger.job_id in by_id:
            trigger.job = by_id[trigger.job_id]
            triggers[trigger.job_id].append(trigger)
    calendars = Calendar.objects.prefetch_related("rules").filter(tenant=tenant).order_by("name")
    groups = ConcurrencyGroup.objects.filter(tenant=tenant).order_by("name")
    others = live_jobs().exclude(tenant=tenant).filter(job_key__in=set(keys) - jobs.keys())
    return Existing(
        jobs,
        dict(triggers),
        {calendar.name: calendar for calendar in calendars},
        {group.name: group for group in groups},
        dict(others.values_list("job_key", "tenant")),
    )


def job_columns_of(job: Job) -> dict[str, Any]:
    """The columns that a job's definition has, as `job_columns` gives them: the group by its name."""
    columns = {column: getattr(job, column) for column, *_ in (*FIELDS.values(), *RETRY.values()) if column != _GROUP}
    group = job.concurrency_group.name if job.concurrency_group is not None else None
    return columns | {_GROUP: group, "is_active": job.is_active}


def trigger_columns_of(trigger: Trigger) -> dict[str, Any]:
    return {column: getattr(trigger, column) for column in COLUMNS}


def calendar_values_of(calendar: Calendar) -> dict[str, Any]:
    """As `checked_calendar` gives them, but for the name."""
    rules = [rule_values(rule) for rule in calendar.rules.all()]
    return {"timezone": calendar.timezone, "description": calendar.description, "rules": rules}


def unfinished_counts(job: Job) -> tuple[int, int]:
    """How many runs of the job are claimed, and how many wait or are planned."""
    states = Counter(QueueEntry.objects.filter(job=job).values_list("state", flat=True))
    held = sum(states[state] for state in _HELD)
    return held, states.total() - held


def is_group_busy(group: ConcurrencyGroup, staying: Collection[int]) -> bool:
    """Whether runs of jobs of the group that are deleted, or would be, are not over yet. ``staying``: ids of jobs that
    are not looked at."""
    entries = QueueEntry.objects.filter(job__concurrency_group=group).exclude(job_id__in=list(staying))
    return entries.exclude(job__deleted_at__isnull=True).exists() or entries.filter(state__in=_HELD).exists()


def exported(tenant: str) -> dict[str, Any]:
    """All of the tenant as a jobs file declares it, to be written as YAML."""
    found = existing(tenant)
    file: dict[str, Any] = {} if tenant == DEFAULT_TENANT else {"tenant": tenant}
    calendars = {name: calendar_written(**calendar_values_of(one)) for name, one in found.calendars.items()}
    groups = {name: {"max_concurrent": group.max_concurrent} for name, group in found.groups.items()}
    jobs = {key: _job_exported(job, found.triggers_of(job)) for key, job in found.jobs.items()}
    sections = {"calendars": calendars, "groups": groups, "jobs": jobs}
    return file | {name: section for name, section in sections.items() if section or name == "jobs"}


def _job_exported(job: Job, triggers: list[Trigger]) -> dict[str, Any]:
    fields = job_written(job_columns_of(job))
    if triggers:
        fields["triggers"] = [
            trigger_written(trigger_columns_of(one), one.calendar.name if one.calendar is not None else None)
            for one in triggers
        ]
    return fields
