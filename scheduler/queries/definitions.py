"""What a job, a trigger or a group is, in the fields of the wire that define it: what an edit may set, no more.

No cursor, no pause, no instant at which something was last changed: two rows with equal definitions do the same. Given
to the service that edits it, a definition changes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

from scheduler.domain.durations import format_duration
from scheduler.domain.job_fields import FIELDS, RETRY
from scheduler.models import ConcurrencyGroup, Job, Trigger

Definition = dict[str, Any]


def job_definition(job: Job) -> Definition:
    """A query more where the job has a group that was not selected with it."""
    group = job.concurrency_group
    said = {field: _said(column, getattr(job, column)) for field, (column, *_) in FIELDS.items() if field != _GROUP}
    return {
        **said,
        _GROUP: group.name if group else None,
        "retry": {field: _said(column, getattr(job, column)) for field, (column, *_) in RETRY.items()},
        "is_active": job.is_active,
        "tenant": job.tenant,
    }


def trigger_definition(trigger: Trigger) -> Definition:
    """A query more where the trigger has a calendar that was not selected with it."""
    window = None
    if trigger.window_start is not None:
        window = [_wall_time(trigger.window_start), _wall_time(trigger.window_end)]
    return {
        "cron_expression": trigger.cron_expression or None,
        "every": None if trigger.every is None else format_duration(trigger.every),
        "anchor": _instant(trigger.anchor_at),
        "run_at": _instant(trigger.run_at),
        "timezone": trigger.timezone or None,
        "calendar": trigger.calendar.name if trigger.calendar else None,
        "on_blocked": str(trigger.on_blocked),
        "window": window,
        "not_before": _instant(trigger.not_before),
        "not_after": _instant(trigger.not_after),
        "enabled": trigger.enabled,
    }


def group_definition(group: ConcurrencyGroup) -> Definition:
    return {"max_concurrent": group.max_concurrent}


def own_words(definition: Definition, usual: Definition) -> Definition:
    """Only what is not as usual: what somebody said when it was made, with its tenant."""
    return {name: value for name, value in definition.items() if value != usual.get(name) or name == "tenant"}


def usual_job() -> Definition:
    """The definition of a job of which only the key is said."""
    job = Job(**{column: default for field, (column, default, _) in FIELDS.items() if field != _GROUP})
    for column, default, _ in RETRY.values():
        setattr(job, column, default)
    return job_definition(job)


_GROUP = "concurrency_group"


def _said(column: str, value: Any) -> Any:
    if column.endswith("_seconds") and value is not None:
        return format_duration(timedelta(seconds=value)) if value > 0 else "0s"
    if column in ("action", "pin"):
        return value or None
    return value


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _wall_time(value: time | None) -> str | None:
    return None if value is None else value.isoformat()
