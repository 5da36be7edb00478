"""Tell every server at once that a key may open less than it did."""

from __future__ import annotations

from django.db import connection

from croniq_site.kernel.database import is_postgresql

CHANNEL = "croniq_access"
"""Servers on PostgreSQL listen to it. What is said on it is empty: whoever hears it looks at the keys that he knows."""


def access_changed() -> None:
    """Say, when the transaction in hand commits, that keys or clients were ended or may do something else.

    A server of a SQLite database sees by the file's version that something was written, and looks then.
    """
    if is_postgresql():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
