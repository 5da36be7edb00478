"""The next fires of a schedule, in words and instants."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from calendars.domain.rules import OnBlocked
from calendars.domain.zones import load_zone
from calendars.queries.specs import calendar_named, calendar_spec
from croniq_site.kernel.clock import SystemClock
from croniq_site.kernel.errors import CroniqError
from scheduler.domain.cases import answer_line
from scheduler.domain.durations import parse_duration
from scheduler.domain.schedules import CronSchedule, Fire, IntervalSchedule, Schedule, fires, refuse_never
from scheduler.domain.words import describe

MOST = 1000


class Command(BaseCommand):
    help = "Say in words what a schedule means, and list its next fires. Needs a database only with --calendar."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        kind = parser.add_mutually_exclusive_group(required=True)
        kind.add_argument("--cron", metavar="EXPRESSION", help="such as '0 3 * * MON-FRI'")
        kind.add_argument("--every", metavar="DURATION", help="such as 90s, 5m, 1.5h; begins at --after")
        kind.add_argument("--jsonl", action="store_true", help="answer one JSON case a line of standard input")
        parser.add_argument("--timezone", metavar="ZONE", help="of the cron expression; else CRONIQ_TIME_ZONE")
        parser.add_argument("--calendar", metavar="NAME", help="the calendar that decides")
        parser.add_argument("--tenant", default="default", help="the calendar's tenant")
        parser.add_argument("--on-blocked", choices=[policy.value for policy in OnBlocked])
        parser.add_argument("--job-key", default="", help="what H in the expression is the hash of")
        parser.add_argument("--after", metavar="INSTANT", help="such as 2026-12-24T12:00:00Z; else now")
        parser.add_argument("--count", type=int, default=5)

    def handle(self, **options: Any) -> None:
        if options["jsonl"]:
            self._answer_lines(options["timezone"] or settings.CRONIQ_TIME_ZONE)
            return
        if not 1 <= options["count"] <= MOST:
            raise CommandError(f"--count: a number from 1 to {MOST}")
        try:
            self._list(options)
        except CroniqError as refused:
            fields = ", ".join(refused.fields)
            raise CommandError(f"{fields}: {refused.message}" if fields else refused.message) from refused

    def _list(self, options: dict[str, Any]) -> None:
        after = SystemClock().now() if options["after"] is None else _instant(options["after"])
        zone = load_zone(options["timezone"] or settings.CRONIQ_TIME_ZONE)
        schedule: Schedule
        if options["cron"] is not None:
            schedule = CronSchedule(options["cron"], zone.name, options["job_key"])
        else:
            every = parse_duration(options["every"], field="every", bare_seconds=True)
            schedule = IntervalSchedule(every, after, zone.name)
        calendar = None
        if options["calendar"] is not None:
            row = calendar_named(options["calendar"], tenant=options["tenant"])
            if row is None:
                raise CommandError(f"--calendar: there is no calendar {options['calendar']!r}")
            calendar = calendar_spec(row)
        self.stdout.write(describe(schedule))
        found = fires(
            schedule, after=after, count=options["count"], calendar=calendar, on_blocked=options["on_blocked"]
        )
        for fire in found:
            moved = "" if fire.at == fire.occurrence_at else f"  {_moved(fire)} from {_written(fire.occurrence_at)}"
            local = fire.at.astimezone(zone.info)
            self.stdout.write(f"{_written(fire.at)}  {local:%a %Y-%m-%d %H:%M:%S %Z}{moved}")
        if not found:
            refuse_never(schedule, after=after, calendar=calendar, on_blocked=options["on_blocked"])
        if len(found) < options["count"]:
            self.stdout.write("and then no more")

    def _answer_lines(self, timezone: str) -> None:
        load_zone(timezone)
        # Bytes that are no text must not end the conversation: they are a bad line like any other.
        for line in sys.stdin.buffer:
            text = line.decode("utf-8", "replace").strip()
            if text:
                self.stdout.write(answer_line(text, timezone=timezone))
                self.stdout.flush()


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None or not 1970 <= instant.year <= 9000:
        raise CommandError("--after: an instant such as 2026-12-24T12:00:00Z")
    return instant.astimezone(UTC)


def _moved(fire: Fire) -> str:
    return "deferred" if fire.at > fire.occurrence_at else "brought forward"


def _written(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
