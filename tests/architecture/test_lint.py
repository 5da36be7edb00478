"""Ruff is clean, and the clock is read in one file only."""

from __future__ import annotations

import re

import pytest

from tests.architecture.tree import PACKAGES, files, name, run_tool

CLOCK = "croniq_site/kernel/clock.py"


def test_ruff_finds_nothing():
    done = run_tool("ruff", "check", "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_code_is_formatted():
    done = run_tool("ruff", "format", "--no-cache", "--check", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import time\n\nprint(time.time())\n",
        "import time\n\ntime.sleep(1)\n",
        "from time import sleep\n\nsleep(1)\n",
        "from datetime import UTC, datetime\n\nprint(datetime.now(UTC))\n",
        "from datetime import date\n\nprint(date.today())\n",
        "from django.utils import timezone\n\nprint(timezone.now())\n",
    ],
)
@pytest.mark.parametrize("file", ["scheduler/services/example.py", "tests/test_example.py"])
def test_ruff_refuses_a_clock_outside_the_clock_module(code, file):
    done = run_tool("ruff", "check", "--no-cache", "--stdin-filename", file, "-", text=code)
    assert done.returncode == 1
    assert "TID251" in done.stdout


def test_no_line_lifts_the_ban_for_itself():
    sources = list(files(".py", within=(*PACKAGES, "tests")))
    assert CLOCK in {name(path) for path in sources}
    pattern = re.compile(r"#\s*(?:ruff:\s*)?noqa(?!:)|#.*noqa:.*TID251")
    lifted = [
        f"{name(path)}:{number}"
        for path in sources
        if name(path) != CLOCK
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line) and "re.compile" not in line
    ]
    assert lifted == []
