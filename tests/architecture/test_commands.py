"""Every management command has a test."""

from __future__ import annotations

import re

import pytest

from tests.architecture.tree import PACKAGES, ROOT, files

COMMANDS = sorted(
    path.stem
    for package in PACKAGES
    for path in (ROOT / package).glob("management/commands/*.py")
    if not path.stem.startswith("_")
)
# Those of the design; others are welcome.
KNOWN = {"quickstart", "test", "serve", "materialize", "reap", "runner", "create_api_key", "next_fires"}
TESTS = [path.read_text(encoding="utf-8") for path in files(".py", within=("tests",)) if path.name.startswith("test_")]


def test_the_commands_are_found():
    assert set(COMMANDS) >= KNOWN
    assert len(COMMANDS) == len(set(COMMANDS)), "two apps have a command of the same name"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_called_by_a_test(command):
    call = re.compile(rf"""["']{command}["']|manage\.py {command}\b|commands(\.| import ){command}\b""")
    assert any(call.search(text) for text in TESTS)
