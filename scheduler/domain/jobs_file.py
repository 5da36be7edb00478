"""What a jobs file (``croniq.yaml``) declares, read into the fields of the wire with the place of each.

All that is wrong is found at once. What a single job and trigger may say is decided by `job_fields` and
`trigger_fields`, as for the API; what calendars and groups may say is the services' to check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.inputs import slug_of
from scheduler.domain.job_fields import FIELDS as JOB_FIELDS
from scheduler.domain.job_fields import job_columns, job_key_of, refuse_unknown
from scheduler.domain.trigger_fields import FIELDS as TRIGGER_FIELDS
from scheduler.domain.trigger_fields import NEW, trigger_columns
from scheduler.domain.yaml_text import Mark, Node, Problem, read_yaml

NAME = "croniq.yaml"
DEFAULT_TENANT = "default"
SECTIONS = ("tenant", "calendars", "groups", "jobs")
ASIDE = "x-"
"""Keys at the top that begin so say nothing: a place for what anchors repeat."""
OF_JOB = {*JOB_FIELDS, "retry", "is_active", "triggers", "run_on_change"}
OF_TRIGGER = TRIGGER_FIELDS - {"job_key"}
MOST_TRIGGERS = 100


@dataclass(frozen=True, slots=True)
class Declared:
    """A calendar, a group or a trigger: its name (of a trigger, its number), place, and fields as they are written."""

    name: str
    mark: Mark
    node: Node
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredJob:
    """A job: ``columns`` as `job_columns` gives them (the group by its name), ``triggers`` in their order."""

    key: str
    mark: Mark
    node: Node
    fields: Mapping[str, Any]
    columns: Mapping[str, Any]
    triggers: tuple[Declared, ...]
    runs_on_change: bool


@dataclass(slots=True)
class JobsFile:
    """All that the file says of its tenant; with ``problems`` that are no warnings it is not to be applied."""

    tenant: str = DEFAULT_TENANT
    calendars: dict[str, Declared] = field(default_factory=dict)
    groups: dict[str, Declared] = field(default_factory=dict)
    jobs: dict[str, DeclaredJob] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if not problem.is_warning]

    def add(self, node: Node, path: str, refused: InvalidInput | str, below: str = "") -> None:
        self.problems += problems_of(node, path, refused, below)


def problems_of(node: Node, path: str, refused: InvalidInput | str, below: str = "") -> list[Problem]:
    """What was refused, with its places; ``path`` leads to ``node``, and a refusal's field on from there (after
    ``below``)."""
    if isinstance(refused, str):
        return [Problem(node.place_of(below), _joined(path, below), refused)]
    if not refused.fields:
        return [Problem(node.mark, path, refused.message)]
    return [
        Problem(node.place_of(inner), _joined(path, inner), text)
        for inner, texts in ((_joined(below, name), texts) for name, texts in refused.fields.items())
        for text in texts
    ]


def read_jobs_file(data: bytes, *, now: datetime, default_zone: str) -> JobsFile:
    """Read the file. Raises `Unreadable` (scheduler.domain.yaml_text) for what is no YAML."""
    root, problems = read_yaml(data)
    file = JobsFile(problems=problems)
    sections = {name: node for name, node in _entries(file, root, "") if not name.startswith(ASIDE)}
    _refuse_unknown(file, root, "", set(sections), set(SECTIONS))
    if "tenant" in sections:
        try:
            file.tenant = slug_of("tenant", sections["tenant"].plain())
        except InvalidInput as refused:
            file.add(root, "", refused)
    for section, found in (("calendars", file.calendars), ("groups", file.groups)):
        if section in sections:
            node = sections[section]
            for name, entry in _entries(file, node, section):
                fields = {key: value.plain() for key, value in _entries(file, entry, f"{section}.{name}")}
                found[name] = Declared(name, node.keys[name], entry, fields)
    if "jobs" in sections:
        node = sections["jobs"]
        for key, entry in _entries(file, node, "jobs"):
            file.jobs[key] = _job(file, key, node.keys[key], entry, now, default_zone)
    return file


def _job(file: JobsFile, key: str, mark: Mark, node: Node, now: datetime, zone: str) -> DeclaredJob:
    """The job, of what is refused without it: more can be found wrong with the rest."""
    path = f"jobs.{key}"
    try:
        job_key_of("job_key", key)
    except InvalidInput as refused:
        file.problems.append(Problem(mark, path, refused.message))
    fields = {name: value.plain() for name, value in _entries(file, node, path)}
    _refuse_unknown(file, node, path, set(fields), OF_JOB)
    columns = _columns(file, node, path, {name: value for name, value in fields.items() if name in OF_JOB})
    runs = fields.pop("run_on_change", None)
    if not isinstance(runs, bool | None):
        file.add(node, path, "run_on_change is true or false.", "run_on_change")
    triggers = tuple(_triggers(file, node, path, key, now, zone))
    fields.pop("triggers", None)
    return DeclaredJob(key, mark, node, fields, columns, triggers, bool(runs))


def _columns(file: JobsFile, node: Node, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """All columns of the job: what the file does not say has its default, also whether the job is active."""
    told = {name: value for name, value in fields.items() if name not in ("triggers", "run_on_change")}
    good: dict[str, Any] = {"is_active": True}
    for name, value in told.items():
        if name == "retry" and isinstance(value, Mapping):
            value = {part: each for part, each in value.items() if _is_good(file, node, path, {"retry": {part: each}})}
        elif not _is_good(file, node, path, {name: value}):
            continue
        good[name] = value
    return job_columns(good, partial=False)


def _is_good(file: JobsFile, node: Node, path: str, fields: Mapping[str, Any]) -> bool:
    try:
        job_columns(fields, partial=True)
    except InvalidInput as refused:
        file.add(node, path, refused)
        return False
    return True


def _triggers(file: JobsFile, job: Node, path: str, key: str, now: datetime, zone: str) -> Iterator[Declared]:
    node = job.value.get("triggers") if isinstance(job.value, dict) else None
    if node is None or node.value is None:
        return
    if not isinstance(node.value, list) or len(node.value) > MOST_TRIGGERS:
        file.add(job, path, f"triggers is a list of at most {MOST_TRIGGERS} mappings.", "triggers")
        return
    for number, entry in enumerate(node.value):
        place = f"{path}.triggers.{number}"
        fields = {name: value.plain() for name, value in _entries(file, entry, place)}
        _refuse_unknown(file, entry, place, set(fields), OF_TRIGGER)
        fields = {name: value for name, value in fields.items() if name in OF_TRIGGER}
        _note_bad_fields(file, entry, place, fields, key, now, zone)
        yield Declared(str(number), entry.mark, entry, fields)


def _note_bad_fields(
    file: JobsFile, node: Node, path: str, fields: Mapping[str, Any], key: str, now: datetime, zone: str
) -> None:
    """Note all that is refused of a trigger."""
    try:
        trigger_columns(fields, before=NEW, job_key=key, default_zone=zone, now=now)
    except InvalidInput as refused:
        file.add(node, path, refused)


def _entries(file: JobsFile, node: Node, path: str) -> Iterator[tuple[str, Node]]:
    """The entries of what is to be a mapping; nothing (``jobs:`` and no more) is an empty one, but not at the top."""
    if isinstance(node.value, dict):
        yield from node.value.items()
    elif node.value is not None or not path:
        file.add(node, path, f"{path or 'A jobs file'} is a mapping of names and what they mean.")


def _refuse_unknown(file: JobsFile, node: Node, path: str, names: set[str], known: set[str]) -> None:
    for name in sorted(names - known):
        try:
            refuse_unknown({name: None}, known)
        except InvalidInput as refused:
            file.problems.append(Problem(node.keys[name], _joined(path, name[:64]), refused.message))


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)
