"""`manage.py seed_demo --jobs 200 --runs 100000`: a busy installation to look at, in an empty database."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import CroniqError
from scheduler.services.seed import seed_demo


class Command(BaseCommand):
    help = (
        "Fill an empty database with jobs, runs, dead letters and runners that never were, to look at the pages or to "
        "measure them. It refuses where there are runs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--jobs", type=int, default=200)
        parser.add_argument("--runs", type=int, default=100_000, help="runs that have ended, the newest there would be")
        parser.add_argument("--seed", type=int, default=5, help="another number makes another installation")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = seed_demo(options["jobs"], options["runs"], DatabaseClock().now(), options["seed"])
        except CroniqError as error:
            sentences = [sentence for said in error.fields.values() for sentence in said]
            raise CommandError(" ".join(sentences) or error.message) from None
        self.stdout.write(
            f"Made {made.jobs} jobs, {made.runs} runs, {made.letters} dead letters, and {made.live} runs that go on."
        )
