"""`manage.py doctor`: which versions decide here, who is alive, and what is wrong."""

from __future__ import annotations

import platform
import tomllib
from typing import Any

import django
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from calendars.queries.versions import rule_versions
from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.migrated import pending_migrations
from scheduler.models import DeadLetter
from scheduler.queries.gauges import capability_runners, last_ticks
from scheduler.queries.maintenance import current_maintenance
from scheduler.queries.trouble import last_beats, troubles
from scheduler.queries.upkeep import kept_for, sqlite_file


class Command(BaseCommand):
    help = "Show versions and signs of life, and say what is wrong; exits with 1 if anything is."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with connection.cursor() as cursor:
                is_sqlite = connection.vendor == "sqlite"
                cursor.execute("SELECT sqlite_version()" if is_sqlite else "SHOW server_version")
                database = f"{connection.display_name} {cursor.fetchone()[0]}"
        except DatabaseError as error:
            raise CommandError(f"The database cannot be opened: {' '.join(str(error).split())}") from None
        project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]
        self._line("croniq", project["version"])
        self._line("python", platform.python_version())
        self._line("django", django.get_version())
        self._line("database", database)
        for name, version in rule_versions().items():
            self._line(name, version)
        missing = pending_migrations()
        if missing:
            raise CommandError(f"The database lacks migrations: {', '.join(missing)}. Run manage.py migrate.")
        self._line("migrations", "applied")
        ticks = last_ticks()
        for kind, at in last_beats().items():
            line = at.isoformat(timespec="seconds") if at else "-"
            if kind in ticks:
                line += f", last pass {ticks[kind].isoformat(timespec='seconds')}"
            self._line(kind, line)
        now = DatabaseClock().now()
        maintenance = current_maintenance()
        if maintenance is not None:
            until = maintenance.until.isoformat(timespec="seconds") if maintenance.until else "somebody ends it"
            self._line("maintenance", f"all dispatch is held until {until}. {maintenance.reason}".rstrip())
        self._line("letters", str(DeadLetter.objects.count()))
        for line in kept_for():
            self._line("retention", line)
        file = sqlite_file()
        for line in file.advice() if file is not None else ():
            self._line("advice", line)
        found = list(troubles(now))
        lacking = (name for name, runners in capability_runners(now).items() if not runners)
        found += [f"No runner that is online has {name}, which jobs require." for name in lacking]
        if found:
            raise CommandError("\n".join(found))
        self.stdout.write("All is well.")

    def _line(self, name: str, value: str) -> None:
        self.stdout.write(f"{name:12} {value}")
