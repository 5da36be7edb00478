"""One process at a time, for as long as it lives: a lock that the kernel drops when the process dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LockTaken(Exception):
    """Somebody holds the lock; ``pid`` is theirs, or None where it cannot be read."""

    def __init__(self, path: Path, pid: int | None) -> None:
        super().__init__(f"{path} is held by process {pid or 'unknown'}")
        self.pid = pid


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock at ``path`` or raise `LockTaken`. It is never removed: a removed one could be locked twice."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.read(descriptor, 32).decode(errors="replace").strip()
            raise LockTaken(path, int(text) if text.isdigit() else None) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)
