"""Which versions decide here, who is alive, and what is wrong: for `manage.py doctor` and the API alike."""

from __future__ import annotations

import platform
import sqlite3
from dataclasses import dataclass
from datetime import datetime

import django
from django.db import connection

from calendars.queries.versions import rule_versions
from croniq_site.kernel.migrated import pending_migrations
from scheduler.models import Maintenance
from scheduler.queries import takers
from scheduler.queries.maintenance import current_maintenance
from scheduler.queries.silent_channels import FAILURES_TOLD, channel_sentences
from scheduler.queries.trouble import Pulse, pulse, troubles
from scheduler.queries.upkeep import kept_for, sqlite_file
from scheduler.sql.gauges import letters_and_silent_channels


@dataclass(frozen=True)
class Process:
    """When one of this kind gave its last sign of life, and ended its last pass (None: never, or it has no passes)."""

    kind: str
    beat_at: datetime | None
    tick_at: datetime | None


@dataclass(frozen=True)
class Diagnostics:
    """``retention``: what is kept, and how long; ``advice``: what would do the database good; ``problems``: a sentence
    for each thing that somebody should look at. With migrations that are not applied nothing else is looked at: the
    tables may be others."""

    versions: dict[str, str]
    pending_migrations: list[str]
    processes: list[Process]
    maintenance: Maintenance | None
    dead_letters: int
    retention: list[str]
    advice: list[str]
    problems: list[str]


def diagnostics(now: datetime, croniq_version: str, seen: Pulse | None = None) -> Diagnostics:
    """Look at everything; ``seen`` is the pulse where it was read already. Raises DatabaseError where the database
    cannot be asked."""
    versions = {
        "croniq": croniq_version,
        "python": platform.python_version(),
        "django": django.get_version(),
        "database": _database(),
        **rule_versions(),
    }
    missing = pending_migrations()
    if missing:
        problem = f"The database lacks migrations: {', '.join(missing)}. Run manage.py migrate."
        return Diagnostics(versions, missing, [], None, 0, [], [], [problem])
    seen = seen or pulse(now)
    processes = [Process(kind, at, seen.ticks.get(kind)) for kind, at in seen.beats.items()]
    letters, channels = letters_and_silent_channels(FAILURES_TOLD)
    problems = [
        *troubles(now, seen),
        *takers.sentences(now),
        *channel_sentences(channels),
    ]
    file = sqlite_file()
    return Diagnostics(
        versions=versions,
        pending_migrations=[],
        processes=processes,
        maintenance=current_maintenance(),
        dead_letters=letters,
        retention=list(kept_for()),
        advice=[] if file is None else list(file.advice()),
        problems=problems,
    )


def _database() -> str:
    if connection.vendor == "sqlite":
        return f"{connection.display_name} {sqlite3.sqlite_version}"
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return f"{connection.display_name} {cursor.fetchone()[0]}"
