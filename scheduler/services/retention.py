"""Throw away what has outlived its time: keys, letters, log lines, runs, gaps, instances and runners, our own
heartbeats, sessions.

Each is a batch, oldest first, and returns how many went: as many as ``limit`` means that there may be more. What
somebody else has in hand is left to the next batch: a chore that waits for a row while it holds others would meet
another reaper, or an edit, in a circle.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef, QuerySet

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, write_transaction
from runners.models import Heartbeat, Outage, Runner, RunnerInstance
from runners.services.audit import Event, record_events
from scheduler.models import DeadLetter, IdempotencyKey, QueueEntry, Run, RunLog, SkippedSpan, Slot

DEPOSED_KEPT = timedelta(days=7)
"""So long a deposed process is known again, and refused, when it comes back."""
HEARTBEATS_KEPT = timedelta(days=7)
RUNS_PER_TRANSACTION = 100
"""With each run go its attempts and keys."""
LONG_SILENCE = timedelta(days=1)
SETTLES_WITHIN = timedelta(hours=1)


def has_settled(now: datetime) -> bool:
    """False for an hour after a day or more in which no server gave a sign of life.

    They were off, or the clock was set forward, by a year perhaps: nobody can tell, and by such a clock everything is
    old. That hour is for whoever sets it right.
    """
    lately = Outage.objects.filter(ended_at__gt=now - SETTLES_WITHIN).values_list("began_at", "ended_at")
    return all(ended_at - began_at < LONG_SILENCE for began_at, ended_at in lately)


def drop_expired_keys(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete expired keys; one whose run is live still stands for it and stays."""
    expired = IdempotencyKey.objects.filter(expires_at__lte=now, run__verdict__isnull=False).order_by("expires_at")
    with write_transaction():
        ids = _taken(expired, limit)
        # A key that was taken for a new run since is no longer expired.
        return IdempotencyKey.objects.filter(pk__in=ids, expires_at__lte=now).delete()[0]


