"""Tell waiting polls that something may have changed for them: in this process, and in every other server.

A signal is a hint and never the truth: whoever hears it asks the database. It is sent when the transaction commits, so
that whoever asks finds what it tells of. A lost one costs time and no correctness: every poll also has a timer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.db import connection

from croniq_site.kernel.database import when_committed
from scheduler.sql.notify import notify

CHANNEL = "croniq_work"
MOST_IDS = 120
"""Most ids of a kind in one signal, so that it fits a NOTIFY (8,000 bytes); more means all."""
_SOCKET_PATH_BYTES = 100

Ids = frozenset[int] | None
"""None: all of them."""

NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Signal:
    """What may have changed: ``lanes`` in which something is (or falls) due, ``holders`` whose claims or whose right
    to hold them changed, and ``moved``: holders whose newest poll is at another server."""

    lanes: Ids = NONE
    holders: Ids = NONE
    moved: frozenset[int] = NONE

    def as_text(self) -> str:
        return "|".join((_ids_text(self.lanes), _ids_text(self.holders), _ids_text(self.moved)))

    @classmethod
    def of_text(cls, text: str) -> Signal:
        """Read a signal; what cannot be read means everything (a server of another version may have sent it)."""
        try:
            lanes, holders, moved = (_ids_of(part) for part in text.split("|"))
        except ValueError:
            return EVERYTHING
        return cls(lanes, holders, moved or NONE)


EVERYTHING = Signal(lanes=None, holders=None)


def wake(lane_ids: Iterable[int] | None = None) -> None:
    """Say that runs in these lanes are due, or fall due at another time than before; None: anywhere, for anybody.

    Call it once for a batch, in the batch's transaction.
    """
    if lane_ids is None:
        announce(EVERYTHING)
        return
    lanes = frozenset(lane_ids)
    if lanes:
        announce(Signal(lanes=lanes))


def tell(holder_ids: Iterable[int]) -> None:
    """Say that these instances hold less than they think (cancelled, timed out, reaped) or were deposed."""
    holders = frozenset(holder_ids)
    if holders:
        announce(Signal(holders=holders))


def announce(signal: Signal) -> None:
    """Send ``signal`` on commit."""
    if connection.vendor == "postgresql":
        # Within the transaction and not after it: a process that dies between the two would leave polls waiting.
        notify(connection, CHANNEL, f"{origin()}|{signal.as_text()}")
        when_committed(deliver, signal)
    else:
        when_committed(_deliver_or_send, signal, str(connection.settings_dict["NAME"]))


_subscribers: set[Callable[[Signal], None]] = set()


def subscribe(callback: Callable[[Signal], None]) -> Callable[[], None]:
    """Let ``callback`` hear every signal; it is called in the thread that committed and must not block. Returns what
    ends it."""
    _subscribers.add(callback)
    return partial(_subscribers.discard, callback)


def deliver(signal: Signal) -> None:
    """Hand ``signal`` to whoever listens in this process."""
    for callback in tuple(_subscribers):
        callback(signal)


def _deliver_or_send(signal: Signal, database_name: str) -> None:
    if _subscribers:  # the one server of a SQLite database is this process
        deliver(signal)
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        # No server, or one that cannot keep up: its look at the database's version makes up for it.
        sender.setblocking(False)
        sender.sendto(signal.as_text().encode(), str(socket_path(database_name)))


def socket_path(database_name: str) -> Path:
    """Where the server of a SQLite database hears: beside the file, or where a path that long cannot be a socket's in
    the temporary directory."""
    beside = Path(database_name).absolute()
    beside = beside.with_name(beside.name + ".wake")
    if len(os.fsencode(beside)) <= _SOCKET_PATH_BYTES:
        return beside
    digest = hashlib.sha256(os.fsencode(beside)).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"croniq-{digest}.wake"


_origins: dict[int, str] = {}


def origin() -> str:
    """This process's mark on its signals, by which it knows its own (a fork is another process)."""
    return _origins.setdefault(os.getpid(), secrets.token_hex(6))


def _ids_text(ids: Ids) -> str:
    return "*" if ids is None or len(ids) > MOST_IDS else ",".join(map(str, sorted(ids)))


def _ids_of(text: str) -> Ids:
    return None if text == "*" else frozenset(int(part) for part in text.split(",") if part)
