"""A pytest plugin (`-p tests.support.counting`) that leaves the counts of a run where `tests.support.suite` looks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

REPORT_VARIABLE = "CRONIQ_TEST_COUNTS"


_dead_workers: list[object] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Remember a worker of pytest-xdist that died: one that dies at its start leaves "no tests ran" and no error."""
    if error:
        _dead_workers.append(error)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write passed, failed (errors too) and skipped at the very end, so that a run that died has written nothing."""
    path = os.environ.get(REPORT_VARIABLE)
    if path is None or os.environ.get("PYTEST_XDIST_WORKER"):
        return
    number = {name: len(reports) for name, reports in terminalreporter.stats.items()}
    counts = {
        "passed": sum(number.get(kind, 0) for kind in ("passed", "xfailed", "xpassed")),
        "failed": number.get("failed", 0) + number.get("error", 0) + len(_dead_workers),
        "skipped": number.get("skipped", 0),
    }
    Path(path).write_text(json.dumps(counts))
