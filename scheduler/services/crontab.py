"""Make jobs of the lines of a crontab. Importing the same file again changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import InvalidInput
from runners.services.audit import Actor
from scheduler.domain.crontab import NotTaken
from scheduler.domain.crontab_jobs import AS_CRON, LineJob
from scheduler.queries.crontab import MANAGED_BY, ImportedJob, imported_job, imported_trigger
from scheduler.services.jobs import find_job_of_key, save_job
from scheduler.services.triggers import save_trigger

TAGS = ["crontab"]


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """A line and what became of it: ``outcome`` is created, changed or unchanged, or "" with the reason it is not."""

    job: LineJob
    outcome: str
    reason: str = ""


def import_jobs(
    jobs: Sequence[LineJob], now: datetime, *, actor: Actor, tenant: str, more: Mapping[str, Any] | None = None
) -> list[ImportedLine]:
    """Make or change the job and the trigger of each line, and say what became of it, in order.

    ``more``: further fields of new jobs. A job that is there keeps what was edited in it but for its command, schedule
    and zone. Each line is a transaction of its own: a file may have a thousand, and to import again goes on where one
    failed.
    """
    return [_import(job, now, actor, tenant, dict(more or {})) for job in jobs]


def _import(line: LineJob, now: datetime, actor: Actor, tenant: str, more: dict[str, Any]) -> ImportedLine:
    try:
        with write_transaction():
            find_job_of_key(line.job_key, None)  # locks it: of two imports at once the second finds the first's trigger
            found = imported_job(line.job_key)
            outcome = outcome_of(line, found, tenant)
            if outcome != "unchanged":
                _save(line, found, now, actor, tenant, more)
            return ImportedLine(line, outcome)
    except (NotTaken, InvalidInput) as refused:
        return ImportedLine(line, "", str(refused))


def outcome_of(line: LineJob, found: ImportedJob | None, tenant: str) -> str:
    """What an import would do. Raises NotTaken where the key is that of a job of somebody else."""
    if found is None:
        return "created"
    job, trigger = found
    if job.managed_by != MANAGED_BY or job.tenant != tenant:
        whose = f"managed by {job.managed_by!r}" if job.tenant == tenant else f"of the tenant {job.tenant!r}"
        raise NotTaken(f"there is a job {job.job_key!r} already, {whose}; choose another --prefix")
    schedule = trigger and (trigger.cron_expression, trigger.timezone)
    same = job.action == line.action and schedule == (line.entry.expression, line.timezone)
    return "unchanged" if same else "changed"


def _save(
    line: LineJob, found: ImportedJob | None, now: datetime, actor: Actor, tenant: str, more: dict[str, Any]
) -> None:
    fields: dict[str, Any] = {"job_key": line.job_key, "action": line.action}
    if found is None:
        fields |= {**AS_CRON, "description": line.description, "tags": TAGS, "tenant": tenant, **more}
    job, _ = save_job(fields, now, actor, partial=found is not None, managed_by=MANAGED_BY)
    # Asked again: another import may have made the job between the look and the insert.
    trigger = imported_trigger(job)
    schedule = {"cron_expression": line.entry.expression, "timezone": line.timezone or None}
    save_trigger(job, schedule, now, actor=actor, trigger=trigger, managed_by=MANAGED_BY)
