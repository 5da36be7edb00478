"""What handlers said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduler.models import RunLog

MOST_LINES = 10_000
"""Most lines of one answer."""


@dataclass(frozen=True)
class LogRow:
    id: int
    run_id: UUID
    attempt: int
    logged_at: datetime
    level: str
    message: str
    fields: dict[str, Any]


def log_lines(run_id: UUID, *, after: int = 0, limit: int = MOST_LINES) -> list[LogRow]:
    """Return the lines of a run in their order, those with an id above ``after``."""
    rows = RunLog.objects.filter(run_id=run_id, id__gt=after).order_by("id")
    return [LogRow(**row) for row in rows.values(*LogRow.__dataclass_fields__)[:limit]]
