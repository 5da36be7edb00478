"""The hot statements on PostgreSQL: each is one statement, its text the same whatever the number of rows.

Lists travel as arrays. Whoever waits for row locks of entries takes them in the order of run ids; whoever cannot
promise that skips locked rows. So two of our statements never wait for each other in a circle.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from django.db import DatabaseError, connection

from scheduler.domain.work import HEAD_START, Ack, Claimed
from scheduler.sql.low_water import LowWater
from scheduler.sql.prepared import array, rows_of
from scheduler.sql.rows import Closed, Pick, Seats, json_of, limited_sql

SKIP_LOCKED = "FOR UPDATE SKIP LOCKED"
LOW_WATER = LowWater()
_log = logging.getLogger(__name__)

# - `current` shares the holders' rows: a takeover that deposes one waits for us and then finds our claims, or we wait
#   for it and find nobody to claim for (READ COMMITTED looks at the row again after the wait).
#   So with whoever drains one. While maintenance is on there is nobody to claim for.
# - `seats` deals the wanted runs out in turn, so that ten runners that wait together share ten runs.
# - `hungry` are the tenants that have something due, in their turn, and no more of them than there are seats: one look
#   into the claimable index for each of their lanes, until one is found.
# - `picked` goes around twice: every hungry tenant gets its share of the seats at most, then what is left is filled up
#   in the same order, behind what the tenant has got already. The laterals look into one lane after the other and stop
#   at the last seat: exactly as many rows are locked as are taken, lanes not reached cost nothing. The inner LIMIT is
#   never reached; it is there for the planner, who takes one that he cannot know for a tenth of the rows, and so reads
#   the index in order instead of sorting what the whole lane has.
CLAIM = """
WITH current AS MATERIALIZED (
    SELECT a.ask, a.holder_id, a.want
    FROM unnest(%s::bigint[], %s::int[]) WITH ORDINALITY AS a(holder_id, want, ask)
    JOIN runners_runnerinstance i ON i.id = a.holder_id
    WHERE i.deposed_at IS NULL AND NOT i.is_drained
        AND NOT EXISTS (SELECT 1 FROM scheduler_maintenance WHERE is_on)
    ORDER BY i.id
    FOR SHARE OF i
), seats AS MATERIALIZED (
    SELECT c.ask, c.holder_id, row_number() OVER (ORDER BY turn, c.ask) AS seat
    FROM current c, generate_series(1, c.want) AS turn
), hungry AS MATERIALIZED (
    SELECT t.turn, t.lane_ids, t.marks
    FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS t(lane_ids, marks, turn),
    LATERAL (
        SELECT 1
        FROM (
            SELECT lane_id, COALESCE(mark, '-infinity') AS begins_at,
                CASE WHEN lane_id = ANY (%s::bigint[]) THEN %s::timestamptz ELSE %s::timestamptz END AS due_at
            FROM unnest(t.lane_ids::bigint[], t.marks::timestamptz[]) AS a(lane_id, mark)
        ) l,
        LATERAL (
            SELECT 1 FROM scheduler_queueentry d
            WHERE d.state = 0 AND d.lane_id = l.lane_id AND d.available_at <= l.due_at AND d.run_id <> ALL (%s::uuid[])
                AND d.available_at >= l.begins_at
            ORDER BY d.available_at, d.run_id
            LIMIT 1
        ) due
        LIMIT 1
    ) has_due
    LIMIT (SELECT count(*) FROM seats)
), turns AS (
    SELECT around, h.turn, h.lane_ids, h.marks,
        ceil((SELECT count(*) FROM seats)::numeric / (SELECT count(*) FROM hungry)) AS share
    FROM generate_series(1, 2) AS around, hungry h
    ORDER BY around, h.turn
), picked AS MATERIALIZED (
    SELECT t.around, t.turn, q.place, q.run_id, q.attempt, q.max_attempts, q.available_at
    FROM turns t,
    LATERAL (
        SELECT l.place, due.*
        FROM (
            SELECT lane_id, place, COALESCE(mark, '-infinity') AS begins_at,
                CASE WHEN lane_id = ANY (%s::bigint[]) THEN %s::timestamptz ELSE %s::timestamptz END AS due_at
            FROM unnest(t.lane_ids::bigint[], t.marks::timestamptz[]) WITH ORDINALITY AS a(lane_id, mark, place)
        ) l,
        LATERAL (
            SELECT e.run_id, e.attempt, e.max_attempts, e.available_at
            FROM scheduler_queueentry e
            WHERE e.state = 0 AND e.lane_id = l.lane_id AND e.available_at <= l.due_at AND e.run_id <> ALL (%s::uuid[])
                AND e.available_at >= l.begins_at
            ORDER BY e.available_at, e.run_id
            LIMIT 2 * (SELECT count(*) FROM seats)
            FOR UPDATE SKIP LOCKED
        ) due
        LIMIT CASE t.around WHEN 1 THEN t.share END OFFSET CASE t.around WHEN 1 THEN 0 ELSE t.share END
    ) q
    LIMIT (SELECT count(*) FROM seats)
), once AS (
    -- A row that another claim lets go between the two looks moves those behind it: it is not taken twice for that.
    SELECT DISTINCT ON (run_id) * FROM picked ORDER BY run_id, around
), dealt AS (
    -- By way of an array: the planner takes it for ten rows, and looks runs and entries up by their keys.
    SELECT run_id, seat
    FROM (
        SELECT array_agg(run_id ORDER BY around, turn, place, available_at, run_id) AS run_ids
        FROM once
        WHERE attempt < max_attempts
    ) live, unnest(live.run_ids) WITH ORDINALITY AS d(run_id, seat)
), claimed AS (
    UPDATE scheduler_queueentry q
    SET state = 3, attempt = q.attempt + 1, holder_id = s.holder_id, claimed_at = n.now,
        lease_expires_at = n.now + make_interval(secs => q.lease_seconds),
        deadline_at = n.now + make_interval(secs => q.timeout_seconds)
    FROM dealt d JOIN seats s ON s.seat = d.seat, (SELECT %s::timestamptz AS now) n
    WHERE q.run_id = d.run_id AND q.state = 0
    RETURNING q.run_id, q.job_id, q.lane_id, q.attempt, q.holder_id, q.available_at, q.lease_seconds,
        q.timeout_seconds, s.ask, s.seat
)
SELECT c.run_id, c.ask, c.job_id, c.lane_id, c.attempt, c.holder_id, c.available_at, r.scheduled_for, c.lease_seconds,
    c.timeout_seconds, r.metadata, c.seat
