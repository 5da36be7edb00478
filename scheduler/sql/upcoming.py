"""When something falls due: one text for both databases, three index look-ups a lane."""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from croniq_site.kernel.database import adapted, instant_of, row_list

_EARLIEST = (
    "(SELECT min(q.available_at) FROM scheduler_queueentry q WHERE q.state = {} AND q.lane_id = l.lane_id AND {})"
)


class Upcoming(NamedTuple):
    """``is_due``: something claimable is due; ``later``: the next instant at which something is; ``gated``: the next at
    which something is to be admitted (None: there is none)."""

    is_due: bool
    later: datetime | None
    gated: datetime | None


def upcoming(lane_ids: Sequence[int], now: datetime) -> Upcoming:
    """Return what is due in these lanes at ``now``, and what falls due next.

    All by the same ``now``: what is not due by it falls due after it, so that nothing lies in between unseen.
    """
    if not lane_ids:
        return Upcoming(False, None, None)
    sql, params = row_list("l", {"lane_id": "bigint"}, [(lane_id,) for lane_id in lane_ids])
    due = _EARLIEST.format(0, "q.available_at <= %s")
    later, gated = (_EARLIEST.format(state, "q.available_at > %s") for state in (0, 1))
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {sql} SELECT {due}, {later}, {gated} FROM l", [*params, *[adapted(now)] * 3])
        rows = cursor.fetchall()
    return Upcoming(any(row[0] is not None for row in rows), _first(rows, 1), _first(rows, 2))


def _first(rows: Sequence[tuple], column: int) -> datetime | None:
    return min((instant_of(row[column]) for row in rows if row[column] is not None), default=None)
