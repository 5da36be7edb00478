"""Only what differs by database: one module each, with the same functions and the same outcomes.

`tests/scheduler/conformance` runs on both and holds them to it. Everything else is one text for both databases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from django.db import DEFAULT_DB_ALIAS

from croniq_site.kernel.database import is_postgresql, write_transaction
from scheduler.sql import postgresql, sqlite


def backend(alias: str = DEFAULT_DB_ALIAS) -> ModuleType:
    """Return the module of this database: ``claim_rows``, ``complete``, ``renew_held``, ``SKIP_LOCKED``."""
    return postgresql if is_postgresql(alias) else sqlite


@contextmanager
def hot_statement() -> Iterator[None]:
    """Around one of the hot statements: on PostgreSQL it is a transaction by itself, and opening one would cost two
    more journeys; on SQLite it is several, in one write transaction."""
    if is_postgresql():
        yield
    else:
        with write_transaction():
            yield
