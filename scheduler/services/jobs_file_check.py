"""Whether a jobs file is sound by itself: what it says of calendars and groups, and what may not be meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings

from calendars.domain.rules import CalendarSpec, Effect, parse_rule
from calendars.services import checked_calendar
from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.suggestions import did_you_mean
from runners.domain.differences import masked
from scheduler.domain.job_fields import PIN_PREFIX, refuse_unknown
from scheduler.domain.jobs_file import (
    Declared,
    DeclaredJob,
    JobsFile,
    problems_of,
    read_jobs_file,
)
from scheduler.domain.trigger_fields import NEW, trigger_columns
from scheduler.domain.words import lacking_words
from scheduler.domain.yaml_text import Node, Problem
from scheduler.models import Job, Trigger
from scheduler.services.groups import NO_GROUP, checked_group
from scheduler.services.triggers import NO_CALENDAR, refuse_never_firing

OF_CALENDAR = {"timezone", "description", "rules"}
OF_GROUP = {"max_concurrent"}
_MASK = "***"
_MAY_HOLD_SECRETS = ("action", "metadata")


@dataclass(slots=True)
class CheckedFile:
    """A file with its calendars as `checked_calendar` gives them, by name."""

    file: JobsFile
    calendars: dict[str, dict[str, Any]] = field(default_factory=dict)

    def spec(self, name: str) -> CalendarSpec | None:
        """The rules of a calendar that the file declares, None for any other."""
        values = self.calendars.get(name)
        if values is None:
            return None
        return CalendarSpec(values["timezone"], tuple(parse_rule(row) for row in values["rules"]))


def without_secrets(value: Any) -> Any:
    """The value with a mark for each secret in it."""
    return masked(value, lambda _: _MASK)


def checked_jobs_file(data: bytes, now: datetime) -> CheckedFile:
    """Read the file and check all that can be said of it without the database; its ``file.problems`` are what was
    found. Raises `Unreadable`."""
    file = read_jobs_file(data, now=now, default_zone=settings.CRONIQ_TIME_ZONE)
    checked = CheckedFile(file)
    for name, declared in file.calendars.items():
        before = len(file.errors)
        values = _calendar(file, declared)
        if len(file.errors) == before:
            checked.calendars[name] = {"description": "", "rules": [], **values}
    for declared in file.groups.values():
        path = f"groups.{declared.name}"
        _refuse_others(file, declared, path, OF_GROUP)
        try:
            checked_group(declared.name, declared.fields.get("max_concurrent"))
        except InvalidInput as refused:
            file.add(declared.node, path, refused)
    for job in file.jobs.values():
        _warn_of_secrets(file, job)
    return checked


def strange_references(
    checked: CheckedFile, *, calendars: Collection[str] = (), groups: Collection[str] = (), only_here: bool = False
) -> Iterator[Problem]:
    """The calendars and groups that jobs name and that neither the file nor the tenant (``calendars``, ``groups``) has.
    ``only_here``: nobody has looked into the tenant, so that it is a warning."""
    file = checked.file
    calendars, groups = {*calendars, *file.calendars}, {*groups, *file.groups}
    for job in file.jobs.values():
        path = f"jobs.{job.key}"
        wanted = [(job.node, path, "concurrency_group", job.columns["concurrency_group"], groups, NO_GROUP)]
        wanted += [
            (one.node, f"{path}.triggers.{one.name}", "calendar", one.fields.get("calendar"), calendars, NO_CALENDAR)
            for one in job.triggers
        ]
        for node, where, name, value, known, refusal in wanted:
            if value not in (None, "") and value not in known:
                message = f"{value!r} is not declared in this file." if only_here else refusal
                message += did_you_mean(value, known)
                yield Problem(node.place_of(name), f"{where}.{name}", message, is_warning=only_here)


def lacking_capabilities(checked: CheckedFile, offered: Collection[str]) -> Iterator[Problem]:
    """A warning of each required capability (a pin is one) that no runner which is online has (``offered``), at the
    first of the jobs that wait for it."""
    wanted: dict[str, list[tuple[DeclaredJob, str]]] = {}
    for job in checked.file.jobs.values():
        pin = job.columns["pin"]
        names = [(name, "require") for name in job.columns["require"]] + ([(PIN_PREFIX + pin, "pin")] if pin else [])
        for name, column in names:
            if name not in offered:
                wanted.setdefault(name, []).append((job, column))
    for name, (first, *others) in wanted.items():
        job, column = first
        more = f" {len(others)} more of the file's jobs require it." if others else ""
        message = lacking_words(name) + did_you_mean(name, offered) + more
        yield Problem(job.node.place_of(column), f"jobs.{job.key}.{column}", message, is_warning=True)


def odd_capabilities(checked: CheckedFile, offered: Collection[str] = ()) -> Iterator[Problem]:
    """Warnings of capabilities that one job alone wants, that no runner has (``offered``), and that are like others."""
    jobs = checked.file.jobs.values()
    uses = Counter(name for job in jobs for name in {*job.columns["require"], *job.columns["prefer"]})
    common = {*offered, *(name for name, count in uses.items() if count > 1)}
    for job in jobs:
        for column in ("require", "prefer"):
            for name in job.columns[column]:
                hint = "" if name in common else did_you_mean(name, common)
                if hint:
                    message = f"The capability {name!r} is nowhere else.{hint}"
                    yield Problem(job.node.place_of(column), f"jobs.{job.key}.{column}", message, is_warning=True)


def problems_offline(checked: CheckedFile, now: datetime) -> list[Problem]:
    """All that can be found without the database: also schedules that, whatever the day is, never fire."""
    found = [*checked.file.problems, *strange_references(checked, only_here=True), *odd_capabilities(checked)]
    for key, job in checked.file.jobs.items():
        for one in job.triggers:
            name = one.fields.get("calendar") or None
            try:
                columns = trigger_columns(
                    one.fields, before=NEW, job_key=key, default_zone=settings.CRONIQ_TIME_ZONE, now=now
                )
            except InvalidInput:
                continue  # noted already
            is_known = name is None or name in checked.calendars
            if not is_known or columns["kind"] == "once" or columns["not_after"] is not None:
                continue
            try:
                row = Trigger(job=Job(job_key=key), created_at=now, **columns)
                refuse_never_firing(row, now, checked.spec(name) if name is not None else None)
            except InvalidInput as refused:
                found += problems_of(one.node, f"jobs.{key}.triggers.{one.name}", refused)
    return found


def _calendar(file: JobsFile, declared: Declared) -> dict[str, Any]:
    path, values = f"calendars.{declared.name}", {}
    _refuse_others(file, declared, path, OF_CALENDAR)
    fields = {name: value for name, value in declared.fields.items() if name in OF_CALENDAR}
    rules = fields.pop("rules", None)
    for name, value in {"name": declared.name, "timezone": None, **fields}.items():
        try:
            if name == "timezone" and value is None:
                raise InvalidInput.of("timezone", "A calendar needs its timezone.")
            values |= checked_calendar({name: value})
        except InvalidInput as refused:
            file.add(declared.node, path, refused)
    values.pop("name", None)
    try:
        return values | checked_calendar({"rules": rules})
    except InvalidInput as refused:
        if not isinstance(rules, list) or not list(_note_bad_rules(file, declared.node, path, rules)):
            file.add(declared.node, path, refused)
        return values


def _note_bad_rules(file: JobsFile, node: Node, path: str, rules: list[Any]) -> Iterator[bool]:
    """Note what is refused of each rule, each field once."""
    for number, rule in enumerate(rules):
        left = rule
        for _ in range(len(rule) + 1 if isinstance(rule, Mapping) else 1):
            try:
                checked_calendar({"rules": [left]})
            except InvalidInput as refused:
                fields = {_numbered(name, number): texts for name, texts in refused.fields.items()}
                names = {name.split(".", 2)[-1] for name in fields}
                lacks_all = "effect" in names and left["effect"] in list(Effect)
                if left is not rule and (lacks_all or not names & set(left)):
                    break  # it lacks what was taken out of it
                file.add(node, path, InvalidInput(refused.message, fields=fields))
                yield True
                if not isinstance(left, Mapping) or "effect" in names or not names & set(left):
                    break
                left = {name: value for name, value in left.items() if name not in names}
            else:
                break


def _numbered(field: str, number: int) -> str:
    head, _, rest = field.partition(".0")
    return f"{head}.{number}{rest}"


def _refuse_others(file: JobsFile, declared: Declared, path: str, known: set[str]) -> None:
    for name in declared.fields:
        try:
            refuse_unknown({name: None}, known)
        except InvalidInput as refused:
            file.problems.append(Problem(declared.node.keys[name], f"{path}.{name[:64]}", refused.message))


def _warn_of_secrets(file: JobsFile, job: DeclaredJob) -> None:
    for name in _MAY_HOLD_SECRETS:
        for path in _plain_secrets(job.fields.get(name), name):
            message = (
                "This looks like a secret in plain text; whoever reads the file or the job reads it. In env and "
                "headers write {secret: NAME}: the runner knows it as CRONIQ_SECRET_NAME."
            )
            place = job.node.place_of(path)
            file.problems.append(Problem(place, f"jobs.{job.key}.{path}", message, is_warning=True))


def _plain_secrets(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(item, Mapping | list):
                yield from _plain_secrets(item, f"{path}.{name}")
            elif without_secrets({name: item}) != {name: item}:
                yield f"{path}.{name}"
    elif isinstance(value, list):
        if without_secrets([one for one in value if isinstance(one, str)]) != [o for o in value if isinstance(o, str)]:
            yield path
        for number, item in enumerate(value):
            if isinstance(item, Mapping | list):
                yield from _plain_secrets(item, f"{path}.{number}")
