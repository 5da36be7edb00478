"""The suite on every database: one pytest process each, side by side; what `manage.py test` runs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import browser, counting
from tests.support.postgres import BIN_VARIABLE, URL_VARIABLE, private_postgres

ROOT = Path(__file__).resolve().parent.parent.parent
SQLITE, POSTGRESQL = "sqlite", "postgresql"
DATABASES = (SQLITE, POSTGRESQL)
TIERS = {"fast": "not realtime", "realtime": "realtime"}
"""Tier → pytest's -m expression, in the order in which they run."""
PYTEST_NOTHING_COLLECTED = 5


@dataclass(frozen=True)
class Counts:
    """What one or several runs did; `failed` includes errors and runs that died before they could count."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    @property
    def is_empty(self) -> bool:
        return self == Counts()

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed"


@dataclass(frozen=True)
class Target:
    """A database to run on: its name with version for people, its URL, its short name."""

    name: str
    title: str
    url: str


def run_suite(databases: Sequence[str], tiers: Sequence[str], pytest_arguments: Sequence[str] = ()) -> Counts:
    """Run the tiers on the databases and print it all to stdout; the last line is the total, alone.

    Raises PostgresUnavailable before anything has run.
    """
    total = Counts()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="croniq-suite-")))
        stack.enter_context(_terminated_like_interrupted())
        targets = list(stack.enter_context(_targets(databases, folder)))
        for tier in tiers:
            for target, counts in zip(targets, _run_tier(tier, targets, folder, pytest_arguments), strict=True):
                _say(f"== {target.title}: {tier} tier: {counts}, {counts.skipped} skipped ==")
                total += counts
    if "realtime" in tiers and (lack := browser.missing()):
        _say(f"!!!! The browser tests did not run: {lack}. !!!!")
    if total.is_empty:
        _say("No test ran: what was named has none in this tier (realtime tests need --all).")
    _say("")
    _say(str(total))
    return total


@contextlib.contextmanager
def _targets(databases: Sequence[str], folder: Path) -> Iterator[list[Target]]:
    targets = []
    with contextlib.ExitStack() as stack:
        if SQLITE in databases:
            # The test database is a file of its own beside it (tests/conftest.py); this one is never written.
            url = f"sqlite:///{folder / 'never-used.sqlite3'}"
            targets.append(Target(SQLITE, f"SQLite {sqlite3.sqlite_version}", url))
        if POSTGRESQL in databases:
            server = stack.enter_context(private_postgres())
            targets.append(Target(POSTGRESQL, f"PostgreSQL {server.version}", server.url))
        yield targets


def _run_tier(tier: str, targets: Sequence[Target], folder: Path, pytest_arguments: Sequence[str]) -> list[Counts]:
    """Run one tier on all targets at once: the first writes straight to stdout, the others are shown after it."""
    children: list[subprocess.Popen[bytes]] = []
    try:
        for place, target in enumerate(targets):
            home = folder / f"{tier}-{target.name}"
            home.mkdir()
            output = None if place == 0 else (home / "output").open("wb")
            if place == 0:
                _say(f"\n== {target.title}: {tier} tier ==")
            children.append(
                subprocess.Popen(
                    _pytest_command(tier, target, pytest_arguments, is_first=place == 0),
                    cwd=ROOT,
                    env=child_environment(os.environ, target, targets, home),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT if output else None,
                )
            )
            if output:
                output.close()
        for place, (target, child) in enumerate(zip(targets, children, strict=True)):
            if place > 0:
                _say(f"\n== {target.title}: {tier} tier (ran at the same time) ==")
                _follow(folder / f"{tier}-{target.name}" / "output", child)
            child.wait()
    except BaseException:
        _end(children)
        raise
    return [
        read_counts(
            folder / f"{tier}-{target.name}" / "counts.json", child.returncode, may_be_empty=bool(pytest_arguments)
        )
        for target, child in zip(targets, children, strict=True)
    ]


def _pytest_command(tier: str, target: Target, pytest_arguments: Sequence[str], *, is_first: bool) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", counting.__name__, "-m", TIERS[tier]]
    # A cache each, or the two runs write into one another's --last-failed.
    command += ["-o", f"cache_dir=.pytest_cache/{target.name}"]
    if tier == "realtime":
        # They wait most of the time: the two-minute ones beside all the others, as many processes as there are cores.
        command += ["-n", "2", "--dist", "worksteal"]
    elif not is_first:
        # What no database takes part in has run beside it, on the first.
        command += ["--database-tests"]
    # One file that cannot be imported must not hide what all the others say.
    return [*command, "--continue-on-collection-errors", *pytest_arguments]


def child_environment(
    environment: Mapping[str, str], target: Target, targets: Sequence[Target], home: Path
) -> dict[str, str]:
    """Return the environment of a pytest process: the caller's without anything that configures Croniq or libpq."""
    kept = {
        name: value
        for name, value in environment.items()
        # Nor is it a part of the run that a test of ours starts it from.
        if not name.startswith(("CRONIQ_", "DATABASE_URL", "PG", "PYTEST_XDIST")) and name != "DJANGO_SETTINGS_MODULE"
    }
    if BIN_VARIABLE in environment:
        kept[BIN_VARIABLE] = environment[BIN_VARIABLE]
    for other in targets:
        if other.name == POSTGRESQL:
            kept[URL_VARIABLE] = other.url
    return kept | {
        "DATABASE_URL": target.url,
        "CRONIQ_DATA_DIR": str(home / "data"),
        counting.REPORT_VARIABLE: str(home / "counts.json"),
    }


def read_counts(path: Path, exit_status: int, *, may_be_empty: bool) -> Counts:
    """Return what a run counted; a run that failed without counting a failure is one failure itself.

    So is a whole tier without any test; `may_be_empty` where the caller has named what to run.
    """
    try:
        counts = Counts(**json.loads(path.read_text()))
    except (OSError, ValueError):
        counts = Counts()
    is_fine = exit_status == 0 or (exit_status == PYTEST_NOTHING_COLLECTED and may_be_empty)
    if not is_fine and counts.failed == 0:
        _say(f"pytest ended with status {exit_status} before it could count; that is one failure.")
        counts += Counts(failed=1)
    return counts


def _follow(path: Path, child: subprocess.Popen[bytes]) -> None:
    """Copy a child's output to stdout as it grows, until the child has ended and all is copied."""
    pause = threading.Event()
    with path.open("rb") as output:
        while True:
            has_ended = child.poll() is not None
            shutil.copyfileobj(output, sys.stdout.buffer)
            sys.stdout.flush()
            if has_ended:
                return
            pause.wait(0.2)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Let the children end as Ctrl-C in a terminal makes them (pytest tears down), then insist."""
    for seconds, number in ((3, None), (10, signal.SIGINT), (5, signal.SIGKILL)):
        for child in children:
            if number is not None and child.poll() is None:
                child.send_signal(number)
        ends_at = time.monotonic() + seconds
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=max(0.0, ends_at - time.monotonic()))


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Make SIGTERM unwind like Ctrl-C, or it would leave the children behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
