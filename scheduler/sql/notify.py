"""PostgreSQL's own messages between sessions; SQLite has none."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper


def notify(connection: BaseDatabaseWrapper, channel: str, text: str) -> None:
    """Send ``text`` (under 8,000 bytes) when the transaction in hand commits, now where there is none."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [channel, text])


def listen(connection: BaseDatabaseWrapper, channel: str) -> None:
    """Make ``connection``, which must be in no transaction, hear ``channel`` (a name of ours, not quoted)."""
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {channel}")
