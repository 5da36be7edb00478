"""The loop around a unit of work: pace, database outages, stopping. The work itself is elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import close_old_connections, connections

from croniq_site.kernel.database import is_outage
from croniq_site.kernel.stop import StopToken

_log = logging.getLogger(__name__)

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_MOST_SECONDS = 30.0


def backoff_seconds(failures: int, most: float = BACKOFF_MOST_SECONDS) -> float:
    """Seconds to wait after the ``failures``-th failure in a row (1-based): doubling from 0.5 to at most ``most``."""
    return min(most, BACKOFF_FIRST_SECONDS * 2 ** min(failures - 1, 16))


def run_loop(
    name: str,
    step: Callable[[], float],
    stop: StopToken,
    *,
    most_backoff_seconds: float = BACKOFF_MOST_SECONDS,
    alive: Callable[[], None] = lambda: None,
    alive_seconds: float | None = None,
) -> None:
    """Call ``step`` until ``stop`` is set. ``step`` returns the seconds to wait before it is called again.

    ``alive`` is called after each pass and, where ``alive_seconds`` is given, so often while the next one is waited
    for; never while a pass is at work, which may be one that hangs.

    A database that is away is logged and waited for, with back-off; so is any other failure of a step, whose traceback
    is logged: a worker that dies of one bad row would stop every job. Returns when stopped, the step in hand finished.
    """
    failures = 0
    while not stop.is_set:
        try:
            pause = step()
            if failures:
                _log.info("%s: going on after %d failed passes", name, failures)
            failures = 0
        except Exception as error:
            failures += 1
            pause = backoff_seconds(failures, most_backoff_seconds)
            if is_outage(error):
                _log.warning("%s: the database is away (%s); trying again in %.1f s", name, _line(error), pause)
            else:
                _log.exception("%s: a pass failed; trying again in %.1f s", name, pause)
            # A connection that broke in mid-statement is of no more use; Django opens a new one at the next query.
            connections.close_all()
        close_old_connections()
        alive()
        while alive_seconds is not None and pause > alive_seconds and not stop.wait(alive_seconds):
            pause -= alive_seconds
            alive()
        stop.wait(pause)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
