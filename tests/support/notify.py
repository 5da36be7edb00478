"""A service manager's ear: the datagram socket that NOTIFY_SOCKET names, as systemd has one."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path


class Ear:
    """``address`` is for NOTIFY_SOCKET. `hear` returns the next word, None after ``seconds`` without one."""

    def __init__(self, address: str, listener: socket.socket) -> None:
        self.address, self._listener = address, listener

    def hear(self, seconds: float = 60.0) -> str | None:
        self._listener.settimeout(seconds)
        try:
            return self._listener.recv(4096).decode()
        except TimeoutError:
            return None

    def hear_until(self, word: str, seconds: float = 60.0) -> list[str]:
        """Return all that is said up to ``word``. Fails after ``seconds`` of silence."""
        heard: list[str] = []
        while not heard or heard[-1] != word:
            said = self.hear(seconds)
            assert said is not None, f"{word} was not said, only {heard}"
            heard.append(said)
        return heard

    def heard_so_far(self) -> list[str]:
        heard = []
        self._listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                heard.append(self._listener.recv(4096).decode())
        return heard


@contextlib.contextmanager
def ear(*, abstract: bool = False) -> Iterator[Ear]:
    # A short folder: the path of a socket has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="croniq-ear-"))
    address = f"@{folder.name}" if abstract else str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address[1:] if abstract else address)
        try:
            yield Ear(address, listener)
        finally:
            shutil.rmtree(folder)
