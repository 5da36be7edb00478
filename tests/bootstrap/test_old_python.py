"""A Python that is too old gets one sentence: run for real with every old interpreter of this machine."""

from __future__ import annotations

import glob
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite import ROOT

SERIES = ["2.7", "3.6", "3.7", "3.8", "3.9", "3.10"]


def interpreter(series: str) -> str | None:
    """Return an interpreter of that series; pyenv's own first, for on PATH its names may be shims that refuse."""
    root = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    installed = sorted(glob.glob(f"{root}/versions/{series}.*/bin/python"))
    found = installed[-1] if installed else shutil.which(f"python{series}")
    if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
        return found
    return None


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("command", ["quickstart", "test", "migrate"])
def test_an_old_python_is_told_in_one_sentence(series, command):
    python = interpreter(series)
    if python is None:
        pytest.skip(f"this machine has no Python {series}")
    done = subprocess.run(
        [python, str(ROOT / "manage.py"), command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"Croniq needs Python 3.11 or newer; this is {series}.")
    assert done.stderr.count("\n") == 1


def test_the_sentence_without_an_old_interpreter_at_hand(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit, match=r"^Croniq needs Python 3\.11 or newer; this is 3\.10\.13\. Install"):
        runpy.run_path(str(ROOT / "manage.py"))


def test_what_an_old_python_parses_has_nothing_newer_in_it():
    """The same without an old interpreter at hand: the file keeps to the grammar of 3.7 and has no f-string."""
    import ast

    source = (ROOT / "manage.py").read_text()
    tree = ast.parse(source, feature_version=(3, 7))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.AnnAssign | ast.NamedExpr)]
    assert source.isascii(), "Python 2 refuses other bytes without a coding line"
