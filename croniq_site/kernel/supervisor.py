"""Keep a few child processes alive, show what they say, and end them in order.

Children run in sessions of their own: a Ctrl-C in the terminal reaches the supervisor alone, which can then stop the
runner before the server that its last acks go to. If the supervisor is killed, the kernel ends the children (Linux).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from croniq_site.kernel.stop import StopToken

RESTART_FIRST_SECONDS = 1.0
RESTART_MOST_SECONDS = 30.0
STEADY_AFTER_SECONDS = 30.0
WATCH_SECONDS = 0.2
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ChildSpec:
    """A process to keep alive, from when ``start_when`` first says so.

    ``stop_seconds``: from SIGTERM to a second one, and from that to SIGKILL.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    stop_seconds: float = 5.0
    start_when: Callable[[], bool] = lambda: True


class _Child:
    def __init__(self, spec: ChildSpec, say: Callable[[str, str], None]) -> None:
        self.spec = spec
        self.say = say
        self.failures = 0
        self.restart_at: float | None = None
        self.start()

    def start(self) -> None:
        self.started_at = time.monotonic()
        self.restart_at = None
        self.process = subprocess.Popen(
            self.spec.argv,
            env={**os.environ, **self.spec.env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self.reader.start()

    def _read(self, pipe) -> None:
        with pipe:
            for line in pipe:
                self.say(self.spec.name, line.decode(errors="replace").rstrip("\r\n"))

    def watch(self) -> None:
        """Start the child again if it ended: after one second, then two, four, … at most thirty."""
        now = time.monotonic()
        if self.restart_at is not None:
            if now >= self.restart_at:
                self.start()
            return
        code = self.process.poll()
        if code is None:
            return
        self.reader.join(timeout=1)
        self.failures = 1 if now - self.started_at > STEADY_AFTER_SECONDS else self.failures + 1
        pause = min(RESTART_MOST_SECONDS, RESTART_FIRST_SECONDS * 2 ** min(self.failures - 1, 10))
        self.say(self.spec.name, f"ended with {_how(code)}; started again in {pause:g} s")
        self.restart_at = now + pause

    def end(self, hurry: StopToken) -> None:
        """SIGTERM; after ``stop_seconds`` (at once when in a hurry) another one; then SIGKILL of the whole group."""
        for signum in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if signum == signal.SIGKILL else os.kill)(self.process.pid, signum)
            deadline = time.monotonic() + self.spec.stop_seconds
            while self.process.poll() is None and time.monotonic() < deadline:
                if hurry.wait(0.05) and signum == signal.SIGTERM:
                    deadline = min(deadline, time.monotonic() + 1.0)
        self.process.wait()
        self.reader.join(timeout=1)


def supervise(
    specs: Sequence[ChildSpec],
    stop: StopToken,
    *,
    say: Callable[[str, str], None],
    on_tick: Callable[[], None] = lambda: None,
    hurry: StopToken | None = None,
) -> None:
    """Run ``specs`` until ``stop``; then end them **last one first**, each gone before the next is told.

    ``say(name, line)`` gets every line of every child and what the supervisor does. ``on_tick`` is called about five
    times a second. ``hurry`` shortens the ending to a second a step.
    """
    children: list[_Child] = []
    waiting = list(specs)
    try:
        while not stop.is_set:
            # In their order: one that has to wait holds up those behind it.
            while waiting and waiting[0].start_when():
                children.append(_Child(waiting.pop(0), say))
            for child in children:
                child.watch()
            on_tick()
            stop.wait(WATCH_SECONDS)
    finally:
        for child in reversed(children):
            child.end(hurry or StopToken())


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.Signals(-code).name})"


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
