"""Jobs from a crontab."""

from __future__ import annotations

import argparse
import os
import pwd
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from calendars.domain.zones import load_zone
from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import CroniqError
from runners.services.audit import Actor
from scheduler.domain.crontab import MOST_BYTES, Crontab, NotTaken, Remark, parse_crontab
from scheduler.domain.crontab_jobs import PREFIX, LineJob, RunnerAccount, file_prefix, jobs_of
from scheduler.domain.inputs import slug_of
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.domain.schedules import CronSchedule, fires
from scheduler.domain.words import describe, lacking_words
from scheduler.queries.crontab import imported_job, imported_keys
from scheduler.queries.runners import STALE_SECONDS, lacking_among
from scheduler.services.crontab import ImportedLine, import_jobs, outcome_of
from scheduler.services.jobs import DEFAULT_TENANT

ACTOR = Actor("system", "import_crontab")
SHOWN_CHARACTERS = 160
NEXT_FIRES = 3
NO_USER = "this machine knows no user {!r}; the machine of the runner has to"


class Command(BaseCommand):
    help = "Make command jobs of the lines of a crontab; what cannot be taken is listed with the reason."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="a crontab; - is standard input: crontab -l | … -")
        parser.add_argument("--system", action="store_true", help="like /etc/crontab: a user before each command")
        parser.add_argument("--dry-run", action="store_true", help="write nothing; show the jobs and their next fires")
        parser.add_argument("--strict", action="store_true", help="exit with 1 if any line could not be taken")
        parser.add_argument("--tenant", default=DEFAULT_TENANT, help="(default: %(default)s)")
        parser.add_argument("--prefix", help="of the job keys (default: crontab:<name of the file>)")
        parser.add_argument("--timezone", metavar="ZONE", help="of the machine that the crontab is of")
        parser.add_argument("--runner-is-root", action="store_true", help="the runner runs as root: users are honoured")
        parser.add_argument("--as-user", metavar="NAME", help="the runner's account (default: that of this command)")
        parser.add_argument("--require", metavar="CAPABILITY", action="append", help="of the runner; may be repeated")
        parser.add_argument("--pin", metavar="RUNNER_ID", help="the one runner that shall run the jobs")

    def handle(self, **options: Any) -> None:
        now = DatabaseClock().now()
        try:
            slug_of("tenant", options["tenant"])
            if options["timezone"]:
                load_zone(options["timezone"])
            crontab = parse_crontab(_content(options["file"]), system=options["system"])
            prefix = options["prefix"] or _default_prefix(options["file"])
            account = _account(options)
            jobs, refused = jobs_of(
                crontab,
                prefix=prefix,
                source=_source(options["file"]),
                account=account,
                timezone=options["timezone"] or "",
            )
            lines = self._lines(jobs, now, options)
        except CroniqError as error:
            raise CommandError(_sentence(error)) from error
        for line in lines:
            self._show(line, now, options["dry_run"])
        refused += [Remark(line.job.entry.number, line.job.entry.line, line.reason) for line in lines if line.reason]
        self._show_remarks(crontab, refused)
        self._show_lacking(lines, now, options)
        self._show_left(prefix, options["tenant"], lines)
        self._sum_up(lines, refused, account, options)

    def _lines(self, jobs: list[LineJob], now: datetime, options: dict[str, Any]) -> list[ImportedLine]:
        if options["dry_run"]:
            return [_tried(job, options["tenant"]) for job in jobs]
        more = {"require": options["require"] or [], "pin": options["pin"] or ""}
        return import_jobs(jobs, now, actor=ACTOR, tenant=options["tenant"], more=more)

    def _show(self, line: ImportedLine, now: datetime, is_dry: bool) -> None:
        if line.reason:
            return
        entry = line.job.entry
        tense = "would be " if is_dry else ""
        self.stdout.write(f"{tense + line.outcome:<10} {line.job.job_key}")
        if (user := line.job.action.get("user")) and not _is_known(user):
            self.stdout.write(f"{'note':<10} line {entry.number}: {_shown(NO_USER.format(user))}")
        if is_dry:
            zone = line.job.timezone or settings.CRONIQ_TIME_ZONE
            schedule = CronSchedule(entry.expression, zone, line.job.job_key)
            local = [fire.at.astimezone(load_zone(zone).info) for fire in fires(schedule, after=now, count=NEXT_FIRES)]
            self.stdout.write(f"{'':<10} line {entry.number}: {describe(schedule)}")
            self.stdout.write(f"{'':<10} {_shown(entry.command)}")
            self.stdout.write(f"{'':<10} next {', '.join(f'{at:%a %Y-%m-%d %H:%M %Z}' for at in local)}")

    def _show_remarks(self, crontab: Crontab, refused: list[Remark]) -> None:
        for remark in sorted(refused, key=lambda remark: remark.number):
            self.stdout.write(f"{'not taken':<10} line {remark.number}: {_shown(remark.line)}")
            self.stdout.write(f"{'':<10} {_shown(remark.reason)}")
        for note in crontab.notes:
            about = f"{_shown(note.line)}: " if note.line else ""
            self.stdout.write(f"{'note':<10} line {note.number}: {about}{_shown(note.reason)}")

    def _show_lacking(self, lines: list[ImportedLine], now: datetime, options: dict[str, Any]) -> None:
        if any(line.outcome == "created" for line in lines):
            wanted = [*(options["require"] or ()), *([PIN_PREFIX + options["pin"]] if options["pin"] else ())]
            for name in lacking_among(wanted, options["tenant"], now - timedelta(seconds=STALE_SECONDS)):
                self.stdout.write(f"{'note':<10} {_shown(lacking_words(name))}")

    def _show_left(self, prefix: str, tenant: str, lines: list[ImportedLine]) -> None:
        taken = {line.job.job_key for line in lines}
        for key in imported_keys(prefix, tenant):
            if key not in taken:
                self.stdout.write(f"{'left':<10} {key}")
                self.stdout.write(f"{'':<10} an earlier import made it, and its line is not here; it still runs")

    def _sum_up(
        self, lines: list[ImportedLine], refused: list[Remark], account: RunnerAccount, options: dict[str, Any]
    ) -> None:
        counts = Counter(line.outcome for line in lines if line.outcome)
        taken = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("created", "changed", "unchanged"))
        tense = "would be " if options["dry_run"] else ""
        self.stdout.write(f"{counts.total()} lines {tense}taken ({taken}), {len(refused)} not taken.")
        if options["system"] and counts:
            self.stdout.write(f"Their runner is taken to run as {account.name!r} (--runner-is-root, --as-user).")
        if refused and (options["strict"] or not counts):
            raise CommandError("Nothing could be taken." if not counts else "Not every line could be taken.")


