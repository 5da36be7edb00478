"""The hot statements on SQLite: small ones, inside the one write transaction (BEGIN IMMEDIATE) that the service opened.

SQLite has one writer and no row locks: what a statement reads here stays true until the transaction ends. It silently
ignores `SKIP LOCKED`, so nothing here relies on it. A partial index serves only where its condition is written out;
that is why the states are literals.
"""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import instant_of, uuid_of
from scheduler.domain.work import HEAD_START, Ack, Claimed
from scheduler.sql.rows import Closed, Pick, Seats, json_of, limited_sql

SKIP_LOCKED = ""


def rows_of(text: str, parameters: Sequence[object]) -> list[tuple]:
    """Execute a statement of ours and return its rows: values are as SQLite keeps them, and nothing else looks at them.

    Django's cursors read the text at every call; where queries are logged it goes through them.
    """
    if connection.queries_logged:
        with connection.cursor() as cursor:
            cursor.execute(text, parameters)
            return cursor.fetchall()
    connection.ensure_connection()
    with connection.wrap_database_errors:
        return connection.connection.execute(_with_question_marks(text), parameters).fetchall()


@lru_cache(maxsize=500)
def _with_question_marks(text: str) -> str:
    return text.replace("%s", "?")


def text_of(instant: datetime) -> str:
    """As Django writes it, without looking at its settings for each value."""
    return str(instant.astimezone(UTC).replace(tzinfo=None))


def values(name: str, columns: str, rows: Sequence[Sequence[object]]) -> tuple[str, list[object]]:
    """`kernel.database.row_list` for rows whose values are as SQLite keeps them."""
    width = len(rows[0])
    one = f"({', '.join(['%s'] * width)})"
    return f"{name}({columns}) AS (VALUES {', '.join([one] * len(rows))})", list(chain.from_iterable(rows))


DUE = """
SELECT run_id, attempt, max_attempts, job_id, lane_id, available_at, lease_seconds, timeout_seconds
FROM scheduler_queueentry
WHERE state = 0 AND lane_id = %s AND available_at <= %s AND run_id NOT IN (SELECT value FROM json_each(%s))
ORDER BY available_at, run_id
LIMIT %s OFFSET %s
"""


def claim_rows(
    now: datetime,
    seats: Seats,
    tenants: Sequence[Sequence[int]],
    listed: Sequence[UUID],
    late: Collection[int] = (),
) -> list[Pick]:
    """As on PostgreSQL: the same runs, dealt to the same holders, in the same order."""
    places = _seats_in_turn(seats)
    rows = _picked(now, tenants, listed, late, len(places))
    live = [row for row in rows if row[1] < row[2]]
    taken = list(zip(live, places, strict=False))
    if taken:
        _stamp(now, taken)
    more = _facts_of_runs([row[0] for row, _ in taken])
    picks = []
    for (key, attempt, _, job_id, lane_id, available_at, lease, timeout), (ask, holder_id) in taken:
        scheduled_for, metadata = more[key]
        claimed = Claimed(
            run_id=uuid_of(key),
            job_id=job_id,
            lane_id=lane_id,
            attempt=attempt + 1,
            holder_id=holder_id,
            available_at=instant_of(available_at),
            scheduled_for=instant_of(scheduled_for),
            lease_seconds=lease,
            timeout_seconds=timeout,
            metadata=json_of(metadata),
        )
        picks.append(Pick(claimed.run_id, ask, claimed))
    return picks + [Pick(run_id) for run_id in sorted(uuid_of(row[0]) for row in rows if row[1] >= row[2])]


def _seats_in_turn(seats: Seats) -> list[tuple[int, int]]:
    """Return (index of the ask, holder) of each wanted run, dealt out in turn; current instances only."""
    found = rows_of(
        "SELECT id FROM runners_runnerinstance "
        "WHERE deposed_at IS NULL AND NOT is_drained AND id IN (SELECT value FROM json_each(%s)) "
        "AND NOT EXISTS (SELECT 1 FROM scheduler_maintenance WHERE is_on)",
        [json.dumps(list(seats.holders))],
    )
    current = {holder_id for (holder_id,) in found}
    turns = (
        [(turn, ask, holder_id) for turn in range(want)]
        for ask, (holder_id, want) in enumerate(zip(seats.holders, seats.wants, strict=True))
        if holder_id in current
    )
    return [(ask, holder_id) for _, ask, holder_id in sorted(chain.from_iterable(turns))]


