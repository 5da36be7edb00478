"""Django's `makemessages`, which also finds the sentences that services say and the names of models.

The catalogues are compared, not written, with ``--check``: it fails where a text of the source is not in them, or one
of theirs is in no source any more. Needs GNU gettext.
"""

from __future__ import annotations

import ast
import json
from itertools import product
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import makemessages

from scheduler.admin import labels
from scheduler.dashboard import sentences

COLLECTED = "_collected_texts.py"
"""Written for `xgettext` while it looks for texts, and taken away."""
SPOKEN = (
    "croniq_site/kernel",
    "croniq_site/people",
    "croniq_site/admin.py",
    "croniq_site/sign_in.py",
    "runners/api/errors.py",
    "runners/api/limits.py",
    "runners/domain",
    "runners/queries",
    "runners/services",
    "calendars",
    "scheduler/dashboard",
    "scheduler/domain",
    "scheduler/queries",
    "scheduler/services",
    "scheduler/sql",
)
"""Where sentences are made that pages show."""
NO_PAGES = [".venv", "node_modules", "data", "docs", "benchmarks", "tests", "agent", "management", "move", "manage.py"]
"""What shows nothing to people, or shows it in English."""
LEFT_OUT = (
    *("migrations", "migrating", "management", "fingerprints", "logs", "seed", "demo", "loop", "supervisor"),
    *("jobs_file", "crontab", "yaml_text", "imports", "celery", "k8s", "move", "backup", "installation"),
)
"""How names of files and folders begin whose sentences only commands, the API or logs say."""
MOST_VARIANTS = 8
LEAST_LETTERS = 8


class Command(makemessages.Command):
    xgettext_options = [*makemessages.Command.xgettext_options, "--keyword=say:1", "--add-comments=Translators"]
    msgmerge_options = [*makemessages.Command.msgmerge_options, "--no-fuzzy-matching"]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--check", action="store_true", help="write nothing; fail where a catalogue is not whole")

    def handle(self, *args: Any, **options: Any) -> None:
        is_check = options.pop("check")
        options["no_location"] = options["no_obsolete"] = True
        options["all"] = options["all"] or not options["locale"]
        options["ignore_patterns"] += NO_PAGES
        catalogues = {path: path.read_bytes() for path in Path(settings.LOCALE_PATHS[0]).rglob("*.po")}
        collected = Path(settings.BASE_DIR, COLLECTED)
        collected.write_text(collected_texts(), encoding="utf-8")
        try:
            super().handle(*args, **options)
            if is_check:
                stale = [path for path, before in catalogues.items() if _texts(path.read_bytes()) != _texts(before)]
                if stale:
                    names = ", ".join(str(path.relative_to(settings.BASE_DIR)) for path in stale)
                    raise CommandError(f"{names}: other texts than the source has. Run manage.py makemessages.")
        finally:
            collected.unlink()
            if is_check:
                for path, before in catalogues.items():
                    path.write_bytes(before)


def collected_texts() -> str:
    """Python that names every sentence and every label, for `xgettext` to read."""
    texts = [(sentences.CONTEXT, text) for text in sorted(spoken_sentences(Path(settings.BASE_DIR)))]
    texts += [(labels.CONTEXT, text) for text in sorted(labels.labels())]
    return "".join(f"pgettext({_quoted(context)}, {_quoted(text)})\n" for context, text in texts)


def spoken_sentences(root: Path) -> set[str]:
    """The sentences in the source below ``root``, values in braces: ``There is no job {job_key}.``"""
    found: set[str] = set()
    for start in SPOKEN:
        path = root / start
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            if not any(part.startswith(LEFT_OUT) for part in source.relative_to(root).parts[1:]):
                found |= sentences_of(source.read_text(encoding="utf-8"))
    return found


def sentences_of(source: str) -> set[str]:
    """The sentences in the text of one module: whole ones, that no page translates already, no docstring, no log."""
    found: set[str] = set()
    silent = {"_", "gettext", "gettext_lazy", "ngettext", "pgettext", "pgettext_lazy", "ngettext_lazy", "say"}

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            owner = getattr(getattr(node.func, "value", None), "id", "")
            if name in silent or owner == "_log" or name == "error_page":
                return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.Constant | ast.JoinedStr):
            found.update(text for text in _variants(node) if is_sentence(text))
            return
        for child in ast.iter_child_nodes(node):
            look(child)

    look(ast.parse(source))
    return found


def is_sentence(text: str) -> bool:
    own = sentences.PLACEHOLDER.sub("", text)
    begins = text[:1].isupper() or text[:1] in "{'\"(" or text[:1].isdigit()
    is_long = sum(map(str.isalpha, own)) >= LEAST_LETTERS and own.strip().count(" ") >= 1
    return begins and is_long and text.endswith((".", "!", "?")) and "\n" not in text and "SELECT" not in text


def _variants(node: ast.Constant | ast.JoinedStr) -> list[str]:
    """The texts that a literal may become, each place of a value with a name of its own; of a choice between two texts
    (``'' if one else 's'``) both."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    names: dict[str, int] = {}
    parts: list[list[str]] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append([part.value])
            continue
        value = part.value
        chosen = (value.body, value.orelse) if isinstance(value, ast.IfExp) else ()
        if chosen and all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in chosen):
            parts.append(sorted({one.value for one in chosen}))
        else:
            name = _name_of(value)
            names[name] = names.get(name, 0) + 1
            parts.append([f"{{{name}}}" if names[name] == 1 else f"{{{name}_{names[name]}}}"])
    return ["".join(texts) for texts in list(product(*parts))[:MOST_VARIANTS]]


def _name_of(value: ast.expr) -> str:
    inner = value
    while True:
        if isinstance(inner, ast.Name):
            name = inner.id
        elif isinstance(inner, ast.Attribute):
            name = inner.attr
        elif isinstance(inner, ast.Call) and inner.args:
            inner = inner.args[-1]
            continue
        elif isinstance(inner, ast.Call | ast.Subscript | ast.Starred | ast.Await):
            inner = getattr(inner, "func", None) or inner.value
            continue
        else:
            name = "value"
        return name.strip("_").lower() or "value"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _texts(catalogue: bytes) -> list[bytes]:
    """What a catalogue says, without when that was written."""
    return [line for line in catalogue.splitlines() if not line.startswith(b'"POT-Creation-Date')]
