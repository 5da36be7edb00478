"""`manage.py prune`: throw away now what has outlived its time, instead of when the reaper comes to it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import IO, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import CroniqError
from croniq_site.kernel.migrated import require_migrated
from scheduler.queries.prunable import KINDS, prunable
from scheduler.queries.upkeep import kept_for
from scheduler.services.serving import take_the_only_server
from scheduler.services.vacuum import vacuum
from scheduler.workers.pruner import prune


class Command(BaseCommand):
    help = (
        "Delete what is older than CRONIQ_RUN_RETENTION, CRONIQ_LOG_RETENTION and CRONIQ_RUNNER_RETENTION say, and "
        "runs behind the newest CRONIQ_KEEP_RUNS of each job, in short transactions while everything goes on."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="count only, and delete nothing")
        parser.add_argument(
            "--vacuum", action="store_true", help="SQLite, no server running: give free space back to the disk after it"
        )

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        require_migrated()
        now = DatabaseClock().now()
        for line in kept_for():
            self.stdout.write(line)
        if dry_run:
            self._say({kind: prunable(now, kind) for kind in KINDS}, "would go")
            return
        lock = self._lock() if options["vacuum"] else None
        self._say(prune(now), "gone")
        if lock is not None:
            self._vacuum()
            lock.close()

    def _say(self, counts: dict[str, int], what: str) -> None:
        for name, count in counts.items():
            self.stdout.write(f"{name:16} {count:9} {what}")

    def _lock(self) -> IO[str] | None:
        if connection.vendor != "sqlite":
            raise CommandError("--vacuum is SQLite's. PostgreSQL's autovacuum does it by itself.")
        try:
            return take_the_only_server()
        except CroniqError as refusal:
            raise CommandError(refusal.message) from None

    def _vacuum(self) -> None:
        try:
            before, after = vacuum()
        except DatabaseError as error:
            raise CommandError(f"The file was not made smaller: {error}. Do other processes use it?") from None
        self.stdout.write(f"The file had {before / 1_048_576:.1f} MiB and has {after / 1_048_576:.1f} MiB.")
