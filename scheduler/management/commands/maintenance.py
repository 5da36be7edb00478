"""`manage.py maintenance on|off|status`: hold all dispatch, for a reason and until an instant."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import CroniqError
from runners.services.audit import Actor
from scheduler.domain.durations import parse_duration
from scheduler.domain.trigger_fields import instant_of
from scheduler.queries.maintenance import current_maintenance
from scheduler.services.maintenance import begin_maintenance, end_maintenance


class Command(BaseCommand):
    help = (
        "Hold all dispatch: no server hands out a run until it ends; what is claimed goes on. Scheduled runs that fall "
        "due in it are skipped and recorded, everything else waits."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["on", "off", "status"])
        parser.add_argument("--reason", default="", help="why, for whoever looks")
        parser.add_argument(
            "--until", metavar="END", help="an instant such as 2026-12-24T12:00:00Z, or for how long, such as 2h"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        now = DatabaseClock().now()
        try:
            if options["action"] == "on":
                begin_maintenance(now, _who(), options["reason"], _end_of(options["until"], now))
            elif options["action"] == "off":
                end_maintenance(now, _who())
        except CroniqError as error:
            raise CommandError(error.message) from None
        row = current_maintenance()
        if row is None:
            self.stdout.write("Maintenance is off.")
            return
        reason = f" Reason: {row.reason}" if row.reason else ""
        until = f" until {row.until.isoformat()}" if row.until else ""
        self.stdout.write(f"Maintenance is on since {row.began_at.isoformat()}{until}.{reason}")


def _who() -> Actor:
    try:
        return Actor("user", getpass.getuser())
    except (KeyError, OSError):  # a container's user without a name
        return Actor("user", "")


def _end_of(text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    return instant_of("until", text) if "T" in text else now + parse_duration(text, field="until")
