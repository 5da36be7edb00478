"""Files are small, and say nothing about the machine they were written on."""

from __future__ import annotations

import re

from tests.architecture.tree import PACKAGES, ROOT, files, name

MOST_LINES = 400
MACHINE = re.compile(r"/work/(main|shared|\.library)\b|/roo[t]/|/tmp/(brief|bash_jobs)|@[\w.-]+:\d+/simple|/simple/?\s")


def test_no_file_has_more_than_400_lines():
    sources = [
        path
        for path in files(".py", ".html", ".css", ".js", within=(*PACKAGES, "templates", "static"))
        if "migrations" not in path.parts
    ]
    assert len(sources) > 20
    lengths = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    assert {file: length for file, length in lengths.items() if length > MOST_LINES} == {}


def test_no_file_names_a_machine():
    texts = list(
        files(".py", ".md", ".toml", ".html", ".css", ".js", ".lock", ".txt", ".yml", ".yaml", ".sh", ".cfg", "")
    )
    assert ROOT / "pyproject.toml" in texts
    found = [
        f"{name(path)}:{number}: {line.strip()[:80]}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if MACHINE.search(line) and "MACHINE = " not in line
    ]
    assert found == []


def test_the_lock_names_no_host():
    lock = ROOT / "requirements.lock"
    text = lock.read_text(encoding="utf-8")
    assert "--hash=sha256:" in text
    assert "://" not in text
    assert not re.search(r"^--(index|extra-index|find-links|trusted-host)", text, re.MULTILINE)
