"""A service manager's ear: the datagram socket that NOTIFY_SOCKET names, as systemd has one."""

from __future__ import annotations

import queue
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_ASKED = "how far have you heard?"


class Ear:
    """``address`` is for NOTIFY_SOCKET. `hear` returns the next word, None after ``seconds`` without one.

    It listens all the time, as systemd does, for the kernel keeps ten words and loses what is said after those; one
    that is ``deaf`` listens only when it is asked what it has heard.
    """

    def __init__(self, address: str, listener: socket.socket, *, deaf: bool = False) -> None:
        self.address, self._listener = address, listener
        self._words: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._listen, name="ear", daemon=True)
        if not deaf:
            self._thread.start()

    def hear(self, seconds: float = 60.0) -> str | None:
        try:
            return self._words.get(timeout=seconds)
        except queue.Empty:
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
        if not self._thread.is_alive():
            self._thread.start()
        self._say(_ASKED)
        return self.hear_until(_ASKED)[:-1]

    def close(self) -> None:
        if self._thread.is_alive():
            self._say("")
            self._thread.join()

    def _say(self, word: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
            mouth.sendto(word.encode(), self._listener.getsockname())

    def _listen(self) -> None:
        while word := self._listener.recv(4096).decode():
            self._words.put(word)


@contextmanager
def ear(*, abstract: bool = False, deaf: bool = False) -> Iterator[Ear]:
    # A short folder: the path of a socket has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="croniq-ear-"))
    address = f"@{folder.name}" if abstract else str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address[1:] if abstract else address)
        try:
            with closing(Ear(address, listener, deaf=deaf)) as listening:
                yield listening
        finally:
            shutil.rmtree(folder)
