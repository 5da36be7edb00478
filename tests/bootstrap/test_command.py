"""`manage.py test` itself, as a person and as CI call it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.postgres import URL_VARIABLE
from tests.support.suite import ROOT

pytestmark = [pytest.mark.realtime, pytest.mark.timeout(300)]
PINNED = "tests/bootstrap/test_lock.py"
CLOCK = "tests/kernel/test_clock.py"


@pytest.fixture(autouse=True)
def _once(database):
    if database != "sqlite":
        pytest.skip("the command chooses the databases itself: calling it from the run on SQLite is enough")


def manage_test(*arguments: str, **variables: str) -> tuple[int, str]:
    """Run the command with a PostgreSQL of its own; return its exit status and what it printed on stdout."""
    environment = {name: value for name, value in os.environ.items() if name != URL_VARIABLE}
    done = subprocess.run(
        [sys.executable, "manage.py", "test", *arguments],
        cwd=ROOT,
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout


def test_both_databases_run_and_say_so_and_the_total_stands_alone_at_the_end():
    status, printed = manage_test(CLOCK, "--", "-q")
    assert status == 0
    assert re.search(r"^== SQLite 3\.[\d.]+: fast tier ==$", printed, re.M)
    assert re.search(r"^== PostgreSQL \d[\d.]*: fast tier \(ran at the same time\) ==$", printed, re.M)
    # Two of them ask the database; what none takes part in runs once.
    assert re.search(r"^== SQLite .*: 3 passed, 0 failed, 1 skipped ==$", printed, re.M)
    assert re.search(r"^== PostgreSQL .*: 2 passed, 0 failed, 0 skipped ==$", printed, re.M)
    assert "realtime tier" not in printed
    assert printed.splitlines()[-1] == "5 passed, 0 failed"


def test_all_runs_both_tiers_and_a_failure_on_either_is_a_failure(tmp_path):
    sample = tmp_path / "test_sample.py"
    sample.write_text(
        "import pytest\n"
        "def test_vendor(database):\n"
        "    assert database == 'sqlite'\n"
        "@pytest.mark.realtime\n"
        "def test_waits():\n"
        "    pass\n"
    )
    # Outside the checkout the project's conftest is not found by itself.
    options = [str(sample), "--", "-q", "-p", "tests.conftest", f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml")]
    status, printed = manage_test("--all", *options)
    assert status == 1
    assert printed.splitlines()[-1] == "3 passed, 1 failed", printed
    status, printed = manage_test("--all", "--database", "sqlite", *options)
    assert status == 0, printed
    assert "PostgreSQL" not in printed
    assert printed.splitlines()[-1] == "2 passed, 0 failed"


def test_workers_that_die_at_their_start_are_failures(tmp_path):
    """pytest-xdist ends with "no tests ran" then, and with the same status as a tier that has none."""
    (tmp_path / "dying_workers.py").write_text(
        "import os, pytest\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_load_initial_conftests():\n"
        "    if os.environ.get('PYTEST_XDIST_WORKER'):\n"
        "        raise ImportError('died at its start')\n"
    )
    options = ["--", "-q", "-n", "2", "-p", "dying_workers"]
    status, printed = manage_test("--database", "sqlite", PINNED, *options, PYTHONPATH=str(tmp_path))
    assert status == 1
    assert re.fullmatch(r"0 passed, [1-9]\d* failed", printed.splitlines()[-1]), printed


def test_nothing_that_runs_is_no_success():
    status, printed = manage_test("--database", "sqlite", PINNED, "--", "-q", "-k", "no-such-test")
    assert status == 1
    assert "No test ran" in printed
