"""A scratch copy of the tree: what git would commit now, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path


def tree_files(root: Path) -> list[str]:
    """List what the working tree consists of: tracked and untracked files, without the ignored and the deleted ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    )
    names = sorted(set(listed.stdout.decode("utf-8", "surrogateescape").split("\0")) - {""})
    return [name for name in names if (root / name).is_file()]


def copy_tree(root: Path, files: Iterable[str], target: Path, changed: Mapping[str, str]) -> None:
    """Copy the files of `root` to the new folder `target`, those in `changed` with the text given there."""
    target.mkdir(parents=True)
    for name in files:
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, destination)
        shutil.copymode(root / name, destination)
    for name, text in changed.items():
        (target / name).write_text(text, encoding="utf-8")
