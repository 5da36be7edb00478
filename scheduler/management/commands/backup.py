"""`manage.py backup FILE`: a SQLite database as it is now, in one file, while everything goes on."""

from __future__ import annotations

import sqlite3
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from croniq_site.kernel.errors import CroniqError
from scheduler.services.backup import back_up

OF_POSTGRESQL = (
    "This installation is on PostgreSQL, which is backed up by its own tools, also while everything goes on:\n"
    "  pg_dump --format=custom --file=croniq.dump --dbname=NAME\n"
    "  pg_restore --exit-on-error --no-owner --dbname=NAME croniq.dump    (into a new, empty database)\n"
    "docs/deploy.md says more."
)


class Command(BaseCommand):
    help = (
        "Write the SQLite database to FILE as it is at one instant, while everything goes on; it is checked, and "
        "appears whole or not at all. On PostgreSQL it says how that is done, and exits with 2."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="a file that is not there yet")

    def handle(self, *, file: Path, **options: Any) -> None:
        if connection.vendor != "sqlite":
            raise CommandError(OF_POSTGRESQL, returncode=2)
        source = Path(connection.settings_dict["NAME"])
        if not source.exists():
            raise CommandError(f"There is no database at {source} yet.")
        try:
            size = back_up(file.absolute())
        except CroniqError as error:
            raise CommandError(error.message) from None
        except (sqlite3.Error, OSError) as error:
            raise CommandError(f"{file} was not written: {error}") from None
        self.stdout.write(f"{file}: {size / 1_048_576:.1f} MiB, checked.")
        if (settings.DATA_DIR / "secret_key").exists():
            lost = "without which everybody signs in again and second factors are lost."
            self.stdout.write(f"Not in it: {settings.DATA_DIR / 'secret_key'}, {lost}")
