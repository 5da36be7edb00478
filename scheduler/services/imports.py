"""Make jobs of what an import read. Importing the same again changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import CroniqError, InvalidInput
from runners.services.audit import Actor
from scheduler.domain.imports import Draft, NotTaken
from scheduler.domain.job_fields import job_columns
from scheduler.domain.trigger_fields import trigger_columns
from scheduler.domain.words import describe
from scheduler.models import Trigger
from scheduler.queries.fires import schedule_of, trigger_fires, zone_of
from scheduler.queries.imports import ImportedJob, imported_job, imported_trigger
from scheduler.services.jobs import find_job_of_key, save_job
from scheduler.services.triggers import COLUMNS, save_trigger

PREVIEWED_FIRES = 3


@dataclass(frozen=True, slots=True)
class Source:
    """From where and for whom: ``managed_by`` of the jobs, who makes them, and their tenant."""

    managed_by: str
    actor: Actor
    tenant: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The schedule in words, its zone, and the next fires."""

    words: str
    zone: str
    fires: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a draft: ``outcome`` is created, changed or unchanged, or "" with the reason it is not.

    ``preview`` only of a dry run.
    """

    draft: Draft
    outcome: str
    reason: str = ""
    preview: Preview | None = None


def import_jobs(drafts: Sequence[Draft], now: datetime, source: Source, *, dry_run: bool = False) -> list[Imported]:
    """Make or change the job and the trigger of each draft, and say what became of it, in order.

    Each is a transaction of its own: there may be a thousand, and to import again goes on where one failed. A dry run
    does the same and takes each back, so that it says what would be, in the words of whoever would refuse it.
    """
    return [_import(draft, now, source, dry_run) for draft in drafts]


class _TakenBack(Exception):
    """Ends the transaction of a dry run."""

    def __init__(self, imported: Imported) -> None:
        self.imported = imported


def _import(draft: Draft, now: datetime, source: Source, dry_run: bool) -> Imported:
    try:
        with write_transaction():
            # Locks it: of two imports at once the second finds the first's trigger.
            find_job_of_key(draft.job_key, None)
            found = imported_job(draft.job_key, source.managed_by)
            outcome = outcome_of(draft, found, now, source)
            trigger = _save(draft, found, now, source) if outcome != "unchanged" else found and found.trigger
            imported = Imported(draft, outcome)
            if dry_run:
                raise _TakenBack(Imported(draft, outcome, preview=_preview(trigger, now)))
            return imported
    except _TakenBack as taken_back:
        return taken_back.imported
    except (NotTaken, CroniqError) as refused:
        return Imported(draft, "", _reason(refused))


def outcome_of(draft: Draft, found: ImportedJob | None, now: datetime, source: Source) -> str:
    """What an import would do. Raises NotTaken where the key is that of a job of somebody else."""
    if found is None:
        return "created"
    job, trigger = found
    if job.managed_by != source.managed_by or job.tenant != source.tenant:
        whose = f"managed by {job.managed_by!r}" if job.tenant == source.tenant else f"of the tenant {job.tenant!r}"
        raise NotTaken(f"there is a job {job.job_key!r} already, {whose}; choose another --prefix")
    columns = job_columns(draft.fields, partial=True)
    same = trigger is not None and all(getattr(job, column) == value for column, value in columns.items())
    return "unchanged" if same and _has_schedule(trigger, draft, now) else "changed"


def _has_schedule(trigger: Trigger, draft: Draft, now: datetime) -> bool:
    before: dict[str, Any] = {name: getattr(trigger, name) for name in COLUMNS}
    zone = settings.CRONIQ_TIME_ZONE
    return trigger_columns(draft.schedule, before=before, job_key=draft.job_key, default_zone=zone, now=now) == before


def _save(draft: Draft, found: ImportedJob | None, now: datetime, source: Source) -> Trigger:
    fields: dict[str, Any] = {"job_key": draft.job_key, **draft.fields}
    if found is None:
        fields |= {**draft.first, "tenant": source.tenant}
    job, _ = save_job(fields, now, source.actor, partial=found is not None, managed_by=source.managed_by)
    # Asked again: another import may have made the job between the look and the insert.
    trigger = imported_trigger(job, source.managed_by)
    schedule = dict(draft.schedule) if trigger else {**draft.first_schedule, **draft.schedule}
    return save_trigger(job, schedule, now, actor=source.actor, trigger=trigger, managed_by=source.managed_by)[0]


def _preview(trigger: Trigger, now: datetime) -> Preview:
    fires = trigger_fires(trigger, after=now, count=PREVIEWED_FIRES)
    return Preview(describe(schedule_of(trigger)), zone_of(trigger), tuple(fire.at for fire in fires))


def _reason(refused: NotTaken | CroniqError) -> str:
    """A reason in a list stands beside what it is about; the field is said where the sentence does not."""
    text = str(refused)
    fields = ", ".join(refused.fields) if isinstance(refused, InvalidInput) else ""
    return text if not fields or fields.split(".")[-1] in text else f"{fields}: {text}"
