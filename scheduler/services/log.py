"""Keep what handlers say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import adapted, write_transaction
from croniq_site.kernel.errors import Conflict, NotFound
from scheduler.domain.work import LogLine
from scheduler.models import QueueEntry, Run, RunLog

MOST_BYTES = 10 * 1024 * 1024
"""Of one run, over all its attempts: UTF-8 of messages, levels and fields."""
FULL = "The log of this run is full (10 MiB); what follows is not kept."


def append_log(
    run_id: UUID,
    client_id: int,
    lines: Sequence[LogLine],
    now: datetime,
    runner_id: str | None = None,
    attempt: int | None = None,
) -> int:
    """Append ``lines`` in their order and return how many were kept.

    Only for a run that is claimed or still winding down, whose holder belongs to the API client (and is ``runner_id``,
    and has ``attempt``, if given). Raises NotFound for an unknown run, Conflict ``stale_claim`` else. Over 10 MiB a run
    one line says that the rest is not kept.
    """
    with write_transaction():
        entry = QueueEntry.objects.select_related("holder__runner").filter(run_id=run_id).first()
        if entry is None or not _may_speak(entry, client_id, runner_id, attempt):
            raise _refusal(run_id)
        if not lines:
            return 0
        sizes = [_size(line) for line in lines]
        said_before = _count_bytes(entry, sum(sizes))
        kept, used = [], said_before
        for line, size in zip(lines, sizes, strict=True):
            used += size
            if used <= MOST_BYTES:
                kept.append(line)
        rows = [
            RunLog(
                run_id=run_id,
                attempt=entry.attempt,
                logged_at=now,
                level=line.level,
                message=line.message,
                fields=line.fields,
            )
            for line in kept
        ]
        if said_before <= MOST_BYTES < used:
            rows.append(RunLog(run_id=run_id, attempt=entry.attempt, logged_at=now, level="warning", message=FULL))
        RunLog.objects.bulk_create(rows)
    return len(kept)


def _may_speak(entry: QueueEntry, client_id: int, runner_id: str | None, attempt: int | None) -> bool:
    if entry.holder_id is None or entry.holder.runner.client_id != client_id:
        return False
    return runner_id in (None, entry.holder.runner.runner_id) and attempt in (None, entry.attempt)


def _count_bytes(entry: QueueEntry, more: int) -> int:
    """Add ``more`` to the run's count and return what it was before.

    The row stays locked until the lines are in: two posts of one run are stored one after the other, and no ack ends
    the run between them. Raises Conflict when the claim that was read is over.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_queueentry SET log_bytes = log_bytes + %s "
            "WHERE run_id = %s AND state IN (3, 4) AND attempt = %s AND holder_id = %s RETURNING log_bytes",
            [more, adapted(entry.run_id), entry.attempt, entry.holder_id],
        )
        row = cursor.fetchone()
    if row is None:
        raise _refusal(entry.run_id)
    return row[0] - more


def _size(line: LogLine) -> int:
    size = len(line.message.encode()) + len(line.level.encode())
    return size + (len(json.dumps(line.fields)) if line.fields else 0)


def _refusal(run_id: UUID) -> NotFound | Conflict:
    if Run.objects.filter(pk=run_id).exists():
        return Conflict("This runner does not hold that claim (any more).", code="stale_claim")
    return NotFound(f"There is no execution {run_id}.")
