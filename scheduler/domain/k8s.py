"""Manifests of Kubernetes: which documents of a file are CronJobs, and their parts, asked for by type.

Pure: what is read here is made jobs by `scheduler.domain.k8s_jobs`. Manifests are anybody's text: nothing in them has
the type that it should have until it was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from scheduler.domain.imports import NotTaken, Remark

MOST_BYTES = 8 * 1024 * 1024
MOST_JOBS = 1000
MOST_DEPTH = 100

# Loads plain values only; in C where there is that.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


@dataclass(frozen=True, slots=True)
class Part:
    """An object of a manifest, at ``path``. Each question raises NotTaken where the answer has another type."""

    value: Mapping[str, Any]
    path: str = ""

    def __contains__(self, name: str) -> bool:
        return self.value.get(name) not in (None, "", [], {})

    def part(self, name: str) -> Part:
        """An object; one that is not there is an empty one."""
        return self._of(self.value.get(name) or {}, self._at(name))

    def parts(self, name: str) -> list[Part]:
        return [self._of(item, f"{self._at(name)}[{n}]") for n, item in enumerate(self._list(name))]

    def texts(self, name: str) -> list[str]:
        items = self._list(name)
        if not all(isinstance(item, str) for item in items):
            raise NotTaken(f"{self._at(name)} is not a list of texts; put numbers and the like in quotes")
        return items

    def text(self, name: str) -> str:
        """A text; "" where there is none."""
        value = self.value.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise NotTaken(f"{self._at(name)} is not a text")
        return value

    def number(self, name: str) -> int | None:
        value = self.value.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise NotTaken(f"{self._at(name)} is not a whole number")
        return value

    def flag(self, name: str) -> bool:
        value = self.value.get(name, False)
        if value is not None and not isinstance(value, bool):
            raise NotTaken(f"{self._at(name)} is not true or false")
        return bool(value)

    def _list(self, name: str) -> list[Any]:
        value = self.value.get(name) or []
        if not isinstance(value, list):
            raise NotTaken(f"{self._at(name)} is not a list")
        return value

    def _at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    @staticmethod
    def _of(value: Any, path: str) -> Part:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise NotTaken(f"{path} is not an object")
        return Part(value, path)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A CronJob, and where it stands: "crons.yaml, document 2"."""

    where: str
    body: Part


def manifests(data: bytes, file: str) -> tuple[list[Manifest], list[Remark], list[Remark]]:
    """The CronJobs of a file of YAML or JSON, also in lists; what could not be read; and what else was there.

    Aliases are refused: ``kubectl`` writes none, and a few lines of them stand for gigabytes.
    """
    found: list[Manifest] = []
    refused: list[Remark] = []
    notes: list[Remark] = []
    try:
        documents = _documents(data)
    except NotTaken as error:
        return [], [Remark(file, "", str(error))], []
    for number, document in enumerate(documents, 1):
        for where, item in _objects(document, f"{file}, document {number}"):
            try:
                body = Part._of(item, "it")
                kind, name = body.text("kind"), body.part("metadata").text("name")
                if kind != "CronJob":
                    notes.append(
                        Remark(where, f"{kind or 'an object without a kind'} {name}".strip(), "it is no CronJob")
                    )
                elif not body.text("apiVersion").startswith("batch/"):
                    raise NotTaken(f"a CronJob of {body.text('apiVersion')!r}, not of batch/v1")
                else:
                    found.append(Manifest(where, Part(body.value)))
            except NotTaken as error:
                refused.append(Remark(where, "", str(error)))
    return found, refused, notes


def _objects(document: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(document, Mapping) and str(document.get("kind")).endswith("List"):
        items = document.get("items")
        for number, item in enumerate(items if isinstance(items, list) else [], 1):
            yield f"{where}, item {number}", item
    elif document is not None:  # between two lines of --- there may be nothing
        yield where, document


def _documents(data: bytes) -> list[Any]:
    if len(data) > MOST_BYTES:
        raise NotTaken(f"it has more than {MOST_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise NotTaken(f"line {event.start_mark.line + 1}: aliases of YAML (*{event.anchor}) are not read")
            depth += isinstance(event, _STARTS) - isinstance(event, _ENDS)
            if depth > MOST_DEPTH:
                raise NotTaken(f"line {event.start_mark.line + 1}: it is nested deeper than {MOST_DEPTH} levels")
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise NotTaken(f"{line}it is no YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:  # a number or a date of YAML that there is not, or no text at all
        raise NotTaken(f"it is no YAML: {str(error).splitlines()[0]}") from error
