"""Retention on demand: its chores, until nothing is left for them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from croniq_site.kernel.database import WRITE_BATCH_ROWS
from scheduler.queries.prunable import KINDS, prunable
from scheduler.services.newest import drop_runs_beyond_newest
from scheduler.workers.reaper import CHORES


def prune(now: datetime, limit: int = WRITE_BATCH_ROWS) -> dict[str, int]:
    """Delete all that is due to go, ``limit`` rows a batch, and return how many of each of `KINDS` went.

    Round by round: what a run was kept for, a letter or a replay, may go before it.
    """
    gone = dict.fromkeys(KINDS, 0)
    while sum(found := [_exhaust(kind, now, limit) for kind in KINDS]):
        for kind, count in zip(KINDS, found, strict=True):
            gone[kind] += count
    return gone


def _exhaust(kind: str, now: datetime, limit: int) -> int:
    """Do one chore until it finds no more. Counted, since a chore that says ``limit`` means that there may be more."""
    before = prunable(now, kind)
    if before:
        every_job(now, limit) if kind == "newest_runs" else _until_done(CHORES[kind], now, limit)
    return before - prunable(now, kind) if before else 0


def every_job(now: datetime, limit: int) -> None:
    after_job = 0
    while True:
        dropped, after_job = drop_runs_beyond_newest(now, limit, after_job=after_job)
        if not after_job and dropped < limit:
            return


def _until_done(chore: Callable[[datetime, int], int], now: datetime, limit: int) -> None:
    while chore(now, limit) >= limit:
        pass
