"""`manage.py doctor`: which versions decide here, who is alive, and what is wrong."""

from __future__ import annotations

import tomllib
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from croniq_site.kernel.clock import DatabaseClock
from scheduler.queries.diagnostics import Process, diagnostics


class Command(BaseCommand):
    help = "Show versions and signs of life, and say what is wrong with the installation; exits with 1 if anything is."

    def handle(self, *args: Any, **options: Any) -> None:
        project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]
        try:
            found = diagnostics(DatabaseClock().now(), project["version"])
        except DatabaseError as error:
            raise CommandError(f"The database cannot be opened: {' '.join(str(error).split())}") from None
        for name, version in found.versions.items():
            self._line(name, version)
        if found.pending_migrations:
            raise CommandError("\n".join(found.problems))
        self._line("migrations", "applied")
        for process in found.processes:
            self._line(process.kind, _signs_of_life(process))
        if found.maintenance is not None:
            until = _short(found.maintenance.until) if found.maintenance.until else "somebody ends it"
            self._line("maintenance", f"all dispatch is held until {until}. {found.maintenance.reason}".rstrip())
        self._line("letters", str(found.dead_letters))
        for line in found.retention:
            self._line("retention", line)
        for line in found.advice:
            self._line("advice", line)
        if found.problems:
            raise CommandError("\n".join(found.problems))
        # Of all tenants together; what becomes of their jobs is no fault of the installation.
        self.stdout.write("The installation is well. Whether jobs fail or are late is on the page Now.")

    def _line(self, name: str, value: str) -> None:
        self.stdout.write(f"{name:12} {value}")


def _signs_of_life(process: Process) -> str:
    beat = _short(process.beat_at) if process.beat_at else "-"
    return beat + (f", last pass {_short(process.tick_at)}" if process.tick_at else "")


def _short(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
