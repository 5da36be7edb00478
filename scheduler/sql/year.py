"""How many runs a job had on each day, in one journey, from its indexes alone but for a few rows a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from croniq_site.kernel.database import adapted, instant_of, row_list

MOST_SKIPPED_LOOKED_AT = 100
"""So many skipped runs of a day are asked why."""
MOST_SPANS = 1000
MOST_UNFINISHED = 5000

_OF_DAY = "r.job_id = %s AND r.scheduled_for >= d.begins AND r.scheduled_for < d.ends AND r.scheduled_for <= %s"

# Gaps first: their columns say what the columns of the others are. Problems are literals: SQLite reads a partial index
# only then. Why a run was skipped stands in its row, so few of a day are looked at.
_YEAR = """
SELECT * FROM (
    SELECT 'gap' AS kind, s.first_at, s.last_at, s.reason, s.count AS total, 0 AS dead, 0 AS failed, 0 AS cancelled,
        0 AS skipped, 0 AS missed
    FROM scheduler_skippedspan s WHERE s.job_id = %s AND s.last_at >= %s AND s.first_at <= %s
    ORDER BY s.first_at DESC LIMIT {gaps}
) gaps
UNION ALL
SELECT 'unfinished', due.scheduled_for, due.scheduled_for, '', 1, 0, 0, 0, 0, 0 FROM (
    SELECT r.scheduled_for FROM scheduler_queueentry q JOIN scheduler_run r ON r.id = q.run_id
    WHERE q.job_id = %s AND q.state IN (0, 1, 2) AND r.scheduled_for <= %s
    UNION ALL
    SELECT r.scheduled_for FROM scheduler_queueentry q JOIN scheduler_run r ON r.id = q.run_id
    WHERE q.state IN (3, 4) AND q.state = 3 AND q.job_id = %s
    LIMIT {unfinished}
) due
UNION ALL
SELECT 'day', d.begins, d.ends, '',
    (SELECT count(*) FROM scheduler_run r WHERE {of_day}),
    (SELECT count(*) FROM scheduler_run r WHERE {of_day} AND r.problem = 'dead'),
    (SELECT count(*) FROM scheduler_run r WHERE {of_day} AND r.problem = 'failed'),
    (SELECT count(*) FROM scheduler_run r WHERE {of_day} AND r.problem = 'cancelled'),
    (SELECT count(*) FROM scheduler_run r WHERE {of_day} AND r.problem = 'skipped'),
    (SELECT count(*) FROM (
        SELECT r.reason FROM scheduler_run r WHERE {of_day} AND r.problem = 'skipped' LIMIT {looked_at}
    ) seen WHERE seen.reason IN ({missed}))
FROM d
"""


class YearRow(NamedTuple):
    """A day [first_at, last_at) with how many runs were scheduled for it, and what became of those that did not go
    well; ``missed`` of at most `MOST_SKIPPED_LOOKED_AT` skipped ones. Or (kind gap) ``total`` fires without a run from
    ``first_at`` to ``last_at``, or (unfinished) a run that was due and has not ended."""

    kind: str
    first_at: datetime
    last_at: datetime
    reason: str
    total: int
    dead: int
    failed: int
    cancelled: int
    skipped: int
    missed: int


def year_rows(
    job_id: int, days: Sequence[tuple[datetime, datetime]], now: datetime, missed: Sequence[str]
) -> list[YearRow]:
    """Return what there was in each of ``days`` up to ``now``; ``missed`` are the reasons that count as such."""
    listed, parameters = row_list("d", {"begins": "timestamptz", "ends": "timestamptz"}, days)
    sql = _YEAR.format(
        gaps=MOST_SPANS,
        unfinished=MOST_UNFINISHED,
        looked_at=MOST_SKIPPED_LOOKED_AT,
        of_day=_OF_DAY,
        missed=", ".join(["%s"] * len(missed)),
    )
    at: Any = adapted(now)
    since = adapted(min(begins for begins, _ in days))
    values = [job_id, since, at, job_id, at, job_id, *[job_id, at] * 6, *missed]
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {listed} {sql}", [*parameters, *values])
        rows = cursor.fetchall()
    return [YearRow(kind, instant_of(first), instant_of(last), *rest) for kind, first, last, *rest in rows]
