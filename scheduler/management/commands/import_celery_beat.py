"""Jobs from the tables of django-celery-beat."""

from __future__ import annotations

import argparse
import os
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError

from scheduler.domain.celery_beat import PREFIX, Options, drafts_of
from scheduler.domain.job_fields import job_key_of
from scheduler.management.importing import ImportCommand, Reading
from scheduler.queries.celery_tables import read_celery_tables

VARIABLE = "CELERY_DATABASE_URL"


class Command(ImportCommand):
    help = (
        "Make handler jobs of the periodic tasks of django-celery-beat, read from its tables; what cannot be taken is "
        "listed with the reason."
    )
    managed_by = "celery_beat"
    thing = "task"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--database-url", metavar="URL", help=f"of the application's database, else {VARIABLE} (ps shows options)"
        )
        parser.add_argument("--prefix", default=PREFIX, help="of the job keys (default: %(default)s)")
        parser.add_argument(
            "--queues", action="store_true", help="a task's queue is a capability that its runner needs"
        )
        self.add_common_arguments(parser, zone_help="of instants without one (default: UTC, as USE_TZ stores them)")

    def read(self, now: datetime, options: dict[str, Any]) -> Reading:
        job_key_of("prefix", f"{options['prefix']}:x")
        url = options["database_url"] or os.environ.get(VARIABLE)
        if not url:
            raise CommandError(f"--database-url: the application's database is needed, here or in {VARIABLE}.")
        drafts, refused, notes = drafts_of(
            read_celery_tables(url),
            Options(
                prefix=options["prefix"],
                timezone=options["timezone"] or "UTC",
                queues=options["queues"],
                first=self.first_fields(options),
            ),
            now,
        )
        return Reading(drafts, refused, notes, [options["prefix"]])
