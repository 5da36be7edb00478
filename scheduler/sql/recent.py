"""The newest ended runs of many jobs in one statement."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import IDS_PER_QUERY, adapted, chunks, is_postgresql, row_list

# As in `recent_durations`: one row a job, its runs in one text.
_NEWEST = """
SELECT asked.job_id, (
    SELECT {aggregate}({row}(newest.id, newest.verdict, newest.duration_ms, newest.scheduled_for)) FROM (
        SELECT r.id, r.verdict, r.duration_ms, r.scheduled_for FROM scheduler_run r
        WHERE r.job_id = asked.job_id AND r.scheduled_for <= %s AND r.verdict IS NOT NULL
        ORDER BY r.scheduled_for DESC, r.id DESC LIMIT %s
    ) newest
) FROM asked
"""


class RecentRun(NamedTuple):
    """``scheduled_for`` first: in this order they are sorted by time."""

    scheduled_for: datetime
    id: UUID
    verdict: str
    duration_ms: int | None


def recent_runs(job_ids: Collection[int], now: datetime, most: int) -> dict[int, list[RecentRun]]:
    """Return the ``most`` newest ended runs of each job that were due by ``now``, oldest first; a job without any is
    left out. One statement for `IDS_PER_QUERY` jobs."""
    found: dict[int, list[RecentRun]] = {}
    names = ("json_agg", "json_build_array") if is_postgresql() else ("json_group_array", "json_array")
    sql = _NEWEST.format(aggregate=names[0], row=names[1])
    for some in chunks(sorted(job_ids), IDS_PER_QUERY):
        listed, parameters = row_list("asked", {"job_id": "bigint"}, [(job_id,) for job_id in some])
        with connection.cursor() as cursor:
            cursor.execute(f"WITH {listed} {sql}", [*parameters, adapted(now), most])
            for job_id, rows in cursor.fetchall():
                runs = sorted(map(_run, (json.loads(rows) if isinstance(rows, str) else rows) or []))
                if runs:
                    found[job_id] = runs
    return found


def _run(row: list) -> RecentRun:
    run_id, verdict, duration_ms, at = row
    instant = datetime.fromisoformat(at)
    return RecentRun(instant.replace(tzinfo=instant.tzinfo or UTC).astimezone(UTC), UUID(run_id), verdict, duration_ms)
