"""When a server looks for cyclic garbage.

Left to itself Python looks at every object there is whenever many were made: with two thousand waiting polls that takes
150 ms, several times a minute under load, in which nobody is answered. What is young it goes on looking at.
"""

from __future__ import annotations

import gc
import time

FULL_EVERY_SECONDS = 60.0
_NEVER = 1_000_000


class Garbage:
    """The full looks of one process: one when it begins to serve, whose survivors are passed over from then on, then
    one a minute."""

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)
        self._looked_at = time.monotonic()

    def look(self) -> bool:
        """Look, if it is time to; return whether it was. Call it often."""
        tick = time.monotonic()
        if tick < self._looked_at + FULL_EVERY_SECONDS:
            return False
        self._looked_at = tick
        gc.collect()
        return True
