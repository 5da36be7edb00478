"""Waiting in tests: a condition and a deadline, never a fixed sleep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

INTERVAL_SECONDS = 0.02


def poll_until(
    condition: Callable[[], T], deadline_s: float = 10.0, *, what: str = "", interval_s: float = INTERVAL_SECONDS
) -> T:
    """Call `condition` until it returns something true, and return that.

    `what` says in the failure what was waited for. An exception of the condition is the test's failure at once. Raises
    AssertionError after `deadline_s` seconds, with the last answer; the condition is asked once more at the very end.
    """
    pause = threading.Event()
    ends_at = time.monotonic() + deadline_s
    while True:
        is_last = time.monotonic() >= ends_at
        answer = condition()
        if answer:
            return answer
        if is_last:
            waited_for = what or getattr(condition, "__name__", "the condition")
            raise AssertionError(f"not within {deadline_s} s: {waited_for}; the last answer was {answer!r}")
        pause.wait(interval_s)
