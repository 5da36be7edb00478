"""Plan the runs of every trigger, ahead of time. Any number of these may run at once."""

from __future__ import annotations

import argparse
from datetime import datetime

from django.core.management.base import BaseCommand

from croniq_site.kernel.migrated import require_migrated
from croniq_site.kernel.stop import StopToken, stop_on_signals
from scheduler.management.arguments import interval
from scheduler.workers.materializer import pause_seconds, run_once
from scheduler.workers.process import Worker


class Command(BaseCommand):
    help = "Turn fires within the horizon into runs; any number of these may run at once."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="plan all that is due, then exit")
        parser.add_argument(
            "--interval", type=interval, default=5.0, metavar="SECONDS", help="longest pause (default: %(default)s)"
        )

    def handle(self, *, once: bool, interval: float, **options: object) -> None:
        require_migrated(waits=not once)

        def work(now: datetime) -> float:
            summary = run_once(now)
            if once:
                self.stdout.write(
                    f"{summary.triggers} triggers planned: {summary.inserted} runs, {summary.skipped} fires skipped, "
                    f"{summary.broken} triggers broken"
                )
                return 1.0 if summary.is_done else 0.0
            return pause_seconds(summary, now, interval)

        worker = Worker("materialize", work)
        if once:
            worker.run_once()
            return
        stop = StopToken()
        stop_on_signals(stop)
        worker.run(stop)
