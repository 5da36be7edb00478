"""What the tree consists of, for tests that read it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("scheduler", "calendars", "runners")
PACKAGES = ("croniq_site", *APPS)
_FOLDERS = (*PACKAGES, "templates", "static", "tests", "docs", "deploy", "benchmarks", "clients", ".ci", ".github")


def files(*suffixes: str, within: tuple[str, ...] = _FOLDERS) -> Iterator[Path]:
    """Yield the tree's own files that end in one of the suffixes (all if none is given), by default also the top's."""
    found = [path for folder in within for path in (ROOT / folder).rglob("*")]
    if within is _FOLDERS:
        found += list(ROOT.iterdir())
    for path in sorted(found):
        if path.is_file() and "__pycache__" not in path.parts and (not suffixes or path.suffix in suffixes):
            yield path


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_sources() -> list[Path]:
    """List the product's Python files, without migrations."""
    return [path for path in files(".py", within=PACKAGES) if "migrations" not in path.parts]


def run_tool(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a tool of the virtual environment on this tree: the first argument is its name."""
    tool = Path(sys.executable).with_name(arguments[0])
    environment = {"PATH": str(tool.parent), "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [str(tool), *arguments[1:]], cwd=ROOT, env=environment, input=text, capture_output=True, text=True, check=False
    )
