"""What the commands that import have in common: what they say, and what their exit code means."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from calendars.domain.zones import load_zone
from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import CroniqError
from runners.services.audit import Actor
from scheduler.domain.imports import Draft, Remark
from scheduler.domain.inputs import slug_of
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.domain.words import lacking_words
from scheduler.queries.imports import imported_keys
from scheduler.queries.runners import STALE_SECONDS, lacking_among
from scheduler.services.imports import Imported, Source, import_jobs
from scheduler.services.jobs import DEFAULT_TENANT

SHOWN_CHARACTERS = 160


@dataclass
class Reading:
    """What a source has: jobs, what could not be taken, what is worth saying, and the prefixes of its jobs' keys."""

    drafts: list[Draft] = field(default_factory=list)
    refused: list[Remark] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)


class ImportCommand(BaseCommand):
    """A command that makes jobs of something. ``thing`` is what one is called."""

    managed_by = ""
    thing = ""

    def add_common_arguments(self, parser: argparse.ArgumentParser, *, zone_help: str) -> None:
        parser.add_argument("--dry-run", action="store_true", help="write nothing; show the jobs and their next fires")
        parser.add_argument("--strict", action="store_true", help=f"exit with 1 if any {self.thing} could not be taken")
        parser.add_argument("--tenant", default=DEFAULT_TENANT, help="(default: %(default)s)")
        parser.add_argument("--timezone", metavar="ZONE", help=zone_help)
        parser.add_argument("--require", metavar="CAPABILITY", action="append", help="of the runner; may be repeated")
        parser.add_argument("--pin", metavar="RUNNER_ID", help="the one runner that shall run the jobs")

    def handle(self, **options: Any) -> None:
        now = DatabaseClock().now()
        try:
            slug_of("tenant", options["tenant"])
            if options["timezone"]:
                load_zone(options["timezone"])
            reading = self.read(now, options)
        except CroniqError as error:
            raise CommandError(sentence(error)) from error
        source = Source(self.managed_by, Actor("system", f"import_{self.managed_by}"), options["tenant"])
        imported = import_jobs(reading.drafts, now, source, dry_run=options["dry_run"])
        for one in imported:
            self._show(one, options["dry_run"])
        failed = [Remark(one.draft.where, one.draft.what, one.reason) for one in imported if one.reason]
        refused = [*reading.refused, *failed]
        self._show_remarks(refused, reading.notes)
        self._show_lacking(imported, now, options)
        self._show_left(reading, options["tenant"])
        self._sum_up(imported, refused, options)

    def read(self, now: datetime, options: dict[str, Any]) -> Reading:
        """Read the source. Raises CroniqError or CommandError for what cannot be read at all."""
        raise NotImplementedError

    def last_words(self, options: dict[str, Any]) -> str:
        """What is to be said below the sum when jobs were taken."""
        return ""

    def first_fields(self, options: dict[str, Any]) -> dict[str, Any]:
        """What the options say of new jobs."""
        return {"require": options["require"] or [], "pin": options["pin"] or ""}

    def _show(self, one: Imported, is_dry: bool) -> None:
        if one.reason:
            return
        tense = "would be " if is_dry else ""
        self.stdout.write(f"{tense + one.outcome:<10} {one.draft.job_key}")
        if one.preview is not None:
            zone = load_zone(one.preview.zone).info
            fires = ", ".join(f"{at.astimezone(zone):%a %Y-%m-%d %H:%M %Z}" for at in one.preview.fires)
            self.stdout.write(f"{'':<10} {shown(one.draft.where)}: {one.preview.words}")
            self.stdout.write(f"{'':<10} {shown(one.draft.what)}")
            self.stdout.write(f"{'':<10} next {fires or 'never'}")
            if is_dry:
                for said in details(one.draft):
                    self.stdout.write(f"{'':<10} {shown(said)}")

    def _show_remarks(self, refused: Sequence[Remark], notes: Iterable[Remark]) -> None:
        for remark in refused:
            about = f": {shown(remark.what)}" if remark.what else ""
            self.stdout.write(f"{'not taken':<10} {shown(remark.where)}{about}")
            self.stdout.write(f"{'':<10} {shown(remark.reason)}")
        for note in notes:
            about = f"{shown(note.what)}: " if note.what else ""
            self.stdout.write(f"{'note':<10} {shown(note.where)}: {about}{shown(note.reason)}")

    def _show_lacking(self, imported: Sequence[Imported], now: datetime, options: dict[str, Any]) -> None:
        made = [one.draft for one in imported if one.outcome == "created"]
        names = {name for draft in made for name in draft.first.get("require") or ()}
        names |= {PIN_PREFIX + draft.first["pin"] for draft in made if draft.first.get("pin")}
        for name in lacking_among(sorted(names), options["tenant"], now - timedelta(seconds=STALE_SECONDS)):
            self.stdout.write(f"{'note':<10} {shown(lacking_words(name))}")

    def _show_left(self, reading: Reading, tenant: str) -> None:
        taken = {draft.job_key for draft in reading.drafts}
        for prefix in reading.prefixes:
            for key in imported_keys(prefix, tenant, self.managed_by):
                if key not in taken:
                    self.stdout.write(f"{'left':<10} {key}")
                    gone = f"an earlier import made it, and its {self.thing} is not here; it still runs"
                    self.stdout.write(f"{'':<10} {gone}")

    def _sum_up(self, imported: Sequence[Imported], refused: Sequence[Remark], options: dict[str, Any]) -> None:
        counts = Counter(one.outcome for one in imported if one.outcome)
        taken = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("created", "changed", "unchanged"))
        tense = "would be " if options["dry_run"] else ""
        self.stdout.write(f"{counts.total()} {self.thing}s {tense}taken ({taken}), {len(refused)} not taken.")
        if counts and (words := self.last_words(options)):
            self.stdout.write(words)
        if refused and (options["strict"] or not counts):
            raise CommandError(f"Not every {self.thing} could be taken." if counts else "Nothing could be taken.")


def details(draft: Draft) -> Iterator[str]:
    """What a job would be besides its schedule and its command, a line each: of variables the names alone."""
    action = draft.fields.get("action") or {}
    about = [f"as {action['user']}" if action.get("user") else "", f"in {action['cwd']}" if action.get("cwd") else ""]
    if action.get("env"):
        about.append(f"with {', '.join(sorted(action['env']))}")
    if action.get("stdin"):
        about.append("with something to read from standard input")
    if any(about):
        yield f"runs {', '.join(filter(None, about))}"
    rules = {**draft.first, **draft.fields}
    kept = {name: rules.get(name) for name in ("timeout", "max_retries", "catch_up", "require", "pin")}
    yield ", ".join(f"{name} {_said(value)}" for name, value in kept.items() if value not in ([], "", None))


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def content(name: str, most: int) -> bytes:
    """A file, or standard input for ``-``; at most one byte more than ``most``: what is longer is refused unread."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(most + 1)
        with Path(name).open("rb") as file:
            return file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandError(f"{shown(name)} cannot be read: {reason}") from error


def sentence(error: CroniqError) -> str:
    fields = ", ".join(error.fields)
    return f"{fields}: {error.message}" if fields else error.message


def shown(text: str) -> str:
    """What a terminal may show of anybody's text: no control characters, and not all of a long one."""
    text = "".join(c if c.isprintable() else " " if c == "\t" else repr(c)[1:-1] for c in text[: SHOWN_CHARACTERS + 1])
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
