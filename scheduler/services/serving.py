"""One server for a SQLite database: a lock that ends with its process, however it ends."""

from __future__ import annotations

import fcntl
import os
from typing import IO

from django.db import connection

from croniq_site.kernel.errors import Conflict


def take_the_only_server() -> IO[str] | None:
    """Lock this SQLite database for serving; keep what is returned open. None on PostgreSQL, which serves many.

    Raises Conflict ``already_served`` when another process has it.
    """
    if connection.vendor == "postgresql":
        return None
    name = str(connection.settings_dict["NAME"])
    lock = open(f"{name}.serve", "a+")  # noqa: SIM115 - held until the process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        pid = lock.read().strip() or "unknown"
        lock.close()
        raise Conflict(
            f"The SQLite database {name} is served already (process {pid}). Stop that server first; PostgreSQL takes "
            "any number of them.",
            code="already_served",
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
