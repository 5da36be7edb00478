"""Whether this process can serve, and whether the workers that it needs beside it are at work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import Error

from croniq_site.kernel.clock import Clock
from croniq_site.kernel.database import patient_for
from croniq_site.kernel.migrated import lacking_migrations
from scheduler.queries.trouble import SILENT, pulse

LOCK_SECONDS = 3.0
"""So long a monitor's question waits for a table that somebody has locked. They come again and again, and each that
waited without end would keep a thread: in the end nobody would be answered, not even what asks whether we live."""


@dataclass(frozen=True)
class Tick:
    """``age_seconds`` since a worker of a kind last finished a pass; None: none ever did, or nobody knows."""

    age_seconds: float | None

    @property
    def is_ok(self) -> bool:
        return self.age_seconds is not None and self.age_seconds <= SILENT.total_seconds()


@dataclass(frozen=True)
class Readiness:
    """``lacking`` counts the migrations that are not applied; None where the database does not answer."""

    is_reachable: bool
    lacking: int | None
    materializer: Tick
    reaper: Tick

    @property
    def can_serve(self) -> bool:
        return self.is_reachable and self.lacking == 0

    @property
    def is_whole(self) -> bool:
        return self.can_serve and self.materializer.is_ok and self.reaper.is_ok


def readiness(clock: Clock) -> Readiness:
    """Look. Never raises for a database that is away or behind."""
    try:
        with patient_for(LOCK_SECONDS):
            now = clock.now()
            lacking = len(lacking_migrations())
    except Error:
        return Readiness(False, None, Tick(None), Tick(None))
    try:
        with patient_for(LOCK_SECONDS):
            ticks = pulse(now).ticks
    except Error:  # the tables of another version, or gone since
        ticks = {}
    return Readiness(True, lacking, _tick(ticks.get("materialize"), now), _tick(ticks.get("reap"), now))


def _tick(at: datetime | None, now: datetime) -> Tick:
    return Tick(None if at is None else max(0.0, (now - at).total_seconds()))
