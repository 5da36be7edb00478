"""What `/metrics` measures, as statements. The states are literals: SQLite reads a partial index only then.

One text for both databases; none of them costs more with more finished runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import IDS_PER_QUERY, adapted, chunks, instant_of, row_list, uuid_of

DEPTH = "SELECT count(*) FROM scheduler_queueentry WHERE state IN (0, 1, 2) AND available_at <= %s"

# Ready and gated apart: each is the whole of one index, and neither has a row of what is held on purpose.
OLDEST = """
SELECT min(oldest) FROM (
    SELECT min(available_at) AS oldest FROM scheduler_queueentry WHERE state = 0
    UNION ALL
    SELECT min(available_at) FROM scheduler_queueentry WHERE state = 1
) waiting
"""

# What waits, what a pause holds, what runs, since when something waits, and whether all of it is held, in one journey.
QUEUE = f"""
SELECT w.waiting, w.held,
    (SELECT count(*) FROM scheduler_queueentry WHERE state IN (3, 4) AND state = 3), ({OLDEST}),
    EXISTS (SELECT 1 FROM scheduler_maintenance WHERE is_on)
FROM (
    SELECT count(CASE WHEN state <> 2 THEN 1 END) AS waiting, count(CASE WHEN state = 2 THEN 1 END) AS held
    FROM scheduler_queueentry WHERE state IN (0, 1, 2) AND (available_at <= %s OR attempt > 0)
) w
"""  # noqa: S608

WAITING = """
SELECT lane_id, count(*) FROM scheduler_queueentry WHERE state = 0 AND available_at <= %s GROUP BY lane_id
"""

# What waits to be told has its index; what is held back on purpose (a snooze, a quiet day) does not count.
ALERTS = """
SELECT (SELECT count(*) FROM scheduler_alert WHERE next_at IS NOT NULL AND held = ''),
    (SELECT count(*) FROM scheduler_alertchannel WHERE deleted_at IS NULL AND failures >= %s)
"""
SILENT_CHANNELS = """
SELECT c.tenant, c.name, c.failures, count(a.id) AS waiting, min(a.created_at) AS oldest
FROM scheduler_alertchannel c
LEFT JOIN scheduler_alert a ON a.channel_id = c.id AND a.next_at IS NOT NULL AND a.held = ''
WHERE c.deleted_at IS NULL AND c.failures >= %s
GROUP BY c.id, c.tenant, c.name, c.failures
"""
LETTERS_AND_CHANNELS = f"""
SELECT l.letters, s.* FROM (SELECT count(*) AS letters FROM scheduler_deadletter) l
LEFT JOIN ({SILENT_CHANNELS}) s ON 1 = 1 ORDER BY s.tenant, s.name
"""  # noqa: S608

# Of a limited job's gated run nothing is late: it waits for its turn. What never was attempted and is due later is a
# planned fire, unless somebody asked for it: then it waits since that.
JOBS = """
SELECT j.id, j.job_key, j.is_active AND j.paused_at IS NULL,
    (
        SELECT q.available_at FROM scheduler_queueentry q
        WHERE q.job_id = j.id AND q.state IN (0, 1, 2) AND q.state = 0 AND q.available_at < %s
        ORDER BY q.available_at, q.run_id LIMIT 1
    ),
    (
        SELECT q.lane_id FROM scheduler_queueentry q
        WHERE q.job_id = j.id AND q.state IN (0, 1, 2) AND q.state = 0 AND q.available_at < %s
        ORDER BY q.available_at, q.run_id LIMIT 1
    ),
    (
        SELECT q.available_at FROM scheduler_queueentry q
        WHERE q.job_id = j.id AND q.state IN (0, 1, 2) AND q.attempt = 0 AND q.available_at > %s
            AND q.waits_since IS NULL
        ORDER BY q.available_at LIMIT 1
    )
