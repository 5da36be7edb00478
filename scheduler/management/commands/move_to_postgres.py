"""`manage.py move_to_postgres --to URL`: a SQLite installation goes on as one on PostgreSQL."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import CroniqError
from croniq_site.kernel.migrated import require_migrated
from scheduler.services.move.moving import BATCH_ROWS, move


class Command(BaseCommand):
    help = (
        "Copy this SQLite installation into an empty, migrated PostgreSQL database, compare the two, and open that. "
        "Stop all of Croniq first. An interrupted move goes on when it is asked for again. A password in the URL can "
        "be seen by every user of the machine (ps): prefer PGPASSWORD or ~/.pgpass."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--to", required=True, metavar="URL", help="postgres://USER@HOST:PORT/NAME")
        parser.add_argument("--batch", type=int, default=BATCH_ROWS, metavar="ROWS", help="a transaction (%(default)s)")

    def handle(self, *, to: str, batch: int, **options: Any) -> None:
        if not 1 <= batch <= 100_000:
            raise CommandError("--batch: from 1 to 100000.", returncode=2)
        require_migrated()
        try:
            moved = move(to, DatabaseClock().now(), self._say, batch=batch)
        except CroniqError as error:
            raise CommandError(error.message) from None
        except psycopg.Error as error:
            raise CommandError(
                f"The move was interrupted: {' '.join(str(error).split())}. Ask for it again; it goes on from here."
            ) from None
        self._say(
            f"Moved: {moved.rows} rows of {moved.tables} tables, {moved.copied} of them now. Start Croniq with the new "
            "DATABASE_URL and the same CRONIQ_SECRET_KEY. This database is under maintenance now: it hands out nothing."
        )

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
