"""The unit of work of whoever sends alerts, and how a process does it beside its own."""

from __future__ import annotations

import threading

from django.db import connections

from croniq_site.kernel.clock import Clock, DatabaseClock
from croniq_site.kernel.loop import run_loop
from croniq_site.kernel.stop import StopToken
from scheduler.services.alerts.deliver import deliver_next
from scheduler.services.alerts.transports import PROCESS_SECONDS_MOST

PAUSE_SECONDS = 2.0
"""Between looks when nothing is due."""
REST_SECONDS = 0.1
"""Between alerts: a storm of them leaves the cores to claims. Eight or nine a second are told by each sender."""
END_SECONDS = PROCESS_SECONDS_MOST + 5
"""So long the end of a process waits for what is being sent: what is taken after it is sent once more by another."""


def pass_once(clock: Clock) -> float:
    """Send one alert; returns the seconds until the next look."""
    return REST_SECONDS if deliver_next(clock) else PAUSE_SECONDS


class AlertThread:
    """Sends alerts in a thread of its own until the token is set: a receiver that hangs holds up nothing else."""

    def __init__(self, stop: StopToken) -> None:
        self._stop, self._clock = stop, DatabaseClock()
        # A daemon: a receiver that hangs does not keep the process from ending; the lease gives the alert back.
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def __enter__(self) -> AlertThread:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.stop()
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        try:
            run_loop("alerts", lambda: pass_once(self._clock), self._stop)
        finally:
            connections.close_all()
