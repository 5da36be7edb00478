"""One lock a domain of budgets: who holds it alone gives and takes their slots."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.db import connection

from croniq_site.kernel.database import is_postgresql


def lock_domains(names: Iterable[str]) -> None:
    """Wait for these locks, which end with the transaction. (SQLite: the write transaction is the lock.)

    One order for everybody, and nothing else is waited for under them: entries are looked at with SKIP LOCKED.
    """
    if not is_postgresql():
        return
    keys = sorted({_key(name) for name in names})
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key", [keys])


def _key(name: str) -> int:
    """64 bits of a hash: two names that shared it would merely take turns."""
    return int.from_bytes(hashlib.sha256(f"croniq budget {name}".encode()).digest()[:8], "big", signed=True)
