"""The name that a worker has at Croniq: its own among those that run at once, the same after a restart."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TextIO

log = logging.getLogger(__name__)


@contextmanager
def worker_name(prefix: str, url: str, key: str) -> Iterator[str]:
    """Hold the first free name of this machine and user until the block ends, or the process does.

    At each ``url`` and with each ``key`` there are others: a name belongs to the API client that had it first, and a
    worker that began with that of another's would be refused.

    Two workers of one name would depose each other, and the runs of the one would be taken for lost; a new name at each
    start would leave what a killed worker had to its lease. So names are kept in files, one a worker, and locked.
    """
    safe = re.sub(r"[^\w.-]", "_", prefix)
    whose = hashlib.sha256(f"{prefix}\0{url}\0{key}".encode()).hexdigest()[:12]
    try:
        directory = state_directory()
        directory.mkdir(parents=True, exist_ok=True)
        held = next(filter(None, (_locked(directory / f"django-{safe}-{whose}-{n}") for n in count(1))))
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        log.warning("No worker's name is kept (%s): CRONIQ_RUNNER_DATA_DIR may say where.", error)
        yield f"{prefix}-{secrets.token_hex(4)}"
        return
    with held:
        name = held.read().strip()
        if not (name.startswith(f"{prefix}-") and name.isprintable()):
            # Of a new file, or of one that a full disk or something else has broken.
            name = f"{prefix}-{secrets.token_hex(4)}"
            held.truncate(0)
            held.write(name)
            held.flush()
        yield name


def state_directory() -> Path:
    """As the SDK has it: ``$CRONIQ_RUNNER_DATA_DIR``, ``$XDG_STATE_HOME/croniq``, ``~/.local/state/croniq``."""
    if own := os.environ.get("CRONIQ_RUNNER_DATA_DIR"):
        return Path(own)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "croniq"


def _locked(path: Path) -> TextIO | None:
    """The file, open and locked; None where another worker holds it."""
    file = path.open("a+", encoding="utf-8", errors="replace")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    file.seek(0)
    return file
