"""The hot statements on SQLite: small ones, inside the one write transaction (BEGIN IMMEDIATE) that the service opened.

SQLite has one writer and no row locks: what a statement reads here stays true until the transaction ends. It silently
ignores `SKIP LOCKED`, so nothing here relies on it. A partial index serves only where its condition is written out;
that is why the states are literals.
"""

# ruff: noqa: S608 - the texts are ours, values travel as parameters

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import adapted, instant_of, row_list, uuid_of
from scheduler.domain.work import HEAD_START, Ack, Claimed
from scheduler.sql.rows import Closed, Pick, Seats, json_of, limited_sql

SKIP_LOCKED = ""

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
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM runners_runnerinstance "
            "WHERE deposed_at IS NULL AND id IN (SELECT value FROM json_each(%s)) "
            "AND NOT EXISTS (SELECT 1 FROM scheduler_maintenance WHERE is_on)",
            [json.dumps(list(seats.holders))],
        )
        current = {holder_id for (holder_id,) in cursor.fetchall()}
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
    due_at, late_at = adapted(now), adapted(now - HEAD_START)
    excluded = json.dumps([run_id.hex for run_id in listed])
    found: list[tuple] = []
    taken: dict[int, int] = {}

    with connection.cursor() as cursor:

        def due(lane_id: int, cap: int) -> list[tuple]:
            cursor.execute(DUE, [lane_id, late_at if lane_id in late else due_at, excluded, cap, taken.get(lane_id, 0)])
            return cursor.fetchall()

        has_due = (lane_ids for lane_ids in tenants if any(due(lane_id, 1) for lane_id in lane_ids))
        hungry = list(islice(has_due, most)) if len(tenants) > 1 else tenants
        for share in (-(-most // max(len(hungry), 1)), most):
            for lane_ids in hungry:
                room = min(share, most - len(found))
                for lane_id in lane_ids:
                    rows = due(lane_id, room) if room > 0 else []
                    taken[lane_id] = taken.get(lane_id, 0) + len(rows)
                    room -= len(rows)
                    found.extend(rows)
    return found


def _stamp(now: datetime, taken: Sequence[tuple[tuple, tuple[int, int]]]) -> None:
    columns = dict.fromkeys(["run_id", "holder_id", "claimed_at", "lease_expires_at", "deadline_at"], "")
    rows = [
        (row[0], holder_id, now, now + timedelta(seconds=row[6]), now + timedelta(seconds=row[7]))
        for row, (_, holder_id) in taken
    ]
    dealt, parameters = row_list("d", columns, rows)
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {dealt} UPDATE scheduler_queueentry AS q SET state = 3, attempt = q.attempt + 1, "
            "holder_id = d.holder_id, claimed_at = d.claimed_at, lease_expires_at = d.lease_expires_at, "
            "deadline_at = d.deadline_at FROM d WHERE q.run_id = d.run_id AND q.state = 0",
            parameters,
        )


def _facts_of_runs(keys: Sequence[str]) -> dict[str, tuple]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, scheduled_for, metadata FROM scheduler_run WHERE id IN (SELECT value FROM json_each(%s))",
            [json.dumps(list(keys))],
        )
        return {key: (scheduled_for, metadata) for key, scheduled_for, metadata in cursor.fetchall()}


def complete(acks: Sequence[Ack], now: datetime, *, limited: bool = False) -> list[Closed]:
    """As on PostgreSQL, but those of limited jobs too: the transaction is there anyway."""
    names = dict.fromkeys(["run_id", "attempt", "runner_id", "duration_ms"], "")
    said, parameters = row_list("a", names, [(a.run_id, a.attempt, a.runner_id, a.duration_ms) for a in acks])
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {said} SELECT q.run_id, q.job_id, q.attempt, q.claimed_at, r.runner_id, a.duration_ms, "
            f"{limited_sql()} FROM a "
            "JOIN scheduler_queueentry q ON q.run_id = a.run_id JOIN scheduler_job j ON j.id = q.job_id "
            "JOIN runners_runnerinstance i ON i.id = q.holder_id JOIN runners_runner r ON r.id = i.runner_id "
            "WHERE q.state = 3 AND q.attempt = a.attempt AND r.runner_id = a.runner_id",
            parameters,
        )
        held = cursor.fetchall()
        if not held:
            return []
        done = [
            (run_id, attempt, runner_id, claimed_at, now, _duration(duration_ms, claimed_at, now))
            for run_id, _, attempt, claimed_at, runner_id, duration_ms, _ in held
        ]
        ended, parameters = row_list(
            "d",
            dict.fromkeys(["run_id", "attempt", "runner_id", "claimed_at", "finished_at", "duration_ms"], ""),
            done,
        )
        cursor.execute(
            f"WITH {ended} DELETE FROM scheduler_queueentry "
            "WHERE state = 3 AND (run_id, attempt) IN (SELECT run_id, attempt FROM d)",
            parameters,
        )
        cursor.execute(
            f"WITH {ended} UPDATE scheduler_run AS r SET verdict = 'completed', attempt = d.attempt, "
            "runner_id = d.runner_id, claimed_at = d.claimed_at, finished_at = d.finished_at, "
            "duration_ms = d.duration_ms FROM d WHERE r.id = d.run_id AND r.verdict IS NULL",
            parameters,
        )
        with_slots = [run_id for run_id, *_, is_limited in held if is_limited]
        if with_slots:
            cursor.execute(
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
    said, parameters = row_list("a", {"holder_id": "", "run_id": ""}, claims)
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {said} SELECT q.holder_id, q.run_id, q.lease_seconds, q.lease_expires_at FROM a "
            "JOIN scheduler_queueentry q ON q.run_id = a.run_id WHERE q.state = 3 AND q.holder_id = a.holder_id",
            parameters,
        )
        held = [
            (holder_id, run_id, max(instant_of(expires_at), now + timedelta(seconds=lease)))
            for holder_id, run_id, lease, expires_at in cursor.fetchall()
        ]
        if not held:
            return set()
        renewed, parameters = row_list("d", {"holder_id": "", "run_id": "", "lease_expires_at": ""}, held)
        cursor.execute(
            f"WITH {renewed} UPDATE scheduler_queueentry AS q SET lease_expires_at = d.lease_expires_at "
            "FROM d WHERE q.run_id = d.run_id AND q.state = 3 AND q.holder_id = d.holder_id",
            parameters,
        )
    return {(holder_id, uuid_of(run_id)) for holder_id, run_id, _ in held}
