"""When something falls due: one text for both databases, three index look-ups a lane."""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection

from croniq_site.kernel.database import adapted, instant_of, row_list
from scheduler.domain.work import HEAD_START

_EARLIEST = (
    "(SELECT min(q.available_at) FROM scheduler_queueentry q WHERE q.state = {} AND q.lane_id = l.lane_id AND {})"
)


class Upcoming(NamedTuple):
    """``is_due``: something claimable is due; ``later``: the next instant at which something is; ``gated``: the next at
    which something is to be admitted (None: there is none)."""

    is_due: bool
    later: datetime | None
    gated: datetime | None


def upcoming(lane_ids: Sequence[int], now: datetime, late: Collection[int] = ()) -> Upcoming:
    """Return what is due in these lanes at ``now``, and what falls due next.

    All by the same ``now``: what is not due by it falls due after it, so that nothing lies in between unseen. In the
    lanes of ``late`` a run is seen HEAD_START after it fell due, and that is the instant meant here.
    """
    if not lane_ids:
        return Upcoming(False, None, None)
    seen = [(lane_id, now - HEAD_START if lane_id in late else now) for lane_id in lane_ids]
    sql, params = row_list("l", {"lane_id": "bigint", "due_at": "timestamptz"}, seen)
    due, later = (_EARLIEST.format(0, f"q.available_at {side} l.due_at") for side in ("<=", ">"))
    gated = _EARLIEST.format(1, "q.available_at > %s")
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {sql} SELECT l.lane_id, {due}, {later}, {gated} FROM l", [*params, adapted(now)])
        rows = cursor.fetchall()
    falls_due = [instant_of(at) + (HEAD_START if lane_id in late else timedelta(0)) for lane_id, _, at, _ in rows if at]
    return Upcoming(
        is_due=any(row[1] is not None for row in rows),
        later=min(falls_due, default=None),
        gated=min((instant_of(row[3]) for row in rows if row[3] is not None), default=None),
    )
