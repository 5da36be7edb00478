"""When something falls due: one text for both databases, two index look-ups a lane."""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from croniq_site.kernel.database import adapted, instant_of, row_list

_EARLIEST = (
    "(SELECT min(q.available_at) FROM scheduler_queueentry q WHERE q.state = 0 AND q.lane_id = l.lane_id AND {})"
)


def upcoming(lane_ids: Sequence[int], now: datetime) -> tuple[bool, datetime | None]:
    """Return whether anything claimable in these lanes is due at ``now``, and the first ``available_at`` after it.

    Both by the same ``now``: what is not due by it falls due after it, so that nothing lies in between unseen.
    """
    if not lane_ids:
        return False, None
    sql, params = row_list("l", {"lane_id": "bigint"}, [(lane_id,) for lane_id in lane_ids])
    due, later = _EARLIEST.format("q.available_at <= %s"), _EARLIEST.format("q.available_at > %s")
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {sql} SELECT {due}, {later} FROM l", [*params, adapted(now), adapted(now)])
        rows = cursor.fetchall()
    falls_due = [instant_of(row[1]) for row in rows if row[1] is not None]
    return any(row[0] is not None for row in rows), min(falls_due, default=None)
