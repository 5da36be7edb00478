"""How long a failed run waits for its next attempt. Pure."""

from __future__ import annotations

import math
from datetime import timedelta
from random import Random

LONGEST_SECONDS = 10 * 366 * 86_400.0
"""No back-off is longer, whatever was configured: sums of an instant and it stay within the calendar."""
_MOST_DOUBLINGS = 1000
"""2.0**1024 overflows; after a thousand doublings every base that a second can be written in is over any cap."""


def backoff(strategy: str, attempt: int, base: float, step: float, cap: float, jitter: float, rng: Random) -> timedelta:
    """Return the wait after ``attempt`` (1-based) failed: base · 2^(attempt-1), base + step · (attempt-1), or base.

    ``base``, ``step`` and ``cap`` are seconds, ``jitter`` a share in [0, 1] by which the capped wait is moved up or
    down at random. Never fails and never is zero: the result is in (0, cap · (1 + jitter)], at least a microsecond,
    whatever the arguments (what is not a positive finite number counts as 0, an infinite cap as `LONGEST_SECONDS`).
    """
    base, step, cap = _bounded(base), _bounded(step), _bounded(cap)
    jitter = min(_bounded(jitter), 1.0)
    before = max(attempt, 1) - 1
    if strategy == "exponential":
        wait = base * 2.0 ** min(before, _MOST_DOUBLINGS)
    elif strategy == "linear":
        wait = base + step * float(min(before, 10**12))
    else:
        wait = base
    wait = min(wait, cap) * (1.0 + jitter * rng.uniform(-1.0, 1.0))
    return timedelta(microseconds=max(1, math.floor(min(wait, LONGEST_SECONDS) * 1_000_000)))


def _bounded(seconds: float) -> float:
    """``seconds`` within [0, LONGEST_SECONDS]; not a number counts as 0."""
    return min(seconds, LONGEST_SECONDS) if seconds > 0 else 0.0
