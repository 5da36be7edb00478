"""End what has run out: leases, deadlines, pauses, retention. Any number of these may run at once."""

from __future__ import annotations

import argparse
from datetime import datetime

from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel.migrated import require_migrated
from croniq_site.kernel.stop import StopToken, stop_on_signals
from scheduler.management.arguments import interval
from scheduler.workers.alerter import AlertThread
from scheduler.workers.process import Worker
from scheduler.workers.reaper import run_once


class Command(BaseCommand):
    help = "Give lost runs back, time out what runs too long, clear away what has expired, send alerts."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="do all that is due, then exit")
        parser.add_argument(
            "--interval", type=interval, default=5.0, metavar="SECONDS", help="pause between passes (%(default)s)"
        )

    def handle(self, *, once: bool, interval: float, **options: object) -> None:
        require_migrated(waits=not once)

        def work(now: datetime) -> float:
            reaped = run_once(now)
            if once:
                self.stdout.write(", ".join(f"{name}: {count}" for name, count in reaped.done.items()))
                if reaped.failed:
                    raise CommandError(f"failed (the log says why): {', '.join(reaped.failed)}")
            return interval if reaped.is_done else 0.0

        worker = Worker("reap", work)
        if once:
            worker.run_once()
            return
        stop = StopToken()
        stop_on_signals(stop)
        with AlertThread(stop):
            worker.run(stop)
