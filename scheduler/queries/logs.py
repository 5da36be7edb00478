"""What handlers said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet
from django.db.models.functions import Left

from croniq_site.kernel.text import CUT_MARK
from scheduler.models import RunLog

MOST_LINES = 10_000
"""Most lines of one answer."""
LIST_MESSAGE_CHARACTERS = 64 * 1024
"""Most characters of a message in a list; the whole of it is in `log_line`."""
_BATCH = 500


@dataclass(frozen=True)
class LogRow:
    id: int
    run_id: UUID
    attempt: int
    logged_at: datetime
    level: str
    message: str
    fields: dict[str, Any]


_COLUMNS = [name for name in LogRow.__dataclass_fields__ if name != "message"]


def log_lines(run_id: UUID, *, after: int = 0, limit: int = MOST_LINES) -> list[LogRow]:
    """Return the lines of a run in their order, those with an id above ``after``. A long message is cut."""
    return _shortened_rows(RunLog.objects.filter(run_id=run_id, id__gt=after).order_by("id")[:limit])


def last_log_lines(run_id: UUID, count: int) -> list[LogRow]:
    """Return the newest ``count`` lines of a run in their order. A long message is cut."""
    return _shortened_rows(RunLog.objects.filter(run_id=run_id).order_by("-id")[:count])[::-1]


def each_log_line(run_id: UUID, *, after: int = 0, limit: int = MOST_LINES) -> Iterator[LogRow]:
    """Yield what `log_lines` returns, read as it is taken: whoever stops early has paid for little more."""
    while limit > 0:
        size = min(limit, _BATCH)
        lines = log_lines(run_id, after=after, limit=size)
        yield from lines
        if len(lines) < size:
            return
        after, limit = lines[-1].id, limit - size


def log_line(run_id: UUID, line_id: int) -> LogRow | None:
    """Return one line of a run with its whole message."""
    rows = RunLog.objects.filter(run_id=run_id, id=line_id).values(*_COLUMNS, whole=F("message"))
    return next((LogRow(message=row.pop("whole"), **row) for row in rows), None)


def _shortened_rows(rows: QuerySet[RunLog]) -> list[LogRow]:
    # Cut by the database: a line of megabytes would travel here only to be shortened.
    head = Left("message", LIST_MESSAGE_CHARACTERS + 1)
    return [LogRow(message=_shortened(row.pop("head")), **row) for row in rows.values(*_COLUMNS, head=head)]


def _shortened(head: str) -> str:
    return head if len(head) <= LIST_MESSAGE_CHARACTERS else head[:LIST_MESSAGE_CHARACTERS] + CUT_MARK
