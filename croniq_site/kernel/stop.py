"""Stopping in good order: one token that every loop of a process waits on."""

from __future__ import annotations

import signal
import threading


class StopToken:
    """Set once, by a signal or by a supervisor; every wait of a process ends with it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def stop(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``; True as soon as the token is set."""
        return self._event.wait(max(0.0, seconds))


def stop_on_signals(token: StopToken, *, again: StopToken | None = None) -> None:
    """Let SIGTERM and SIGINT set ``token``, and a second one set ``again``. Main thread only.

    The handler only sets an event: the batch in hand is finished by the loop, not torn by an exception.
    """

    def handle(signum: int, frame: object) -> None:
        if token.is_set and again is not None:
            again.stop()
        token.stop()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
