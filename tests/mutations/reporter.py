"""A pytest plugin that writes what happened to a file, line by line, so that a killed run still says how far it came.

It is copied out of the tree and loaded by its own name: no mutation can reach it. Lines are JSON objects:
`{"started"}`, `{"id", "outcome"}` (passed, failed, skipped, or error when only the set-up or tear-down failed),
`{"collect_error"}`, and last `{"finished", "foreign"}`: the modules of the tree's own packages from somewhere else.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

TREE = Path(os.environ["CRONIQ_MUTATION_TREE"])
REPORT = Path(os.environ["CRONIQ_MUTATION_REPORT"])


def _write(**line):
    with REPORT.open("a", encoding="utf-8") as report:
        report.write(json.dumps(line) + "\n")


def pytest_runtest_logstart(nodeid):
    _write(started=nodeid)


def pytest_runtest_logreport(report):
    if report.when == "call":
        _write(id=report.nodeid, outcome=report.outcome)
    elif report.outcome == "failed":
        _write(id=report.nodeid, outcome="error")
    elif report.outcome == "skipped":
        _write(id=report.nodeid, outcome="skipped")


def pytest_collectreport(report):
    if report.failed:
        _write(collect_error=report.nodeid or str(report.fspath))


def pytest_sessionfinish(session, exitstatus):
    _write(finished=int(exitstatus), foreign=foreign_modules())


def foreign_modules():
    """Name the loaded modules whose top-level name is in the tree, but whose file is not."""
    own = {entry.stem for entry in TREE.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists()}
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return sorted(
        name
        for name, file in files.items()
        if name.partition(".")[0] in own and file and not Path(file).resolve().is_relative_to(TREE)
    )
