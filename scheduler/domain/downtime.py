"""What becomes of fires that fell due while nobody planned (design §7)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from scheduler.domain.schedules import Fire

LATENESS = timedelta(seconds=60)
"""A fire that is planned this late is merely late, not missed: a slow pass must not drop runs."""

MOST_CAUGHT_UP = 1000
"""The largest ``max_catch_up``."""


def is_downtime(behind: Sequence[Fire], now: datetime) -> bool:
    """Whether a gap (ascending, not empty) was a downtime: its oldest fire tells; all of it then counts as missed."""
    return now - behind[0].at > LATENESS


def caught_up(
    missed: Sequence[Fire], now: datetime, *, policy: str, grace_seconds: float | None, most: int
) -> tuple[list[Fire], list[Fire]]:
    """Split missed fires (ascending) into those to run and those to skip.

    ``all``: the newest ``most`` of those not older than the grace; ``latest``: the newest one, if it is not older;
    ``none``: none. A grace of None has no limit.
    """
    wanted = {"all": min(most, MOST_CAUGHT_UP), "latest": 1}.get(policy, 0)
    oldest = None if grace_seconds is None else now - timedelta(seconds=grace_seconds)
    first = max(0, len(missed) - wanted)
    while oldest is not None and first < len(missed) and missed[first].at < oldest:
        first += 1
    return list(missed[first:]), list(missed[:first])
