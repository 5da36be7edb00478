"""How long things are kept, and how the file of a SQLite database does, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection

from scheduler.domain.durations import format_duration

MIB = 1_048_576
LONG_LOG_BYTES = 256 * MIB
"""The write-ahead log is emptied about every 16 MiB: one that is so long has a reader that never ends."""
FREE_SHARE, FREE_BYTES = 0.25, 64 * MIB
"""Free space in the file that is worth giving back: both, a share of it and so much."""


def kept_for() -> list[str]:
    """A sentence each on what retention is set to; what is kept for ever is said so."""
    runs, keep = _length(settings.CRONIQ_RUN_RETENTION_SECONDS), settings.CRONIQ_KEEP_RUNS
    lines, audit = _length(settings.CRONIQ_LOG_RETENTION_SECONDS), _length(settings.CRONIQ_AUDIT_RETENTION_SECONDS)
    return [
        f"Runs are kept for {runs} (CRONIQ_RUN_RETENTION)."
        if runs
        else "Runs are kept for ever (CRONIQ_RUN_RETENTION).",
        f"Of each job the newest {keep} runs are kept (CRONIQ_KEEP_RUNS)."
        if keep
        else "Of each job all runs are kept (CRONIQ_KEEP_RUNS).",
        f"Log lines are kept for {lines} (CRONIQ_LOG_RETENTION)."
        if lines
        else "Log lines are kept as long as their runs (CRONIQ_LOG_RETENTION).",
        f"The audit is kept for {audit} (CRONIQ_AUDIT_RETENTION)."
        if audit
        else "The audit is kept for ever (CRONIQ_AUDIT_RETENTION).",
    ]


@dataclass(frozen=True)
class SqliteFile:
    """Sizes in bytes; ``log`` is the write-ahead log beside the file, ``free`` what lies unused in it."""

    size: int
    log: int
    free: int

    def advice(self) -> Iterator[str]:
        """What somebody should do about it."""
        if self.log > LONG_LOG_BYTES:
            yield (
                f"The write-ahead log has {self.log // MIB} MiB: some process reads the database and never ends. Find "
                "and end it; the log is emptied by itself then."
            )
        if self.free > FREE_BYTES and self.free > FREE_SHARE * self.size:
            yield (
                f"{self.free // MIB} of {self.size // MIB} MiB of the database file are free. They are used again; "
                "manage.py prune --vacuum gives them back to the disk, with Croniq stopped."
            )


def sqlite_file() -> SqliteFile | None:
    """Look at the file of this database; None on PostgreSQL."""
    if connection.vendor != "sqlite":
        return None
    path = Path(connection.settings_dict["NAME"])
    log = path.with_name(f"{path.name}-wal")
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM pragma_page_count, pragma_freelist_count, pragma_page_size")
        pages, free, page_bytes = cursor.fetchone()
    return SqliteFile(pages * page_bytes, log.stat().st_size if log.exists() else 0, free * page_bytes)


def _length(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds)) if seconds else ""
