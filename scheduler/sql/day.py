"""What a page reads of many runs at once, in a form that costs little to read."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import FloatField, Func

from croniq_site.kernel.database import IDS_PER_QUERY, adapted, chunks, is_postgresql, row_list

# One row a job, its numbers in one text: SQLite, once it has counted its tables, would begin a join with all runs.
_NEWEST = """
SELECT asked.job_id, (
    SELECT {aggregate}(newest.duration_ms) FROM (
        SELECT r.duration_ms, r.verdict FROM scheduler_run r
        WHERE r.job_id = asked.job_id AND r.scheduled_for <= %s ORDER BY r.scheduled_for DESC, r.id DESC LIMIT %s
    ) newest
    WHERE newest.verdict = 'completed' AND newest.duration_ms IS NOT NULL
) FROM asked
"""


class SecondsOf(Func):
    """An instant as seconds since 1970, with a fraction (on SQLite exact to a millisecond): of twenty thousand of them
    the reading as instants is what costs."""

    output_field = FloatField()
    arity = 1

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, template="extract(epoch FROM %(expressions)s)::float8", **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        return self.as_sql(
            compiler, connection, template="round((julianday(%(expressions)s) - 2440587.5) * 86400.0, 3)", **context
        )


def recent_durations(job_ids: Collection[int], now: datetime, most: int) -> dict[int, list[int]]:
    """Return, of the ``most`` newest runs of each job that were due by ``now``, how many milliseconds those took that
    completed; no order. One statement for `IDS_PER_QUERY` jobs."""
    found: dict[int, list[int]] = {}
    sql = _NEWEST.format(aggregate="json_agg" if is_postgresql() else "json_group_array")
    for some in chunks(sorted(job_ids), IDS_PER_QUERY):
        listed, parameters = row_list("asked", {"job_id": "bigint"}, [(job_id,) for job_id in some])
        with connection.cursor() as cursor:
            cursor.execute(f"WITH {listed} {sql}", [*parameters, adapted(now), most])
            for job_id, numbers in cursor.fetchall():
                found[job_id] = json.loads(numbers) if isinstance(numbers, str) else numbers or []
    return found