def _tried(job: LineJob, tenant: str) -> ImportedLine:
    try:
        return ImportedLine(job, outcome_of(job, imported_job(job.job_key), tenant))
    except NotTaken as refused:
        return ImportedLine(job, "", str(refused))


def _content(name: str) -> bytes:
    """At most one byte more than a crontab may have: what is longer is refused without being read."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandError(f"{_shown(name)} cannot be read: {reason}") from error


def _source(name: str) -> str:
    return "crontab" if name == "-" else Path(name).name


def _default_prefix(name: str) -> str:
    return PREFIX if name == "-" else file_prefix(Path(name).name)


def _account(options: dict[str, Any]) -> RunnerAccount:
    if options["runner_is_root"]:
        return RunnerAccount("root")
    if options["as_user"]:
        return RunnerAccount(options["as_user"])
    try:
        return RunnerAccount(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:  # an account without a name, as in some containers
        return RunnerAccount(str(os.geteuid()))


def _is_known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _sentence(error: CroniqError) -> str:
    fields = ", ".join(error.fields)
    return f"{fields}: {error.message}" if fields else error.message


def _shown(text: str) -> str:
    """What a terminal may show of a line of anybody's: no control characters, and not all of a long one."""
    text = "".join(c if c.isprintable() else " " if c == "\t" else repr(c)[1:-1] for c in text[: SHOWN_CHARACTERS + 1])
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
