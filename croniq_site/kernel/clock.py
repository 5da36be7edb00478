"""The one place that reads a clock.

Services take ``now`` (aware, UTC). Processes get it from a clock once per pass: `DatabaseClock` wherever leases or
due times are decided, so that two hosts whose clocks differ still agree.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from django.db import DEFAULT_DB_ALIAS, connections


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the current instant, aware, UTC."""


class SystemClock:
    """This host's clock. For logs and for what never meets another host's idea of the time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class DatabaseClock:
    """The database server's clock; on SQLite, which lives on this host, the host's clock.

    Costs one round trip on PostgreSQL. ``clock_timestamp()`` and not ``now()``: inside a transaction the latter stands
    still, and a pass that waited for a lock would decide by the time at which it began to wait.
    """

    def __init__(self, alias: str = DEFAULT_DB_ALIAS) -> None:
        self.alias = alias

    def now(self) -> datetime:
        connection = connections[self.alias]
        if connection.vendor != "postgresql":
            return datetime.now(UTC)
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            return cursor.fetchone()[0].astimezone(UTC)


class ManualClock:
    """A clock that moves only when told: for tests and simulations, ours and our users'.

    ``tick`` may be negative: a clock that is stepped back is a case to test.
    """

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError("start must be an aware datetime")
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        return self._now

    def tick(self, delta: timedelta = timedelta(seconds=1)) -> datetime:
        """Move by ``delta`` and return the new instant."""
        self._now += delta
        return self._now

    def set(self, instant: datetime) -> None:
        if instant.tzinfo is None:
            raise ValueError("instant must be an aware datetime")
        self._now = instant.astimezone(UTC)