FROM claimed c JOIN scheduler_run r ON r.id = c.run_id
UNION ALL
SELECT run_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM once WHERE attempt >= max_attempts
ORDER BY seat NULLS LAST, run_id
"""

# `held` locks in the order of run ids and looks at the guard again after a wait; the DELETE then takes what is ours.
# Runs that hold slots are named and left: what they hold goes on to others in the same transaction, and this is none.
# `state + 0` keeps the planner from the partial indexes: where he believes that hardly anything is claimed he would
# read all claims from one of them for every ack, instead of each entry by its key.
COMPLETE = """
WITH acks AS MATERIALIZED (
    SELECT * FROM unnest(%s::uuid[], %s::bigint[], %s::text[], %s::bigint[])
        AS a(run_id, attempt, runner_id, duration_ms)
), held AS MATERIALIZED (
    SELECT q.run_id, q.job_id, q.attempt, q.holder_id, r.runner_id, a.duration_ms, LIMITED AS is_limited
    FROM acks a
    JOIN scheduler_queueentry q ON q.run_id = a.run_id
    JOIN scheduler_job j ON j.id = q.job_id
    JOIN runners_runnerinstance i ON i.id = q.holder_id
    JOIN runners_runner r ON r.id = i.runner_id
    WHERE q.state + 0 = 3 AND q.attempt = a.attempt AND r.runner_id = a.runner_id
    ORDER BY q.run_id
    FOR UPDATE OF q
), done AS (
    DELETE FROM scheduler_queueentry q USING held h
    WHERE q.run_id = h.run_id AND q.state + 0 = 3 AND q.attempt = h.attempt AND q.holder_id = h.holder_id
        AND (%s::boolean OR NOT h.is_limited)
    RETURNING q.run_id, q.job_id, q.attempt, q.claimed_at, h.runner_id, h.duration_ms, h.is_limited
), freed AS (
    DELETE FROM scheduler_slot s USING done d WHERE s.run_id = d.run_id AND d.is_limited
), closed AS (
    UPDATE scheduler_run r
    SET verdict = 'completed', attempt = d.attempt, runner_id = d.runner_id, claimed_at = d.claimed_at,
        finished_at = n.now,
        duration_ms = COALESCE(
            d.duration_ms, GREATEST(0, floor(extract(epoch FROM n.now - d.claimed_at) * 1000))::bigint
        )
    FROM done d, (SELECT %s::timestamptz AS now) n
    WHERE r.id = d.run_id AND r.verdict IS NULL
    RETURNING r.id, r.job_id, d.is_limited, r.duration_ms
)
SELECT id, job_id, is_limited, duration_ms, true FROM closed
UNION ALL
SELECT run_id, job_id, true, NULL, false FROM held WHERE is_limited AND NOT %s::boolean
"""

RENEW_HELD = """
WITH held AS MATERIALIZED (
    SELECT q.run_id, q.holder_id
    FROM unnest(%s::bigint[], %s::uuid[]) AS a(holder_id, run_id)
    JOIN scheduler_queueentry q ON q.run_id = a.run_id
    WHERE q.state + 0 = 3 AND q.holder_id = a.holder_id
    ORDER BY q.run_id
    FOR UPDATE OF q
)
UPDATE scheduler_queueentry q
SET lease_expires_at = GREATEST(q.lease_expires_at, %s::timestamptz + make_interval(secs => q.lease_seconds))
FROM held h
WHERE q.run_id = h.run_id AND q.state + 0 = 3 AND q.holder_id = h.holder_id
RETURNING q.holder_id, q.run_id
"""


def claim_rows(
    now: datetime,
    seats: Seats,
    tenants: Sequence[Sequence[int]],
    listed: Sequence[UUID],
    late: Collection[int] = (),
) -> list[Pick]:
    """Take what is due for the seats from the lanes of ``tenants``, who come in their turn; never a run of ``listed``.

    No tenant gets more than its share (the seats by the number of tenants with something due, rounded up) before all
    had theirs; what is left is filled up in the same order. Within a tenant the lanes go in order, within a lane the
    oldest goes first, then the smaller id. A run in a lane of ``late`` is seen only HEAD_START after it fell due.

    Each claimed run has its attempt counted, holder, lease and deadline. Runs whose attempts are used up are locked and
    returned without `Claimed`, to be buried in the same transaction. Only current instances get anything.
    """
    marks = LOW_WATER.marks(tenants)
    picks = _looked(now, seats, tenants, listed, late, marks)
    if marks and len(picks) < sum(seats.wants):
        # There may be more before the marks. What was taken already is committed, or has its place in a transaction.
        LOW_WATER.forget(marks)
        got = Counter(pick.ask for pick in picks if pick.claimed is not None)
        wants = [want - got[ask] for ask, want in enumerate(seats.wants)]
        try:
            more = _looked(now, Seats(seats.holders, wants), tenants, listed, late, {})
        except DatabaseError:
            if connection.in_atomic_block or not got:
                raise
            _log.warning("a claim did not look for more", exc_info=True)
            return picks
        known = {pick.run_id for pick in picks}
        picks += [pick for pick in more if pick.run_id not in known]
    return picks


def _looked(
    now: datetime,
    seats: Seats,
    tenants: Sequence[Sequence[int]],
    listed: Sequence[UUID],
    late: Collection[int],
    marks: Mapping[int, datetime],
) -> list[Pick]:
    """One statement; it reads the lanes of ``marks`` from there."""
    began = time.monotonic()
    picks = [_pick(row) for row in rows_of(CLAIM, claim_parameters(now, seats, tenants, listed, late, marks))]
    firsts: dict[int, datetime] = {}
    for pick in picks:
        if (claimed := pick.claimed) is not None:
            first = firsts.get(claimed.lane_id)
            if first is None or claimed.available_at < first:
                firsts[claimed.lane_id] = claimed.available_at
    LOW_WATER.note(firsts, marks, began)
    return picks


def claim_parameters(
    now: datetime,
    seats: Seats,
    tenants: Sequence[Sequence[int]],
    listed: Sequence[UUID],
    late: Collection[int] = (),
    marks: Mapping[int, datetime] | None = None,
) -> list[object]:
    lanes, listed = "{" + ",".join([_quoted(tuple(lane_ids)) for lane_ids in tenants]) + "}", array(listed)
    seen = [array(late), now - HEAD_START, now, listed]
    return [array(seats.holders), array(seats.wants), lanes, _marks_text(tenants, marks or {}), *seen, *seen, now]


def _marks_text(tenants: Sequence[Sequence[int]], marks: Mapping[int, datetime]) -> str:
    """As the lanes: one text of an array a tenant; what is missing behind its end is no mark."""
    if not marks:
        return "{}"
    texts = [array(marks[i].isoformat() if i in marks else "NULL" for i in lane_ids) for lane_ids in tenants]
    return "{" + ",".join([f'"{text}"' for text in texts]) + "}"


@lru_cache(maxsize=10_000)
def _quoted(lane_ids: tuple[int, ...]) -> str:
    """A tenant's lanes as an element of an array of arrays' texts."""
    return f'"{array(lane_ids)}"'


def _pick(row: tuple) -> Pick:
    run_id, ask, job_id, lane_id, attempt, holder_id, available_at, scheduled_for, lease, timeout, metadata, _ = row
    if ask is None:
        return Pick(run_id)
    claimed = Claimed(
        run_id=run_id,
        job_id=job_id,
        lane_id=lane_id,
        attempt=attempt,
        holder_id=holder_id,
        available_at=available_at,
        scheduled_for=scheduled_for,
        lease_seconds=lease,
        timeout_seconds=timeout,
        metadata=json_of(metadata),
    )
    return Pick(run_id, ask - 1, claimed)


def complete(acks: Sequence[Ack], now: datetime, *, limited: bool = False) -> list[Closed]:
    """Close the runs of those ``acks`` (of distinct runs) whose attempt their runner holds.

    Those of limited jobs are only named (``is_closed`` False) unless ``limited``: then their slots are given back, and
    whoever asks for that hands them on in the same transaction.
    """
    return [Closed(*row) for row in rows_of(complete_text(), complete_parameters(acks, now, limited=limited))]


def complete_text() -> str:
    return COMPLETE.replace("LIMITED", limited_sql())


def complete_parameters(acks: Sequence[Ack], now: datetime, *, limited: bool) -> list[object]:
    acks = sorted(acks, key=lambda ack: ack.run_id)
    return [
        array(ack.run_id for ack in acks),
        array(ack.attempt for ack in acks),
        [ack.runner_id for ack in acks],
        array("NULL" if ack.duration_ms is None else ack.duration_ms for ack in acks),
        limited,
        now,
        limited,
    ]


def renew_held(claims: Sequence[tuple[int, UUID]], now: datetime) -> set[tuple[int, UUID]]:
    """Extend the leases of those of ``claims`` (holder, run) that the holder has claimed; never shorten one."""
    holders, run_ids = array(holder for holder, _ in claims), array(run_id for _, run_id in claims)
    return set(rows_of(RENEW_HELD, [holders, run_ids, now]))
