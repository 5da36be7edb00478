"""A worker as a process: its loop, its sign of life, its end in good order."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.core.management.base import CommandError

from croniq_site.kernel import tracing
from croniq_site.kernel.clock import Clock, DatabaseClock
from croniq_site.kernel.loop import run_loop
from croniq_site.kernel.migrated import require_migrated
from croniq_site.kernel.service_manager import ServiceManager
from croniq_site.kernel.stop import StopToken
from runners.services.heartbeats import beat, end_heartbeat, start_heartbeat

_log = logging.getLogger(__name__)

Pass = Callable[[datetime], float]
"""One pass at an instant; returns the seconds until the next one. Zero: there was more to do than one pass does."""


def _refuse_other_tables() -> None:
    """End the process where the database, which was away at its start, is not for this version, or not yet."""
    try:
        require_migrated(waits=True)
    except CommandError as refusal:
        raise SystemExit(str(refusal)) from None


class Worker:
    """Repeats a pass with the database's clock until it is stopped, and keeps a row in `Heartbeat`.

    The pass in hand is finished when the token is set. A database that is away is waited for, also at the start.
    """

    def __init__(self, kind: str, work: Pass, clock: Clock | None = None) -> None:
        self.kind, self.work = kind, work
        self.clock = clock or DatabaseClock()
        self._process_id: UUID | None = None

    def run(self, stop: StopToken) -> None:
        tracing.start(self.kind)
        _log.info("%s: started", self.kind)
        manager = ServiceManager()
        # At once: a database that is away is waited for in the loop, not by whoever waits for the start.
        manager.ready()
        run_loop(self.kind, self.step, stop, alive=manager.alive, alive_seconds=manager.every_seconds)
        manager.stopping()
        self._end()
        _log.info("%s: stopped", self.kind)

    def run_once(self) -> None:
        """Pass after pass until all that is due is done. A failure is the caller's."""
        tracing.start(self.kind)
        try:
            while self.step() <= 0:
                pass
        finally:
            self._end()

    def step(self) -> float:
        """One pass with the sign of life after it: the row tells of passes that did their work, not of intentions."""
        if self._process_id is None:
            _refuse_other_tables()
            self._process_id = start_heartbeat(self.kind, self.clock.now())
        with tracing.live("croniq.tick"):
            pause = self.work(self.clock.now())
        beat(self._process_id, self.clock.now(), worked=True)
        return pause

    def _end(self) -> None:
        tracing.end()
        if self._process_id is None:
            return
        # A database that is away now does not keep the process from ending.
        with contextlib.suppress(Exception):
            end_heartbeat(self._process_id, self.clock.now())
        self._process_id = None
