"""Hear what other processes say: `LISTEN` on PostgreSQL; on SQLite a datagram, and behind it the file's version."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from django.db import DEFAULT_DB_ALIAS, connections

from croniq_site.kernel.database import is_postgresql
from croniq_site.kernel.loop import backoff_seconds
from croniq_site.kernel.stop import StopToken
from runners.services.access import CHANNEL as ACCESS
from scheduler.services.wake import CHANNEL, EVERYTHING, Signal, origin, socket_path
from scheduler.sql.notify import listen

_log = logging.getLogger(__name__)

Hear = Callable[[Signal], None]

LOOK_SECONDS = 0.05
"""How often the version of a SQLite file is looked at (20 times a second); a look costs microseconds and no lock."""
TURN_SECONDS = 0.5
PROBE_SECONDS = 10.0
"""A connection whose other end is gone without a word is silent, like one on which nothing happens: it is asked."""


class Listener(Protocol):
    def start(self) -> None:
        """Begin to listen. Returns at once; on SQLite nothing that is said from then on is missed."""

    def stop(self) -> None:
        """End; blocks for a moment."""


def listener_for(hear: Hear) -> Listener:
    """Return what hears other processes on this database; ``hear`` is called in a thread of its own."""
    if is_postgresql():
        return PostgresListener(hear)
    return SqliteListener(hear, str(connections[DEFAULT_DB_ALIAS].settings_dict["NAME"]))


class PostgresListener:
    """A connection of its own that listens. When it breaks it is made anew, with back-off; what was said meanwhile is
    lost, so each new one begins with a wake for everybody. Signals of ``myself`` were heard directly and are passed
    over."""

    def __init__(self, hear: Hear, myself: str | None = None) -> None:
        self._hear = hear
        self._myself = myself or origin()
        self._stop = StopToken()
        self._socket_number: int | None = None
        self._thread = threading.Thread(target=self._run, name="croniq-listen", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.stop()
        number = self._socket_number
        if number is not None:
            # Ends the wait in the other thread now instead of at its next turn.
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set:
            began = time.monotonic()
            try:
                self._listen()
            except Exception as error:
                if self._stop.is_set:
                    return
                failures = 1 if time.monotonic() - began > 60 else failures + 1
                pause = min(5.0, backoff_seconds(failures))
                line = " ".join(str(error).split())[:200]
                _log.warning("wake-ups from other processes are not heard (%s); again in %.1f s", line, pause)
                self._stop.wait(pause)

    def _listen(self) -> None:
        connection = connections.create_connection(DEFAULT_DB_ALIAS)
        try:
            connection.ensure_connection()
            listen(connection, ACCESS)
            listen(connection, CHANNEL)
            self._socket_number = connection.connection.fileno()
            self._hear(EVERYTHING)
            heard_at = time.monotonic()
            while not self._stop.is_set:
                for message in connection.connection.notifies(timeout=TURN_SECONDS):
                    self._take(message.channel, message.payload)
                    heard_at = time.monotonic()
                if time.monotonic() - heard_at > PROBE_SECONDS:
                    connection.connection.execute("SELECT 1")
                    heard_at = time.monotonic()
        finally:
            self._socket_number = None
            connection.close()

    def _take(self, channel: str, payload: str) -> None:
        if channel == ACCESS:
            self._hear(Signal(holders=None))  # anybody may have lost the right to hold what he holds
            return
        sender, _, text = payload.partition("|")
        if sender != self._myself:
            self._hear(Signal.of_text(text))


class SqliteListener:
    """Datagrams from the other processes of this machine, and a look at the file's version in case one was lost."""

    def __init__(self, hear: Hear, database_name: str) -> None:
        self._hear = hear
        self._database_name = database_name
        self._path = socket_path(database_name)
        self._stop = StopToken()
        self._socket: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        try:
            self._socket = _bound(self._path)
        except OSError as error:
            # A file system without sockets: slower by a twentieth of a second, and nothing else.
            _log.warning("no wake-up socket at %s (%s); the file's version is watched alone", self._path, error)
        self._threads = [threading.Thread(target=self._watch, name="croniq-watch", daemon=True)]
        if self._socket is not None:
            receive = threading.Thread(target=self._receive, args=(self._socket,), name="croniq-listen", daemon=True)
            self._threads.append(receive)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.stop()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", str(self._path))  # ends the wait in the other thread now instead of at its next turn
        for thread in self._threads:
            thread.join(timeout=5)
        if self._socket is not None:
            self._socket.close()
            self._path.unlink(missing_ok=True)

    def _receive(self, receiver: socket.socket) -> None:
        receiver.settimeout(TURN_SECONDS)
        while not self._stop.is_set:
            with contextlib.suppress(TimeoutError):
                data = receiver.recv(65_536)
                if data:
                    self._hear(Signal.of_text(data.decode(errors="replace")))

    def _watch(self) -> None:
        while not self._stop.is_set:
            try:
                with contextlib.closing(sqlite3.connect(self._database_name, timeout=1)) as database:
                    self._watch_in(database)
            except sqlite3.Error as error:
                _log.warning("the version of the database file cannot be read: %s", error)
                self._stop.wait(1)

    def _watch_in(self, database: sqlite3.Connection) -> None:
        # Changed by any other connection, our own process's too: that is a wake too many now and then, and no harm.
        seen = None
        while not self._stop.is_set:
            (version,) = database.execute("PRAGMA data_version").fetchone()
            if version != seen:
                if seen is not None:
                    self._hear(EVERYTHING)
                seen = version
            self._stop.wait(LOOK_SECONDS)


def _bound(path: Path) -> socket.socket:
    # Whoever serves this database holds its lock: a socket that lies there is of a server that is dead.
    path.unlink(missing_ok=True)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        receiver.bind(str(path))
        os.chmod(path, 0o600)
    except OSError:
        receiver.close()
        raise
    return receiver
