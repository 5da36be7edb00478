"""One run of pytest in a scratch copy: clean environment, time limit, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# What a run may take from the caller's environment; the rest (DATABASE_URL, CRONIQ_*, PYTEST_ADDOPTS…) would decide
# for it which code or database is meant.
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CRONIQ_PG_BIN")
FAST = ("-m", "not realtime")
NAMED = ("-m", "")  # whatever the project deselects by itself
TAIL_LINES = 40


@dataclass(frozen=True)
class SuiteRun:
    """What one run of the suite on one database did. `outcomes`: test id → passed, failed, skipped or error."""

    outcomes: Mapping[str, str]
    seconds: float
    timed_out: bool = False
    finished: int | None = None  # pytest's exit status, None when it did not come to its end
    collect_errors: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    running: str = ""  # the test that was started last
    tail: str = ""

    @property
    def is_green(self) -> bool:
        return self.finished == 0 and not self.timed_out and not self.foreign

    def reds(self) -> list[str]:
        return sorted(test for test, outcome in self.outcomes.items() if outcome in ("failed", "error"))


@dataclass
class SuiteRunner:
    """Starts runs and can end all of them, from any thread."""

    python: str = sys.executable
    _live: dict[int, subprocess.Popen] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def run(
        self,
        tree: Path,
        home: Path,
        environment: Mapping[str, str],
        arguments: Sequence[str],
        limit_seconds: float,
    ) -> SuiteRun:
        """Run pytest with `arguments` in `tree`; its temporary files, its report and its log go to the folder `home`.

        A run that is not done after `limit_seconds` is killed with all it started, and says `timed_out`.
        """
        temporary = home / "t"
        temporary.mkdir(parents=True)
        shutil.copyfile(Path(__file__).with_name("reporter.py"), home / "croniq_mutation_reporter.py")
        report, log = home / "report.jsonl", home / "log.txt"
        environment = {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            "PYTHONPATH": os.pathsep.join((str(tree), str(home))),  # before the editable install of the real tree
            "TMPDIR": str(temporary),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(temporary / "hypothesis"),
            "CRONIQ_MUTATION_TREE": str(tree.resolve()),
            "CRONIQ_MUTATION_REPORT": str(report),
            **environment,
        }
        command = [self.python, "-m", "pytest", "-q", "-p", "croniq_mutation_reporter", "-p", "no:cacheprovider"]
        began = time.monotonic()
        timed_out = False
        with log.open("wb") as output:
            process = self._start([*command, *arguments], tree, environment, output)
            try:
                process.wait(timeout=limit_seconds)
            except subprocess.TimeoutExpired:
                timed_out = True
            finally:
                self._end(process)
                end_leftovers(home)
        return _read_report(report, log, time.monotonic() - began, timed_out)

    def _start(self, command, tree, environment, output) -> subprocess.Popen:
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                command,
                cwd=tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._live[process.pid] = process
            return process

    def _end(self, process: subprocess.Popen) -> None:
        if process.poll() is None:  # not reaped yet, so the number is still its own
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with self._lock:
            self._live.pop(process.pid, None)

    def stop(self) -> None:
        """Kill every run that is going on and refuse new ones."""
        with self._lock:
            self._stopped = True
            processes = list(self._live.values())
        for process in processes:
            process.kill()  # its own thread reaps it and ends the rest


def end_leftovers(home: Path) -> list[int]:
    """Kill the processes that left the run's session but still carry its temporary folder in their environment.

    Command jobs have process groups of their own, so killing the session misses them. Linux only; elsewhere nothing.
    """
    mark = f"TMPDIR={home / 't'}".encode()  # or a folder below it, where a test sets its own
    ended = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (entry / "environ").read_bytes().split(b"\0")
            if any(variable == mark or variable.startswith(mark + b"/") for variable in variables):
                os.kill(int(entry.name), signal.SIGKILL)
                ended.append(int(entry.name))
    return ended


def joined(fast: SuiteRun, realtime: SuiteRun | None) -> SuiteRun:
    """Put the run of the fast tier and that of the named realtime tests together as one."""
    if realtime is None:
        return fast
    return SuiteRun(
        outcomes={**fast.outcomes, **realtime.outcomes},
        seconds=fast.seconds + realtime.seconds,
        timed_out=fast.timed_out or realtime.timed_out,
        finished=None if None in (fast.finished, realtime.finished) else max(fast.finished, realtime.finished),
        collect_errors=fast.collect_errors + realtime.collect_errors,
        foreign=fast.foreign + realtime.foreign,
        running=realtime.running or fast.running,
        tail=fast.tail + realtime.tail,
    )


def _read_report(report: Path, log: Path, seconds: float, timed_out: bool) -> SuiteRun:
    outcomes: dict[str, str] = {}
    collect_errors: list[str] = []
    running = ""
    last: dict = {}
    lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):  # the line that a killed run was writing
            entry = json.loads(line)
            if "started" in entry:
                running = entry["started"]
            elif "id" in entry:
                # A failed call stays failed when the tear-down fails as well.
                if outcomes.get(entry["id"]) != "failed":
                    outcomes[entry["id"]] = entry["outcome"]
            elif "collect_error" in entry:
                collect_errors.append(entry["collect_error"])
            else:
                last = entry
    return SuiteRun(
        outcomes=outcomes,
        seconds=seconds,
        timed_out=timed_out,
        finished=last.get("finished"),
        collect_errors=tuple(collect_errors),
        foreign=tuple(last.get("foreign", ())),
        running=running,
        tail="\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]) + "\n",
    )
