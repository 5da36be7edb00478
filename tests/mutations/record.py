"""What a mutation record says, and whether what it says is still true of the tree."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

DATABASES = ("sqlite", "postgresql")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class RecordError(Exception):
    """A record that cannot be carried out: stale text, a missing file, code that does not compile."""


@dataclass(frozen=True)
class Edit:
    """Replace the one occurrence of `old` in `file` (a path from the root of the tree, with `/`) by `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A mechanism, the edit that removes it, and the tests that must fail without it.

    Give `file`, `old` and `new` for one edit, or `edits` for several, which are applied in order. `red` names tests of
    the fast tier, `realtime` tests of the realtime tier, which run only for records that name them; all of them must
    be red. A test is named `tests/x/test_y.py::test_z` (or `…::TestClass::test_z`); without brackets it stands for all
    its parametrized cases and is red when one of them is. `database` says where they must be red.
    """

    name: str
    mechanism: str
    file: str = ""
    old: str = ""
    new: str = ""
    red: Sequence[str] = ()
    realtime: Sequence[str] = ()
    edits: Sequence[Edit] = ()
    database: str = "both"
    quick: bool = False

    @property
    def all_edits(self) -> tuple[Edit, ...]:
        first = (Edit(self.file, self.old, self.new),) if self.file else ()
        return (*first, *self.edits)

    @property
    def named(self) -> tuple[str, ...]:
        return (*self.red, *self.realtime)

    @property
    def databases(self) -> tuple[str, ...]:
        return DATABASES if self.database == "both" else (self.database,)


def load_records() -> dict[str, list[Mutation]]:
    """Import every module of `tests.mutations.records`: its area and its records, areas in alphabetical order."""
    package = importlib.import_module("tests.mutations.records")
    areas = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return {area: list(importlib.import_module(f"{package.__name__}.{area}").RECORDS) for area in areas}


def mutated_texts(record: Mutation, root: Path) -> dict[str, str]:
    """Apply the record's edits to the files under `root` in memory: path from the root → new text.

    Raises RecordError when a text is missing or ambiguous, or when what is left would not compile: a red suite proves
    nothing if nothing could be imported.
    """
    texts: dict[str, str] = {}
    if not record.all_edits:
        raise RecordError("it has no edit")
    for edit in record.all_edits:
        path = root / edit.file
        if edit.file not in texts:
            if not path.is_file():
                raise RecordError(f"{edit.file} does not exist")
            texts[edit.file] = path.read_text(encoding="utf-8")
        found = texts[edit.file].count(edit.old) if edit.old else 0
        if found != 1:
            raise RecordError(f"its text occurs {found} times in {edit.file}, not once: {edit.old!r}")
        if edit.old == edit.new:
            raise RecordError(f"its edit of {edit.file} changes nothing")
        texts[edit.file] = texts[edit.file].replace(edit.old, edit.new)
    for file, text in texts.items():
        if file.endswith(".py"):
            try:
                compile(text, file, "exec", dont_inherit=True)
            except SyntaxError as error:
                raise RecordError(f"{file} would not compile: {error.msg}, line {error.lineno}") from error
    return texts


def problems(record: Mutation, root: Path) -> list[str]:
    """Say everything that is wrong with the record, from its text and the tree alone; nothing is run."""
    found = []
    if not _NAME.fullmatch(record.name):
        found.append("its name is not kebab-case")
    if not record.mechanism.strip() or "\n" in record.mechanism:
        found.append("its mechanism is not one sentence on one line")
    if record.database not in ("both", *DATABASES):
        found.append(f"its database is {record.database!r}, not both, sqlite or postgresql")
    if not record.named:
        found.append("it names no test")
    found += [f"there is no test {test}" for test in record.named if not is_written(test, root)]
    try:
        mutated_texts(record, root)
    except RecordError as error:
        found.append(str(error))
    return found


def duplicate_names(records: Iterable[Mutation]) -> list[str]:
    seen: set[str] = set()
    return sorted({r.name for r in records if r.name in seen or seen.add(r.name)})


def is_written(test: str, root: Path) -> bool:
    """Is the named test written in its file? Read from the syntax tree; the parameters in brackets are not checked."""
    file, *steps = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
    path = root / file
    if not steps or not path.is_file():
        return False
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    for step in steps:
        match = [n for n in nodes if getattr(n, "name", None) == step]
        if not match:
            return False
        nodes = getattr(match[-1], "body", [])
    return isinstance(match[-1], ast.FunctionDef | ast.AsyncFunctionDef)