def drop_expired_letters(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete letters past their retention. Their runs stay."""
    expired = DeadLetter.objects.filter(expires_at__lte=now).order_by("expires_at")
    with write_transaction():
        ids = _taken(expired, limit)
        return DeadLetter.objects.filter(pk__in=ids, expires_at__lte=now).delete()[0]


def drop_old_lines(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete log lines older than ``CRONIQ_LOG_RETENTION``, whatever became of their run."""
    until = _until(now, settings.CRONIQ_LOG_RETENTION_SECONDS)
    if until is None:
        return 0
    old = _oldest(RunLog.objects.all(), "logged_at", until, now, limit)
    if not old:
        return 0
    with write_transaction():
        return _delete_lines(_taken(RunLog.objects.filter(pk__in=old), limit))


def drop_old_spans(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete gaps that were recorded longer ago than ``CRONIQ_RUN_RETENTION``: they are told as long as runs are."""
    until = _until(now, settings.CRONIQ_RUN_RETENTION_SECONDS)
    if until is None:
        return 0
    old = _oldest(SkippedSpan.objects.all(), "recorded_at", until, now, limit)
    if not old:
        return 0
    with write_transaction():
        return SkippedSpan.objects.filter(pk__in=_taken(SkippedSpan.objects.filter(pk__in=old), limit)).delete()[0]


def drop_expired_sessions(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete sessions of browsers that are over; who begins to sign in with a provider and leaves has one too."""
    over = Session.objects.filter(expire_date__lt=now).order_by("expire_date")
    if not over.exists():
        return 0
    with write_transaction():
        # One that was prolonged meanwhile is not over.
        return Session.objects.filter(pk__in=_taken(over, limit), expire_date__lt=now).delete()[0]


def drop_old_runs(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete runs that ended longer ago than ``CRONIQ_RUN_RETENTION``, with their attempts and lines.

    A run whose letter is kept stays, and so does one that a kept run is the replay of.
    """
    until = _until(now, settings.CRONIQ_RUN_RETENTION_SECONDS)
    if until is None:
        return 0
    old = Run.objects.filter(
        ~Exists(QueueEntry.objects.filter(run=OuterRef("pk"))),
        ~Exists(DeadLetter.objects.filter(run=OuterRef("pk"))),
        ~Exists(Slot.objects.filter(run=OuterRef("pk"))),
        ~Exists(Run.objects.filter(replay_of=OuterRef("pk"))),
        verdict__isnull=False,
        scheduled_for__lt=until,
        finished_at__lt=until,
    )
    ids = list(old.order_by("scheduled_for", "pk").values_list("pk", flat=True)[:limit])
    if not ids:
        return 0
    with write_transaction():
        lines = _taken(RunLog.objects.filter(run_id__in=ids), limit)
        _delete_lines(lines)
    if len(lines) == limit:
        return limit
    dropped = 0
    for batch in chunks(ids, RUNS_PER_TRANSACTION):
        with write_transaction():
            # A skipped run may be revived by a backfill meanwhile.
            still = taken_still(old.filter(pk__in=batch), limit)
            Run.objects.filter(pk__in=still).delete()
            dropped += len(still)
    return dropped


def drop_deposed_instances(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete instances that were deposed more than seven days ago and hold nothing."""
    gone = RunnerInstance.objects.filter(
        ~Exists(QueueEntry.objects.filter(holder=OuterRef("pk"), state__in=_HELD)),
        deposed_at__lt=now - DEPOSED_KEPT,
    ).order_by("deposed_at")
    if not gone.exists():
        return 0
    with write_transaction():
        ids = _taken(gone, limit)
        return RunnerInstance.objects.filter(pk__in=ids, deposed_at__lt=now - DEPOSED_KEPT).delete()[0]


def drop_dead_runners(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Forget runners that have not polled for ``CRONIQ_RUNNER_RETENTION`` and hold nothing. Audited.

    The history of their runs stays; the id is nobody's then.
    """
    until = _until(now, settings.CRONIQ_RUNNER_RETENTION_SECONDS)
    if until is None:
        return 0
    dead = Runner.objects.filter(
        ~Exists(QueueEntry.objects.filter(holder__runner=OuterRef("pk"), state__in=_HELD)),
        # Kept as long as a process that lost this identity is.
        ~Exists(RunnerInstance.objects.filter(runner=OuterRef("pk"), deposed_at__gte=now - DEPOSED_KEPT)),
        last_poll_at__lt=until,
    )
    if not dead.exists():
        return 0
    with write_transaction():
        found = list(
            dead.select_for_update(skip_locked=True, of=("self",))
            .select_related("client")
            .order_by("last_poll_at")[
                : max(
                    1, limit // 3
                )  # each with its instance and an event
            ]
        )
        ids = [runner.pk for runner in found]
        RunnerInstance.objects.filter(runner_id__in=ids).delete()
        Runner.objects.filter(pk__in=ids, last_poll_at__lt=until).delete()
        record_events(
            [
                Event(
                    "runner.forgotten",
                    "runner",
                    runner.runner_id,
                    tenant=runner.client.tenant or "",
                    diff={"client": runner.client.name, "last_poll_at": runner.last_poll_at.isoformat()},
                )
                for runner in found
            ],
            now,
        )
    # A full batch must look full to the reaper, which then goes on at once.
    return limit if len(found) == max(1, limit // 3) else len(found)


def drop_old_heartbeats(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete rows of processes that have been silent for seven days, but never the last sign of a kind."""
    later = Heartbeat.objects.filter(kind=OuterRef("kind"), beat_at__gt=OuterRef("beat_at"))
    old = Heartbeat.objects.filter(Exists(later), beat_at__lt=now - HEARTBEATS_KEPT).order_by("beat_at")
    if not old.exists():
        return 0
    with write_transaction():
        ids = _taken(old, limit)
        return Heartbeat.objects.filter(pk__in=ids, beat_at__lt=now - HEARTBEATS_KEPT).delete()[0]


_HELD = (QueueEntry.State.CLAIMED, QueueEntry.State.STOPPING)


def _oldest(rows: QuerySet[Any], column: str, until: datetime, now: datetime, limit: int) -> list[Any]:
    """The ids of those that are older than ``until`` among the first ``limit``, without an index on the instant: ids
    are in the order in which the rows were made. What a clock that was ahead once made in a time to come is passed
    over: all that came after it would be kept until then."""
    first = rows.filter(**{f"{column}__lte": now}).order_by("pk").values_list("pk", column)
    if not any(at < until for _, at in first[:1]):
        return []
    return [pk for pk, at in first[:limit] if at < until]


def _taken(rows: QuerySet[Any], limit: int) -> list[Any]:
    """Lock what is free of these rows, at most ``limit``, and return their ids."""
    return list(rows.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)[:limit])


def taken_still(rows: QuerySet[Any], limit: int) -> list[Any]:
    """Lock what is free of these rows, at most ``limit``, and return the ids of those that belong to ``rows`` still.

    A statement that locks has looked before it has the lock: what was committed in between, such as the replay of a
    run, it does not see. Nobody adds to what is locked; so it is asked once more.
    """
    return list(rows.filter(pk__in=_taken(rows, limit)).values_list("pk", flat=True))


def _until(now: datetime, seconds: float) -> datetime | None:
    return now - timedelta(seconds=seconds) if seconds > 0 else None


def _delete_lines(ids: list[int]) -> int:
    return RunLog.objects.filter(pk__in=ids).delete()[0] if ids else 0