def _picked(
    now: datetime, tenants: Sequence[Sequence[int]], listed: Sequence[UUID], late: Collection[int], most: int
) -> list[tuple]:
    """As `picked` on PostgreSQL: the hungry tenants in turn, each its share, then what is left in the same order."""
    due_at, late_at = text_of(now), text_of(now - HEAD_START)
    excluded = json.dumps([run_id.hex for run_id in listed])
    found: list[tuple] = []
    taken: dict[int, int] = {}

    def due(lane_id: int, cap: int) -> list[tuple]:
        seen_at = late_at if lane_id in late else due_at
        return rows_of(DUE, [lane_id, seen_at, excluded, cap, taken.get(lane_id, 0)])

    has_due = (lane_ids for lane_ids in tenants if any(due(lane_id, 1) for lane_id in lane_ids))
    hungry = list(islice(has_due, most)) if len(tenants) > 1 else tenants
    for share in (-(-most // max(len(hungry), 1)), most):
        for lane_ids in hungry:
            room = min(share, most - len(found))
            for lane_id in lane_ids:
                if room <= 0:
                    break
                rows = due(lane_id, room)
                taken[lane_id] = taken.get(lane_id, 0) + len(rows)
                room -= len(rows)
                found.extend(rows)
    return found


def _stamp(now: datetime, taken: Sequence[tuple[tuple, tuple[int, int]]]) -> None:
    at = text_of(now)
    ends = {seconds: text_of(now + timedelta(seconds=seconds)) for row, _ in taken for seconds in row[6:8]}
    rows = [(row[0], holder_id, at, ends[row[6]], ends[row[7]]) for row, (_, holder_id) in taken]
    dealt, parameters = values("d", "run_id, holder_id, claimed_at, lease_expires_at, deadline_at", rows)
    rows_of(
        f"WITH {dealt} UPDATE scheduler_queueentry AS q SET state = 3, attempt = q.attempt + 1, "
        "holder_id = d.holder_id, claimed_at = d.claimed_at, lease_expires_at = d.lease_expires_at, "
        "deadline_at = d.deadline_at FROM d WHERE q.run_id = d.run_id AND q.state = 0",
        parameters,
    )


def _facts_of_runs(keys: Sequence[str]) -> dict[str, tuple]:
    found = rows_of(
        "SELECT id, scheduled_for, metadata FROM scheduler_run WHERE id IN (SELECT value FROM json_each(%s))",
        [json.dumps(list(keys))],
    )
    return {key: (scheduled_for, metadata) for key, scheduled_for, metadata in found}


def complete(acks: Sequence[Ack], now: datetime, *, limited: bool = False) -> list[Closed]:
    """As on PostgreSQL, but those of limited jobs too: the transaction is there anyway."""
    said, parameters = values(
        "a",
        "run_id, attempt, runner_id, duration_ms",
        [(ack.run_id.hex, ack.attempt, ack.runner_id, ack.duration_ms) for ack in acks],
    )
    held = rows_of(
        f"WITH {said} SELECT q.run_id, q.job_id, q.attempt, q.claimed_at, r.runner_id, a.duration_ms, "
        f"{limited_sql()} FROM a "
        "JOIN scheduler_queueentry q ON q.run_id = a.run_id JOIN scheduler_job j ON j.id = q.job_id "
        "JOIN runners_runnerinstance i ON i.id = q.holder_id JOIN runners_runner r ON r.id = i.runner_id "
        "WHERE q.state = 3 AND q.attempt = a.attempt AND r.runner_id = a.runner_id",
        parameters,
    )
    if not held:
        return []
    at = text_of(now)
    done = [
        (run_id, attempt, runner_id, claimed_at, at, _duration(duration_ms, claimed_at, now))
        for run_id, _, attempt, claimed_at, runner_id, duration_ms, _ in held
    ]
    ended, parameters = values("d", "run_id, attempt, runner_id, claimed_at, finished_at, duration_ms", done)
    rows_of(
        f"WITH {ended} DELETE FROM scheduler_queueentry "
        "WHERE state = 3 AND (run_id, attempt) IN (SELECT run_id, attempt FROM d)",
        parameters,
    )
    rows_of(
        f"WITH {ended} UPDATE scheduler_run AS r SET verdict = 'completed', attempt = d.attempt, "
        "runner_id = d.runner_id, claimed_at = d.claimed_at, finished_at = d.finished_at, "
        "duration_ms = d.duration_ms FROM d WHERE r.id = d.run_id AND r.verdict IS NULL",
        parameters,
    )
    with_slots = [run_id for run_id, *_, is_limited in held if is_limited]
    if with_slots:
        rows_of(
            "DELETE FROM scheduler_slot WHERE run_id IN (SELECT value FROM json_each(%s))", [json.dumps(with_slots)]
        )
    return [
        Closed(uuid_of(run_id), job_id, bool(is_limited), duration_ms)
        for (run_id, job_id, *_, is_limited), (*_, duration_ms) in zip(held, done, strict=True)
    ]


def _duration(said_ms: int | None, claimed_at: str, now: datetime) -> int:
    if said_ms is not None:
        return said_ms
    return max(0, (now - instant_of(claimed_at)) // timedelta(milliseconds=1))


def renew_held(claims: Sequence[tuple[int, UUID]], now: datetime) -> set[tuple[int, UUID]]:
    """As on PostgreSQL."""
    said, parameters = values("a", "holder_id, run_id", [(holder_id, run_id.hex) for holder_id, run_id in claims])
    found = rows_of(
        f"WITH {said} SELECT q.holder_id, q.run_id, q.lease_seconds, q.lease_expires_at FROM a "
        "JOIN scheduler_queueentry q ON q.run_id = a.run_id WHERE q.state = 3 AND q.holder_id = a.holder_id",
        parameters,
    )
    held = [
        (holder_id, run_id, text_of(max(instant_of(expires_at), now + timedelta(seconds=lease))))
        for holder_id, run_id, lease, expires_at in found
    ]
    if not held:
        return set()
    renewed, parameters = values("d", "holder_id, run_id, lease_expires_at", held)
    rows_of(
        f"WITH {renewed} UPDATE scheduler_queueentry AS q SET lease_expires_at = d.lease_expires_at "
        "FROM d WHERE q.run_id = d.run_id AND q.state = 3 AND q.holder_id = d.holder_id",
        parameters,
    )
    return {(holder_id, uuid_of(run_id)) for holder_id, run_id, _ in held}
