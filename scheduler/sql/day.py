"""What a page reads of many runs at once, in a form that costs little to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import FloatField, Func

from croniq_site.kernel.database import IDS_PER_QUERY, adapted, chunks, is_postgresql, row_list

# SQLite has no LATERAL; PostgreSQL would carry out the other form for each pair of rows.
_NEWEST = {
    True: """
SELECT asked.job_id, r.duration_ms FROM asked CROSS JOIN LATERAL (
    SELECT n.duration_ms, n.verdict FROM scheduler_run n
    WHERE n.job_id = asked.job_id AND n.scheduled_for <= %s ORDER BY n.scheduled_for DESC, n.id DESC LIMIT %s
) r WHERE r.verdict = 'completed' AND r.duration_ms IS NOT NULL
""",
    False: """
SELECT asked.job_id, r.duration_ms FROM asked JOIN scheduler_run r ON r.id IN (
    SELECT n.id FROM scheduler_run n
    WHERE n.job_id = asked.job_id AND n.scheduled_for <= %s ORDER BY n.scheduled_for DESC, n.id DESC LIMIT %s
) WHERE r.verdict = 'completed' AND r.duration_ms IS NOT NULL
""",
}


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
    found: dict[int, list[int]] = defaultdict(list)
    for some in chunks(sorted(job_ids), IDS_PER_QUERY):
        listed, parameters = row_list("asked", {"job_id": "bigint"}, [(job_id,) for job_id in some])
        with connection.cursor() as cursor:
            cursor.execute(f"WITH {listed} {_NEWEST[is_postgresql()]}", [*parameters, adapted(now), most])
            for job_id, duration_ms in cursor.fetchall():
                found[job_id].append(duration_ms)
    return dict(found)
