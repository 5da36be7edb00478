"""What a process tells the service manager that started it (systemd's sd_notify): ready, alive, stopping.

One datagram each to the socket that NOTIFY_SOCKET names, as sd_notify(3) has it. Without that variable nobody asked,
and nothing is sent. A manager that does not listen is no reason to fail or to wait.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Protocol


class Voice(Protocol):
    def ready(self) -> None:
        """The process does its work from now on."""

    def alive(self) -> None:
        """The loop that does the work has come round. For that loop alone to say, never for a thread beside it."""

    def stopping(self) -> None:
        """The process ends in good order from now on."""


class ServiceManager:
    """Speaks for this process. ``every_seconds`` is how often at least `alive` must be called; None: no watchdog."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self.every_seconds = _half_of_the_watchdog() if self._address else None
        self._said_at: float | None = None

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        """As often as a loop comes round, which may be ten times a second; half as often as is due is said at least."""
        now = time.monotonic()
        if self.every_seconds is None or (self._said_at is not None and now - self._said_at < self.every_seconds / 2):
            return
        self._said_at = now
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        # A name that begins with @ lies in the abstract namespace, whose names begin with NUL.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(state.encode(), address)


def _half_of_the_watchdog() -> float | None:
    """Half of what systemd allows between two words, which is when it wants the next one (sd_watchdog_enabled(3))."""
    microseconds, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not microseconds.isdigit() or int(microseconds) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(microseconds) / 2_000_000


class Member:
    """One of several processes that speak through one: each word is a byte in the pipe, the number of the process."""

    def __init__(self, pipe: int, number: int) -> None:
        self._pipe, self._word = pipe, bytes([number])
        os.set_blocking(pipe, False)

    def ready(self) -> None:
        self.alive()

    def alive(self) -> None:
        with contextlib.suppress(OSError):  # full, or nobody reads any more
            os.write(self._pipe, self._word)

    def stopping(self) -> None:
        """Its parent stops with it, and says so."""


def speak_for(members: int, pipe: int, voice: Voice) -> None:
    """Read what ``members`` processes say until the pipe is closed: ready, and alive each time, once all have spoken.

    One of them that hangs keeps the others from being heard: the watchdog is for the whole.
    """
    say: Callable[[], None] = voice.ready
    heard: set[int] = set()
    while words := os.read(pipe, 4096):
        heard.update(words)
        if len(heard) == members:
            say()
            say = voice.alive
            heard.clear()
