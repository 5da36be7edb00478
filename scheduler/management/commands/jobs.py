"""Jobs as code: `manage.py jobs validate|plan|apply|export|adopt|unadopt|schema`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel.clock import DatabaseClock, SystemClock
from croniq_site.kernel.errors import CroniqError
from runners.services.audit import Actor
from scheduler.domain.inputs import slug_of
from scheduler.domain.jobs_file import DEFAULT_TENANT, NAME
from scheduler.domain.jobs_file_plan import Plan, plan_body, plan_lines, problem_bodies
from scheduler.domain.jobs_file_schema import jobs_file_schema
from scheduler.domain.yaml_text import MOST_BYTES, Problem, Unreadable, write_yaml
from scheduler.queries.jobs_file import exported
from scheduler.services.jobs_file import adopt, apply_jobs_file, unadopt
from scheduler.services.jobs_file_check import CheckedFile, checked_jobs_file, problems_offline, without_secrets
from scheduler.services.jobs_file_plan import plan_jobs_file

ACTOR = Actor("system", "jobs apply")
HAS_CHANGES = 2
"""The exit code of a plan that is not empty; 1 is an error, of whatever kind."""


class Command(BaseCommand):
    help = (
        "Keep jobs, triggers, calendars and groups in a file: validate, plan, apply, export it (docs/jobs-as-code.md)."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        validate = verbs.add_parser("validate", help="say all that is wrong with a file")
        validate.add_argument("--offline", action="store_true", help="do not ask the database what there is")
        plan = verbs.add_parser("plan", help="say what apply would do; exits with 2 if that is anything")
        apply = verbs.add_parser("apply", help="do it, in one transaction")
        for verb in (plan, apply):
            verb.add_argument("--prune", action="store_true", help="remove what was in the file once and is not now")
            verb.add_argument("--adopt", action="store_true", help="take over what the file declares and others manage")
        apply.add_argument("--expect", metavar="PLAN", help="refuse if the plan is not this one, as plan printed it")
        for verb in (validate, plan, apply):
            verb.add_argument(
                "file", metavar="FILE", nargs="?", default=NAME, help="(default: %(default)s; - is stdin)"
            )
            verb.add_argument("--json", action="store_true", help="say it for a program")
        export = verbs.add_parser("export", help="print the file that declares all that there is")
        adopting = verbs.add_parser("adopt", help="let the file have the say in jobs that others made")
        unadopting = verbs.add_parser("unadopt", help="take jobs from the file, for the API to change")
        for verb in (adopting, unadopting):
            verb.add_argument("keys", metavar="KEY", nargs="*", help="a job")
            verb.add_argument("--calendar", metavar="NAME", action="append", default=[])
            verb.add_argument("--group", metavar="NAME", action="append", default=[])
        for verb in (export, adopting, unadopting):
            verb.add_argument("--tenant", default=DEFAULT_TENANT, help="(default: %(default)s)")
        schema = verbs.add_parser("schema", help="print the JSON Schema of the file, for editors")
        for each in (parser, validate, plan, apply, export, adopting, unadopting, schema):
            _exit_with_1(each)

    def handle(self, *args: Any, **options: Any) -> None:
        verb: Callable[[dict[str, Any]], None] = getattr(self, f"_{options['verb']}")
        try:
            verb(options)
        except CroniqError as error:
            raise CommandError(error.message) from error

    def _validate(self, options: dict[str, Any]) -> None:
        now = SystemClock().now() if options["offline"] else DatabaseClock().now()
        checked, _ = self._read(options, now)
        if options["offline"]:
            problems = problems_offline(checked, now)
        else:
            problems = list(plan_jobs_file(checked, now, adopt=True).plan.problems)
        if options["json"]:
            self._print_json(problem_bodies(problems))
        else:
            self._show(problems, options)
        self._end_on_errors(problems)
        if not options["json"]:
            self.stdout.write(f"{_source(options)} is sound: {len(checked.file.jobs)} jobs.")

    def _plan(self, options: dict[str, Any]) -> None:
        now = DatabaseClock().now()
        checked, _ = self._read(options, now)
        plan = plan_jobs_file(checked, now, prune=options["prune"], adopt=options["adopt"]).plan
        self._show_plan(plan, options)
        if plan.changes:
            sys.exit(HAS_CHANGES)

    def _apply(self, options: dict[str, Any]) -> None:
        now = DatabaseClock().now()
        checked, data = self._read(options, now)
        try:
            applied = apply_jobs_file(
                checked,
                now,
                ACTOR,
                source=_source(options),
                data=data,
                prune=options["prune"],
                adopt=options["adopt"],
                expect=options["expect"],
            )
        except CroniqError as error:
            if isinstance(plan := error.extra.get("plan"), Plan):
                self._show_plan(plan, options)  # ends with its errors
            raise
        more = {"started": list(applied.started), "not_started": list(applied.not_started)}
        self._show_plan(applied.plan, options, more)
        if not options["json"]:
            for key in applied.started:
                self.stdout.write(f"{key} runs once for it.")
            for key in applied.not_started:
                self.stdout.write(f"{key} does not run for it: its queue is full (max_queue_depth).")
            self.stdout.write("Applied." if applied.plan.changes else "Nothing was changed.")

    def _export(self, options: dict[str, Any]) -> None:
        self.stdout.write(write_yaml(exported(slug_of("tenant", options["tenant"]))), ending="")

    def _adopt(self, options: dict[str, Any]) -> None:
        self._hand_over(adopt, "now in the hands of the jobs file", options)

    def _unadopt(self, options: dict[str, Any]) -> None:
        self._hand_over(unadopt, "not in the hands of the jobs file any more", options)

    def _hand_over(self, service: Callable[..., list[str]], words: str, options: dict[str, Any]) -> None:
        if not (options["keys"] or options["calendar"] or options["group"]):
            raise CommandError("Name a job, or a --calendar or --group.")
        handed = service(
            slug_of("tenant", options["tenant"]),
            DatabaseClock().now(),
            ACTOR,
            jobs=options["keys"],
            calendars=options["calendar"],
            groups=options["group"],
        )
        for name in handed:
            self.stdout.write(f"{name} is {words}.")
        if not handed:
            self.stdout.write("Nothing was changed.")

    def _schema(self, options: dict[str, Any]) -> None:
        self._print_json(jobs_file_schema())

    def _read(self, options: dict[str, Any], now: datetime) -> tuple[CheckedFile, bytes]:
        data = _content(options["file"])
        try:
            return checked_jobs_file(data, now), data
        except Unreadable as unreadable:
            problems = [unreadable.problem]
            if options["json"]:
                self._print_json(problem_bodies(problems))
            else:
                self._show(problems, options)
            self._end_on_errors(problems)
            raise AssertionError("unreachable") from unreadable

    def _show_plan(self, plan: Plan, options: dict[str, Any], more: dict[str, Any] | None = None) -> None:
        """Print the plan and what is wrong with it; does not return where that is an error."""
        if options["json"]:
            self._print_json({**plan_body(plan, without_secrets), **(more or {})})
        else:
            self._show(plan.problems, options)
        self._end_on_errors(plan.problems)
        if not options["json"]:
            for line in plan_lines(plan, without_secrets):
                self.stdout.write(line)

    def _show(self, problems: Sequence[Problem], options: dict[str, Any]) -> None:
        for one in sorted(problems):
            kind = "warning" if one.is_warning else "error"
            path = f"{one.path}: " if one.path else ""
            where = f"{_source(options)}:{one.mark.line}:{one.mark.column}"
            self.stdout.write(_printable(f"{where}: {kind}: {path}{one.message}"))

    def _end_on_errors(self, problems: Sequence[Problem]) -> None:
        errors = sum(not problem.is_warning for problem in problems)
        if errors:
            raise CommandError(f"{errors} error{'s' if errors > 1 else ''}.")

    def _print_json(self, body: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(body, indent=2, ensure_ascii=False))


def _source(options: dict[str, Any]) -> str:
    return "stdin" if options["file"] == "-" else options["file"]


def _printable(text: str) -> str:
    """What a terminal may show of anybody's keys."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _content(name: str) -> bytes:
    """At most one byte more than a jobs file may have: what is longer is refused without being read."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandError(f"{name!r} cannot be read: {reason}") from error


def _exit_with_1(parser: argparse.ArgumentParser) -> None:
    """A word that is not understood must not look like a plan with changes, whose code argparse uses for it."""
    refuse = parser.error

    def error(message: str) -> None:
        try:
            refuse(message)
        except SystemExit:
            sys.exit(1)

    parser.error = error
