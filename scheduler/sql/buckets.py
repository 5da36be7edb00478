"""How many runs ended in stretches of time, from indexes alone but for those that have not ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from croniq_site.kernel.database import adapted, instant_of, row_list

_OF_STRETCH = "r.scheduled_for >= d.begins AND r.scheduled_for < d.ends AND r.scheduled_for <= %s{of_tenant}"
_OF_TENANT = " AND r.job_id IN (SELECT id FROM scheduler_job WHERE tenant = %s)"

# No index names the column that success changes, so what completed is what remains. Problems are literals: SQLite reads
# a partial index only then. What has not ended is in the queue, where what is due later and was never tried is planned;
# CROSS JOIN keeps SQLite, once it has counted its tables, from beginning with the runs.
_ENDED = """
SELECT d.begins,
    (SELECT count(*) FROM scheduler_run r WHERE {of_stretch}),
    (SELECT count(*) FROM scheduler_run r WHERE {of_stretch} AND r.problem = 'failed'),
    (SELECT count(*) FROM scheduler_run r WHERE {of_stretch} AND r.problem = 'dead'),
    (SELECT count(*) FROM scheduler_run r WHERE {of_stretch} AND r.problem = 'cancelled'),
    (SELECT count(*) FROM scheduler_run r WHERE {of_stretch} AND r.problem = 'skipped'),
    0
FROM d
UNION ALL
SELECT d.begins, 0, 0, 0, 0, 0, count(*)
FROM scheduler_queueentry q CROSS JOIN scheduler_run r CROSS JOIN d
WHERE (q.available_at <= %s OR q.attempt > 0) AND r.id = q.run_id AND r.verdict IS NULL AND {of_stretch}
GROUP BY d.begins
"""


class EndedRuns(NamedTuple):
    """Runs that were scheduled for an instant in a stretch and have ended, by what became of them."""

    completed: int
    failed: int
    dead: int
    cancelled: int
    skipped: int


def ended_runs(
    stretches: Sequence[tuple[datetime, datetime]], now: datetime, tenant: str | None = None
) -> list[EndedRuns]:
    """Count the ended runs of each of ``stretches``, which are [begin, end) and no two of one begin, that were due by
    ``now``; of one tenant's jobs alone if one is given. One statement."""
    listed, parameters = row_list("d", {"begins": "timestamptz", "ends": "timestamptz"}, stretches)
    whose = [] if tenant is None else [tenant]
    sql = _ENDED.format(of_stretch=_OF_STRETCH.format(of_tenant=_OF_TENANT if whose else ""))
    at = adapted(now)
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {listed} {sql}", [*parameters, *[at, *whose] * 5, at, at, *whose])
        rows = [(instant_of(begins), numbers) for begins, *numbers in cursor.fetchall()]
    found = dict.fromkeys((begins for begins, _ in stretches), (0,) * 6)
    for begins, numbers in rows:
        found[begins] = tuple(map(sum, zip(found[begins], numbers, strict=True)))
    return [
        EndedRuns(total - failed - dead - cancelled - skipped - unfinished, failed, dead, cancelled, skipped)
        for total, failed, dead, cancelled, skipped, unfinished in found.values()
    ]
