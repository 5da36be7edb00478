"""A process and everything it starts: one session and process group, ended as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from runners.agent.actions import ActionRefused
from runners.agent.environment import Account

log = logging.getLogger(__name__)

_KILL_SECONDS = 2.0
"""How long to wait for a group after SIGKILL: only a process that hangs in the kernel takes longer."""

_FIRST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.01, 0.2
_DEAD_STATES = frozenset("ZXx")


class ProcessGroup:
    """A started process, the leader of its own session.

    The leader's exit is observed without reaping it. As long as it is not reaped the kernel gives its number to nobody
    else, so that a signal to the group can never hit a stranger, also when the leader has exited before its children.
    """

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.exited = asyncio.Event()
        self._is_gone = False
        self._loop = asyncio.get_running_loop()
        watcher = threading.Thread(target=self._watch, name=f"croniq-wait-{popen.pid}", daemon=True)
        try:
            watcher.start()
        except RuntimeError as error:  # no more threads: better no run than one that nobody watches
            self._signal(signal.SIGKILL)
            self.reap()
            raise OSError(errno.EAGAIN, "the machine has no more threads") from error

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        account: Account | None,
        stdin: str | None = None,
    ) -> ProcessGroup:
        """Start ``argv`` with ``stdin`` (None: nothing) to read and pipes on stdout and stderr. Raises ActionRefused
        with the reason."""
        if cwd is not None and not Path(cwd).is_dir():
            raise ActionRefused(f"the working directory {cwd!r} does not exist on this machine")
        try:
            with _reading(stdin) as source:
                popen = subprocess.Popen(
                    argv,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    cwd=cwd,
                    env=env,
                    start_new_session=True,
                    user=account.uid if account else None,
                    group=account.gid if account else None,
                    extra_groups=account.groups if account else None,
                )
            return cls(popen)
        except (OSError, ValueError) as error:
            raise ActionRefused(_why_not_started(argv[0], cwd, env, error)) from None

    def reap(self) -> int:
        """Collect the leader, which must have exited, and return its exit code (negative: the signal)."""
        return self.popen.wait()

    async def terminate(self, grace_seconds: float) -> None:
        """End the whole group: SIGTERM, SIGKILL after ``grace_seconds`` if any of it still lives, then reap the leader.

        A cancellation while it waits costs the group the rest of its grace, never its end.
        """
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a stopped process would take its SIGTERM only when somebody continues it
        try:
            await self._gone_within(grace_seconds)
        finally:
            if not self._is_gone:
                self._signal(signal.SIGKILL)
        if not await self._gone_within(_KILL_SECONDS):
            log.warning("process group %d did not end on SIGKILL", self.popen.pid)

    async def _gone_within(self, seconds: float) -> bool:
        ends_at = time.monotonic() + seconds
        look = _FIRST_LOOK_SECONDS
        while not self._is_gone:
            if self.exited.is_set():
                self.reap()
                # From here on the number is protected only by living members of the group. Between this look and the
                # next signal the system would have to use up all its numbers for it to become somebody else's.
                self._is_gone = not _has_living_member(self.popen.pid)
                if self._is_gone:
                    break
            left = ends_at - time.monotonic()
            if left <= 0:
                break
            if self.exited.is_set():
                await asyncio.sleep(min(look, left))
            else:
                # Not wait_for: before Python 3.12 it swallows a cancellation that comes as the leader exits.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self.exited.wait()
            look = min(look * 2, _LONGEST_LOOK_SECONDS)
        return self._is_gone

    def _signal(self, number: signal.Signals) -> None:
        if self._is_gone:
            return
        try:
            os.killpg(self.popen.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            log.warning("process group %d may not be signalled: it changed its user", self.popen.pid)

    def _watch(self) -> None:
        """Wait, in a thread of its own, until the leader has exited, and tell the loop."""
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13; what the class says about the number does not hold there
            self.popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop has ended before the process
            self._loop.call_soon_threadsafe(self.exited.set)


@contextlib.contextmanager
def _reading(text: str | None) -> Iterator[IO[bytes] | int]:
    """What a process shall read. A file without a name and no pipe: nobody has to feed it, however much it is."""
    if text is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def describe_exit(code: int) -> str | None:
    """Return the error of a process that ended with ``code``, None for success."""
    if code == 0:
        return None
    if code > 0:
        return f"exit code {code}"
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"


def _has_living_member(group: int) -> bool:
    """True while the group has a process that still runs; zombies, which their parent may never collect, do not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    processes = Path("/proc")
    if not (processes / "self" / "stat").exists():
        return True
    for directory in processes.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            # "pid (name) state ppid pgrp …"; the name may hold anything, also ") ".
            state, _, pgrp = (directory / "stat").read_bytes().rpartition(b") ")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it ended while we looked
        if int(pgrp) == group and state.decode() not in _DEAD_STATES:
            return True
    return False


def _why_not_started(program: str, cwd: str | None, env: Mapping[str, str], error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return f"cannot start {program!r}: {error}"
    if error.errno == errno.ENOENT and "/" not in program:
        return f"command not found: {program!r} is in no directory of PATH ({env.get('PATH', '')})"
    if error.errno == errno.ENOENT and Path(cwd or ".", program).exists():
        return f"cannot start {program!r}: the interpreter that its first line names does not exist"
    if error.errno == errno.ENOENT:
        return f"command not found: {program!r} does not exist"
    return f"cannot start {program!r}: {error.strerror}"