FROM scheduler_job j WHERE j.deleted_at IS NULL
ORDER BY j.job_key
"""

# In the order of the index, up to the first that completed.
SUCCESSES = """
SELECT (
    SELECT r.id FROM scheduler_run r
    WHERE r.job_id = asked.job_id AND r.scheduled_for > asked.since AND r.scheduled_for <= %s
        AND r.verdict = 'completed'
    ORDER BY r.scheduled_for DESC, r.id DESC LIMIT 1
) FROM asked
"""
RECENT_SUCCESSES = """
SELECT (
    SELECT newest.id FROM (
        SELECT r.id, r.scheduled_for, r.verdict FROM scheduler_run r
        WHERE r.job_id = asked.job_id AND r.scheduled_for > asked.since AND r.scheduled_for <= %s
        ORDER BY r.scheduled_for DESC, r.id DESC LIMIT %s
    ) newest
    WHERE newest.verdict = 'completed' ORDER BY newest.scheduled_for DESC, newest.id DESC LIMIT 1
) FROM asked
"""


class QueueNow(NamedTuple):
    """Runs that wait (due, or to be tried again), those that a pause holds besides, claimed runs, the earliest instant
    at which any fell due that waits, and if a maintenance holds them."""

    waiting: int
    held: int
    running: int
    oldest_at: datetime | None
    is_held: bool


class SilentChannel(NamedTuple):
    """An alert channel that has not answered ``failures`` attempts, one after the other; how many alerts wait for it,
    and when the oldest of them was written."""

    tenant: str
    name: str
    failures: int
    waiting: int
    oldest_at: datetime | None


class JobFacts(NamedTuple):
    """A job that is not deleted. ``late_at``: since when a run of it is ready and unclaimed, if since before the
    instant asked for, and the lane of that run; ``planned_at``: the next fire that is a run already."""

    job_id: int
    job_key: str
    is_running: bool
    late_at: datetime | None
    late_lane_id: int | None
    planned_at: datetime | None

    @property
    def is_late(self) -> bool:
        return self.late_at is not None


def due_unclaimed(now: datetime) -> int:
    return _rows(DEPTH, now)[0][0]


def oldest_waiting_at() -> datetime | None:
    return instant_of(_rows(OLDEST)[0][0])


def alerts_waiting_and_silent_channels(failures: int) -> tuple[int, int]:
    """Count the alerts that are due and were not told yet, of all channels, and the channels of `silent_channels`."""
    waiting, channels = _rows(ALERTS, failures)[0]
    return waiting, channels


def silent_channels(failures: int) -> list[SilentChannel]:
    """Return the alert channels that have not answered ``failures`` attempts or more, by tenant and name."""
    return _channels(_rows(f"{SILENT_CHANNELS} ORDER BY c.tenant, c.name", failures))


def letters_and_silent_channels(failures: int) -> tuple[int, list[SilentChannel]]:
    """Count the letters that are kept, and return `silent_channels`, in one journey."""
    rows = _rows(LETTERS_AND_CHANNELS, failures)
    return rows[0][0], _channels(row[1:] for row in rows if row[1] is not None)


def _channels(rows: Iterable[tuple[Any, ...]]) -> list[SilentChannel]:
    return [SilentChannel(*row, instant_of(oldest)) for *row, oldest in rows]


def waiting_by_lane(now: datetime) -> dict[int, int]:
    """Count the due runs that are claimable, by lane."""
    return dict(_rows(WAITING, now))


def queue_now(now: datetime) -> QueueNow:
    waiting, held, running, oldest, is_held = _rows(QUEUE, now)[0]
    return QueueNow(waiting, held, running, instant_of(oldest), bool(is_held))


def job_facts(now: datetime, late_before: datetime) -> list[JobFacts]:
    """Return every job that is not deleted, by key; ``is_running``: neither paused nor switched off."""
    return [
        JobFacts(job_id, job_key, bool(is_running), instant_of(late_at), late_lane_id, instant_of(planned_at))
        for job_id, job_key, is_running, late_at, late_lane_id, planned_at in _rows(JOBS, late_before, late_before, now)
    ]


def newest_successes(asked: Sequence[tuple[int, datetime]], now: datetime, most: int | None = None) -> list[UUID]:
    """Return the newest completed run of each job of ``asked`` (job id, since) that has one with ``scheduled_for`` in
    (since, now], among its ``most`` newest (all, if None)."""
    sql, limits = (SUCCESSES, []) if most is None else (RECENT_SUCCESSES, [most])
    found: list[UUID] = []
    for some in chunks(asked, IDS_PER_QUERY):
        listed, parameters = row_list("asked", {"job_id": "bigint", "since": "timestamptz"}, some)
        rows = _rows(f"WITH {listed} {sql}", *parameters, now, *limits)
        found += [uuid_of(run_id) for (run_id,) in rows if run_id is not None]
    return found


def _rows(sql: str, *parameters: Any) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, [adapted(value) for value in parameters])
        return cursor.fetchall()
