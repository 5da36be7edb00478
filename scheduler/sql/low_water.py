"""Where the claimable runs of a lane begin, while what was claimed before cannot be taken out of the index.

A snapshot that is held open (a dump, a forgotten transaction) keeps the entries of everything that was claimed since at
the head of the index, and every claim would pass them all. So who found a claim slow remembers where it found its
first run, and the next ones begin there, for a second: what comes to stand before the mark meanwhile (a backfill, a run
that is released or admitted) is found by the next look from the beginning, or at once where a claim with marks brought
less than it wanted. Nobody who is not slow has any mark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

KEPT_SECONDS = 1.0
"""How long a lane is read from its mark until it is read from its beginning again."""
SLOW_SECONDS = 0.008
"""A claim that took no longer leaves no mark."""


@dataclass(frozen=True)
class _Mark:
    at: datetime
    looked_at: float  # monotonic; when the lane was last read from its beginning


class LowWater:
    """The marks of this process by lane. Safe in many threads: a lost update costs a slow claim."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: dict[int, _Mark] = {}

    def marks(self, tenants: Sequence[Sequence[int]]) -> dict[int, datetime]:
        """Return the marks that still hold for lanes of ``tenants``."""
        if not self._marks:
            return {}
        oldest, marks = time.monotonic() - KEPT_SECONDS, self._marks
        held = {lane_id: mark.at for lane_id, mark in marks.items() if mark.looked_at > oldest}
        return {lane_id: held[lane_id] for lane_ids in tenants for lane_id in lane_ids if lane_id in held}

    def note(self, firsts: Mapping[int, datetime], used: Mapping[int, datetime], began: float) -> None:
        """A claim that began at ``began`` with the marks ``used`` found its first runs at ``firsts``, by lane."""
        is_slow = time.monotonic() - began >= SLOW_SECONDS
        if not self._marks and not is_slow:
            return
        with self._lock:
            marks = dict(self._marks)
            for lane_id, at in firsts.items():
                if lane_id not in used:
                    marks.pop(lane_id, None)
                    if is_slow:
                        marks[lane_id] = _Mark(at, began)
                elif lane_id in marks:
                    marks[lane_id] = _Mark(max(at, marks[lane_id].at), marks[lane_id].looked_at)
            self._marks = marks

    def forget(self, lane_ids: Iterable[int]) -> None:
        gone = set(lane_ids)
        with self._lock:
            self._marks = {lane_id: mark for lane_id, mark in self._marks.items() if lane_id not in gone}
