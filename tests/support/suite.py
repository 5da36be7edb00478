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
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import browser, counting
from tests.support.browser import DATABASES_VARIABLE
from tests.support.postgres import BIN_VARIABLE, URL_VARIABLE, private_postgres

ROOT = Path(__file__).resolve().parent.parent.parent
SQLITE, POSTGRESQL = "sqlite", "postgresql"
DATABASES = (SQLITE, POSTGRESQL)
TIERS = {"fast": "not realtime", "realtime": "realtime"}
"""Tier → pytest's -m expression, in the order in which they run."""
REALTIME_PROCESSES = "3"
"""On each database."""
PYTEST_NOTHING_COLLECTED = 5
UNWANTED = ("DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE")
"""The second costs each process of the run, and each that a test starts, the compilation of all that it imports."""


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
        runs = stack.enter_context(contextlib.closing(_run_all(tiers, targets, folder, pytest_arguments)))
        for run, counts in runs:
            _say(f"== {run.title}: {counts}, {counts.skipped} skipped ==")
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


@dataclass
class _Run:
    """One tier on one database. `output` is None for what writes straight to stdout; `child` comes with its turn."""

    tier: str
    target: Target
    home: Path
    command: Sequence[str]
    env: Mapping[str, str]
    output: Path | None
    child: subprocess.Popen[bytes] | None = None
    has_ended: threading.Event = field(default_factory=threading.Event)

    @property
    def title(self) -> str:
        return f"{self.target.title}: {self.tier} tier"


class _Lanes:
    """A thread a database: it runs the tiers one after the other, and waits for no other database in between."""

    def __init__(self, lanes: Sequence[Sequence[_Run]]) -> None:
        self._lock = threading.Lock()
        self._children: list[subprocess.Popen[bytes]] = []
        self._is_stopped = False
        self._threads = [threading.Thread(target=self._run, args=(lane,), name="lane") for lane in lanes]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Start nothing more, and end what runs."""
        with self._lock:
            self._is_stopped = True
        _end(self._children)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _run(self, lane: Sequence[_Run]) -> None:
        try:
            for run in lane:
                if (child := self._start(run)) is not None:
                    child.wait()
                    run.has_ended.set()
        finally:
            for run in lane:
                run.has_ended.set()

    def _start(self, run: _Run) -> subprocess.Popen[bytes] | None:
        with self._lock, contextlib.ExitStack() as stack:
            if self._is_stopped:
                return None
            output = stack.enter_context(run.output.open("wb")) if run.output else None
            run.child = subprocess.Popen(
                run.command,
                cwd=ROOT,
                env=run.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
            )
            self._children.append(run.child)
            return run.child


def _run_all(
    tiers: Sequence[str], targets: Sequence[Target], folder: Path, pytest_arguments: Sequence[str]
) -> Generator[tuple[_Run, Counts]]:
    """Run the tiers on all targets at once and yield what each did, tier by tier, after its output has been shown.

    The very first writes straight to stdout, the others are shown after it.
    """
    lanes: list[list[_Run]] = []
    for place, target in enumerate(targets):
        lanes.append([])
        for tier in tiers:
            home = folder / f"{tier}-{target.name}"
            home.mkdir()
            is_shown = place == 0 and tier == tiers[0]
            command = _pytest_command(tier, target, pytest_arguments, is_first=place == 0)
            env = child_environment(os.environ, target, targets, home)
            lanes[-1].append(_Run(tier, target, home, command, env, None if is_shown else home / "output"))
    running = _Lanes(lanes)
    try:
        if lanes:
            _say(f"\n== {lanes[0][0].title} ==")
        running.start()
        for number in range(len(tiers)):
            for lane in lanes:
                run = lane[number]
                if run.output is None:
                    run.has_ended.wait()
                else:
                    _say(f"\n== {run.title} (ran at the same time) ==")
                    _follow(run.output, run.has_ended)
                status = run.child.returncode if run.child else 1
                yield run, read_counts(run.home / "counts.json", status, may_be_empty=bool(pytest_arguments))
    finally:
        running.stop()


def _pytest_command(tier: str, target: Target, pytest_arguments: Sequence[str], *, is_first: bool) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", counting.__name__, "-m", TIERS[tier]]
    # A cache each, or the two runs write into one another's --last-failed.
    command += ["-o", f"cache_dir=.pytest_cache/{target.name}"]
    if tier == "realtime":
        # They wait most of the time. Who gets which is told in tests/conftest.py.
        command += ["-n", REALTIME_PROCESSES]
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
        if not name.startswith(("CRONIQ_", "DATABASE_URL", "PG", "PYTEST_XDIST")) and name not in UNWANTED
    }
    if BIN_VARIABLE in environment:
        kept[BIN_VARIABLE] = environment[BIN_VARIABLE]
    for other in targets:
        if other.name == POSTGRESQL:
            kept[URL_VARIABLE] = other.url
    return kept | {
        "DATABASE_URL": target.url,
        "CRONIQ_DATA_DIR": str(home / "data"),
        DATABASES_VARIABLE: " ".join(other.name for other in targets),
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


def _follow(path: Path, has_ended: threading.Event) -> None:
    """Copy an output to stdout as it grows, from when there is one, until its run has ended and all is copied."""
    while not path.exists() and not has_ended.wait(0.2):
        pass
    if not path.exists():
        return
    with path.open("rb") as output:
        is_over = False
        while not is_over:
            is_over = has_ended.wait(0.2)
            shutil.copyfileobj(output, sys.stdout.buffer)
            sys.stdout.flush()


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
