"""When runs of limited jobs are to be admitted, as far as this server knows: one instant for each set of lanes."""

from __future__ import annotations

import math
import time

from scheduler.queries.lanes import Lanes

LOOK_AGAIN_SECONDS = 1.0
"""Where nobody waits, nobody hears of what is planned; where there is enough to do, nobody asks for the next."""
MOST_KEPT = 1_000


class Gates:
    """Monotonic instants. What a claim finds out is kept beyond the polls that waited for it, so that a runner that
    polls often does not pay for a look with each of them."""

    def __init__(self) -> None:
        self._at: dict[Lanes, float] = {}

    def is_due(self, lanes: Lanes) -> bool:
        """True when something may have fallen due in these lanes that is to be admitted."""
        return time.monotonic() >= self._at.get(lanes, 0.0)

    def note(self, lanes: Lanes, found: float | None, *, admitted: bool) -> None:
        """A claim found ``found`` to be the next instant (inf: there is none; None: it did not look). Where it did not
        admit first, an instant that was known before stands: something may have fallen due since."""
        if found is None:
            found = time.monotonic() + LOOK_AGAIN_SECONDS
        if len(self._at) >= MOST_KEPT:
            self._at.clear()
        self._at[lanes] = found if admitted else min(found, self._at.get(lanes, 0.0))

    def rest(self, lanes: Lanes) -> None:
        """Nobody waits at these lanes any more."""
        if lanes in self._at:
            self._at[lanes] = min(self._at[lanes], time.monotonic() + LOOK_AGAIN_SECONDS)

    def seconds_left(self, lanes: Lanes) -> float:
        """How long until the instant; inf if there is none."""
        return max(0.0, self._at.get(lanes, math.inf) - time.monotonic())
