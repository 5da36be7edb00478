"""What applying a jobs file would do, as values, as lines for a person and as JSON. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scheduler.domain.jobs_file_written import instant_written
from scheduler.domain.yaml_text import Problem

ADD, CHANGE, REMOVE, ADOPT = "add", "change", "remove", "adopt"
_SIGNS = {ADD: "+", CHANGE: "~", REMOVE: "-", ADOPT: "="}
SHOWN_CHARACTERS = 100

Mask = Callable[[Any], Any]
"""Takes the secrets out of a value."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field, as a file writes it; None: it is not there, or has its default."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class TriggerChange:
    """A trigger of a job: ``action`` add, change or remove; ``fields`` are all that it says, or what changes."""

    action: str
    fields: tuple[FieldChange, ...]
    schedule: str


@dataclass(frozen=True, slots=True)
class Change:
    """A calendar, group or job that would be made, changed, removed or adopted. ``note``: what else comes of it."""

    kind: str
    name: str
    action: str
    fields: tuple[FieldChange, ...] = ()
    triggers: tuple[TriggerChange, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class MovedFire:
    """The next fire of a job, as it is and as it would be; None: there is none."""

    job_key: str
    before: datetime | None
    after: datetime | None


@dataclass(frozen=True, slots=True)
class Left:
    """What the file does not touch: an object of the file that is not in it any more, or one that others manage."""

    kind: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """``unlisted``: what was declared once and is not in the file; ``unowned``: what it declares and others manage."""

    tenant: str
    changes: tuple[Change, ...] = ()
    moved: tuple[MovedFire, ...] = ()
    unlisted: tuple[Left, ...] = ()
    unowned: tuple[Left, ...] = ()
    problems: tuple[Problem, ...] = field(default=())

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if not problem.is_warning]

    @property
    def hash(self) -> str:
        """The same for the same changes, whenever they are planned."""
        said = [
            [
                *(change.kind, change.name, change.action),
                [[part.field, part.before, part.after] for part in change.fields],
                [
                    [trigger.action, [[p.field, p.before, p.after] for p in trigger.fields]]
                    for trigger in change.triggers
                ],
            ]
            for change in self.changes
        ]
        return hashlib.sha256(json.dumps([self.tenant, said], sort_keys=True).encode()).hexdigest()[:16]


def differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> Iterator[FieldChange]:
    """What is not the same in both, down to the parts of mappings, in the order of the names."""
    for name in sorted({*before, *after}):
        was, is_to_be = before.get(name), after.get(name)
        if was == is_to_be and (name in before) == (name in after):
            continue
        parts = [{} if part is None else part for part in (was, is_to_be)]
        if all(isinstance(part, Mapping) for part in parts) and any(parts):
            yield from differences(*parts, f"{prefix}{name}.")
        else:
            yield FieldChange(f"{prefix}{name}", was, is_to_be)


def plan_lines(plan: Plan, mask: Mask) -> Iterator[str]:
    """The plan for a person, without secrets."""
    for change in plan.changes:
        yield f"{_SIGNS[change.action]} {change.kind} {change.name}" + (f"  ({change.note})" if change.note else "")
        for part in change.fields:
            yield f"    {_field_line(part, mask, change.action)}"
        for trigger in change.triggers:
            yield f"    {_SIGNS[trigger.action]} trigger {trigger.schedule}"
            for part in trigger.fields:
                yield f"        {_field_line(part, mask, trigger.action)}"
    if plan.moved:
        yield "Next fires that move:"
        for moved in plan.moved:
            yield f"    {moved.job_key}: {_instant(moved.before)} -> {_instant(moved.after)}"
    for title, left in (("Not in the file:", plan.unlisted), ("Declared here, managed by others:", plan.unowned)):
        if left:
            yield title
            yield from (f"    {one.kind} {one.name}: {one.reason}" for one in left)
    yield summary(plan)


def summary(plan: Plan) -> str:
    if not plan.changes:
        return "Nothing to change."
    counts = [
        (sum(change.action == action for change in plan.changes), words)
        for action, words in ((ADD, "to add"), (CHANGE, "to change"), (REMOVE, "to remove"), (ADOPT, "to adopt"))
    ]
    return f"{', '.join(f'{count} {words}' for count, words in counts if count)}; plan {plan.hash}."


def plan_body(plan: Plan, mask: Mask) -> dict[str, Any]:
    """The plan for a program, without secrets."""
    return {
        "tenant": plan.tenant,
        "plan": plan.hash,
        "changes": [
            {
                "kind": change.kind,
                "name": change.name,
                "action": change.action,
                "fields": _field_bodies(change.fields, mask),
                "triggers": [
                    {
                        "action": trigger.action,
                        "schedule": trigger.schedule,
                        "fields": _field_bodies(trigger.fields, mask),
                    }
                    for trigger in change.triggers
                ],
                "note": change.note or None,
            }
            for change in plan.changes
        ],
        "next_fires": [
            {
                "job_key": moved.job_key,
                "before": moved.before and instant_written(moved.before),
                "after": moved.after and instant_written(moved.after),
            }
            for moved in plan.moved
        ],
        "unlisted": [{"kind": one.kind, "name": one.name, "reason": one.reason} for one in plan.unlisted],
        "unowned": [{"kind": one.kind, "name": one.name, "reason": one.reason} for one in plan.unowned],
        **problem_bodies(plan.problems),
    }


def problem_bodies(problems: Sequence[Problem]) -> dict[str, list[dict[str, Any]]]:
    bodies: dict[str, list[dict[str, Any]]] = {"errors": [], "warnings": []}
    for problem in sorted(problems):
        body = {
            "line": problem.mark.line,
            "column": problem.mark.column,
            "path": problem.path,
            "message": problem.message,
        }
        bodies["warnings" if problem.is_warning else "errors"].append(body)
    return bodies


def _field_bodies(fields: Sequence[FieldChange], mask: Mask) -> list[dict[str, Any]]:
    return [
        {"field": part.field, "before": _masked(part, part.before, mask), "after": _masked(part, part.after, mask)}
        for part in fields
    ]


def _field_line(part: FieldChange, mask: Mask, action: str) -> str:
    before, after = (_shown(_masked(part, value, mask)) for value in (part.before, part.after))
    if action == ADD:
        return f"{part.field}: {after}"
    return f"{part.field}: {before} -> {after}" + (" (another)" if before == after else "")


def _masked(part: FieldChange, value: Any, mask: Mask) -> Any:
    """With its name, which says whether it is a secret."""
    name = part.field.rpartition(".")[2]
    return mask({name: value})[name]


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) and value.isprintable() and value else json.dumps(value, ensure_ascii=False)
    text = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _instant(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
