"""A copy of a SQLite database while everything goes on."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from django.db import connection

from croniq_site.kernel.errors import Conflict, InvalidInput

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
"""What a file system without hard links says, such as that of a stick or of many a network's share."""


def back_up(target: Path) -> int:
    """Write the database as it is at one instant to ``target``, and return its size in bytes. SQLite only.

    The file appears whole and checked under its name or not at all, is readable by its owner alone (it holds what
    signs in), and replaces none: Conflict ``exists``. Nobody is held up meanwhile, neither who reads nor who writes;
    only the log beside the database grows. InvalidInput ``target``: the folder is not there, or cannot be written.
    """
    source = Path(connection.settings_dict["NAME"])
    if target.exists() or target.is_symlink():
        raise _exists(target)
    try:
        # Mode 0600, and a name of its own: in a container the next process has the number of one that was killed.
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise InvalidInput.of("target", f"{target} cannot be written: {error.strerror}.") from None
    os.close(descriptor)
    part = Path(name)
    try:
        _copy(source, part)
        _name(part, target)
    finally:
        for leftover in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm", "-journal"))):
            with suppress(FileNotFoundError):
                leftover.unlink()
    _sync(target.parent)
    return target.stat().st_size


def _copy(source: Path, part: Path) -> None:
    with (
        # Read only, in one step: a snapshot, which a copy in several steps would begin anew at each write.
        closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=20)) as original,
        closing(sqlite3.connect(part, isolation_level=None)) as copy,
    ):
        original.backup(copy)
        # One file, whole by itself: the write-ahead log is made anew where the copy is served.
        copy.execute("PRAGMA journal_mode=DELETE").fetchone()
        faults = [row[0] for row in copy.execute("PRAGMA integrity_check(10)") if row[0] != "ok"]
        faults += [
            f"a row of {row[0]} refers to nothing in {row[2]}" for row in copy.execute("PRAGMA foreign_key_check")
        ]
    if faults:
        raise Conflict(f"The copy is not sound, nor then is {source}: {'; '.join(faults[:5])}.", code="not_sound")
    _sync(part)


def _name(part: Path, target: Path) -> None:
    # A link fails where somebody has made the file meanwhile; a rename would replace it.
    try:
        os.link(part, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if target.exists():
            raise _exists(target) from None
        part.rename(target)


def _exists(target: Path) -> Conflict:
    return Conflict(f"{target} is there already, and a backup replaces nothing. Choose another name.", code="exists")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
