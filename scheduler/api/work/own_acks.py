"""Runs that their runner itself has just ended: that it no longer holds them is no cancel to it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from math import inf
from uuid import UUID

GRACE_SECONDS = 1.0
"""How long before a poll's arrival its runner's ack may have been accepted without the runner having heard of it."""
KEPT_SECONDS = 60.0
"""Longer than any poll is held."""
MOST = 50_000

Key = tuple[int, str, UUID]
"""API client, runner id, run."""


class OwnAcks:
    """Which runs were acked here, and when (monotonic seconds). Used in the event loop's thread only.

    A runner lists a run until its ack is answered, so the poll that it holds meanwhile lists the run to its end. Only
    an ack that was accepted counts, and one that is being written: a look at the database may see its commit first.
    """

    def __init__(self) -> None:
        self._acked: dict[Key, float] = {}
        self._writing: Counter[Key] = Counter()

    def begin(self, key: Key) -> None:
        """This ack is about to be written."""
        self._writing[key] += 1

    def end(self, key: Key, tick: float, *, is_accepted: bool) -> None:
        """It was written, or not accepted, at ``tick``."""
        self._writing[key] -= 1
        if not self._writing[key]:
            del self._writing[key]
        if is_accepted:  # a refused one takes nothing back: an accepted ack may have been sent twice
            self._acked.pop(key, None)
            self._acked[key] = tick
            self._forget_old()

    def among(self, client_id: int, runner_id: str, run_ids: Iterable[UUID], arrived_at: float) -> set[UUID]:
        """Return those of the runs that were acked since a poll that arrived then was sent."""
        return {
            run_id
            for run_id in run_ids
            if (key := (client_id, runner_id, run_id)) in self._writing
            or self._acked.get(key, -inf) >= arrived_at - GRACE_SECONDS
        }

    def hold_again(self, client_id: int, runner_id: str, run_ids: Iterable[UUID], read_at: float) -> None:
        """A look that began at ``read_at`` saw these held: where it began after the ack they were claimed anew."""
        for run_id in run_ids:
            if self._acked.get((client_id, runner_id, run_id), inf) < read_at:
                del self._acked[client_id, runner_id, run_id]

    def _forget_old(self) -> None:
        oldest = time.monotonic() - KEPT_SECONDS  # they come first
        while self._acked:
            key = next(iter(self._acked))
            if self._acked[key] > oldest and len(self._acked) <= MOST:
                break
            del self._acked[key]
