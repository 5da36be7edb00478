"""`manage.py runner` as its own process against the real server: nothing is played by the test but the signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from croniq_site.kernel.clock import DatabaseClock
from runners.services.audit import SYSTEM
from scheduler.models import QueueEntry, Run, RunLog
from scheduler.services.cancel import cancel_runs
from scheduler.services.wake import wake
from tests.factories import JobFactory, QueueEntryFactory
from tests.runners.agent.helpers import is_running
from tests.support.polling import poll_until
from tests.support.server import LiveEdge, live_edge

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0
"""Met only by failures, on two cores that twenty processes want."""


@dataclass
class RunnerProcess:
    process: subprocess.Popen[bytes]
    log: Path

    def said(self, text: str) -> bool:
        return text in self.log.read_text()

    def signal(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def ends_with(self, code: int, within_seconds: float = 25.0) -> None:
        """By default sooner than a held poll is answered."""
        assert self.process.wait(within_seconds) == code, self.log.read_text()
        assert not self.said("Traceback"), self.log.read_text()


@contextlib.contextmanager
def runner(
    server: LiveEdge, tmp_path: Path, *options: str, key: str = "", ignores_sigchld: bool = False
) -> Iterator[RunnerProcess]:
    """Start a runner that is told a URL and a key; the database that its environment names does not exist."""
    log = tmp_path / "runner.log"
    environment = os.environ | {
        "DATABASE_URL": "postgres://croniq@127.0.0.1:1/croniq",
        "CRONIQ_DATA_DIR": str(tmp_path),
        "CRONIQ_RUNNER_KEY": key or server.key(),
    }
    arguments = [sys.executable, "manage.py", "runner", "--server", server.base_url, "--runner-id", "r1", *options]
    if ignores_sigchld:
        code = (
            "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
        )
        arguments = [sys.executable, "-c", code, *arguments]
    with log.open("w") as stderr:
        process = subprocess.Popen(arguments, cwd=ROOT, env=environment, stderr=stderr)
    try:
        yield RunnerProcess(process, log)
    finally:
        process.kill()
        process.wait()


def due(shell: str, **job: object) -> Run:
    """Make a run of a shell command that is due, and wake who waits for it."""
    entry = QueueEntryFactory(job=JobFactory(action={"type": "command", "shell": shell}, **job))
    wake({entry.lane_id})
    return entry.run


def lines_of(run: Run, stream: str = "stdout") -> list[str]:
    rows = RunLog.objects.filter(run=run).order_by("id").values_list("message", "fields")
    return [message for message, fields in rows if fields["stream"] == stream]


def finished(run: Run) -> Run:
    """Wait until the run has its verdict and return it."""
    ended = Run.objects.filter(pk=run.pk, verdict__isnull=False)
    poll_until(ended.exists, PATIENCE_SECONDS, what="the run has ended")
    return Run.objects.get(pk=run.pk)


def first_line(run: Run) -> str:
    return poll_until(lambda: lines_of(run), PATIENCE_SECONDS, what="the run has said something")[0]


def test_commands_run_and_their_lines_arrive_complete_and_in_order(tmp_path: Path) -> None:
    with live_edge() as server, runner(server, tmp_path) as process:
        good = due("echo $CRONIQ_JOB_KEY; for i in $(seq 1500); do echo o$i; echo e$i >&2; done", job_key="live:good")
        bad = due("echo because >&2; exit 3", max_retries=0)
        late = due("echo $$; sleep 1000", max_retries=0, timeout_seconds=1.0)
        assert finished(good).verdict == "completed"
        assert lines_of(good) == ["live:good", *[f"o{i}" for i in range(1, 1501)]]
        assert lines_of(good, "stderr") == [f"e{i}" for i in range(1, 1501)]
        assert (finished(bad).verdict, finished(bad).error) == ("dead", "exit code 3")
        assert lines_of(bad, "stderr") == ["because"]
        assert finished(late).error == "timed out after 1s"
        assert not is_running(int(first_line(late)))
        process.signal()
        process.ends_with(0)
    assert not QueueEntry.objects.exists()


def test_a_failure_is_one_though_the_runners_parent_ignored_sigchld(tmp_path: Path) -> None:
    """What is ignored is inherited, and the kernel then keeps no exit codes: every failure would be a success."""
    with live_edge() as server, runner(server, tmp_path, ignores_sigchld=True):
        assert finished(due("exit 3", max_retries=0)).error == "exit code 3"


def test_a_cancel_reaches_the_command_within_a_second_though_the_runner_is_full(tmp_path: Path) -> None:
    with live_edge() as server, runner(server, tmp_path, "--max-inflight", "1"):
        took = []
        while not took or (min(took) >= 1.0 and len(took) < 5):  # the best of five: the machine may be busy
            run = due("echo $$; sleep 1000")
            pid = int(first_line(run))
            cancelled_at = time.monotonic()
            cancel_runs([run.pk], DatabaseClock().now(), SYSTEM)
            poll_until(lambda pid=pid: not is_running(pid), what="the command has ended")
            took.append(time.monotonic() - cancelled_at)
            poll_until(lambda: not QueueEntry.objects.exists(), what="the runner has acked it")
            assert finished(run).verdict == "cancelled"
        assert min(took) < 1.0


def test_a_signal_drains_the_run_is_finished_and_the_held_poll_is_not_waited_for(tmp_path: Path) -> None:
    with live_edge() as server, runner(server, tmp_path) as process:
        run = due("echo $$; sleep 2; echo done")
        first_line(run)
        process.signal()
        poll_until(lambda: process.said("draining"), what="the runner drains")
        after = due("echo never")
        process.ends_with(0)
        assert finished(run).verdict == "completed"
    assert lines_of(run) == [lines_of(run)[0], "done"]
    assert QueueEntry.objects.get().run_id == after.pk
    assert QueueEntry.objects.get().state == QueueEntry.State.READY


def test_a_second_signal_ends_the_command_and_leaves_nothing_claimed(tmp_path: Path) -> None:
    with live_edge() as server, runner(server, tmp_path) as process:
        run = due("echo $$; sleep 1000", max_retries=0)
        pid = int(first_line(run))
        process.signal()
        poll_until(lambda: process.said("draining"), what="the runner drains")
        process.signal()
        process.ends_with(0)
        assert not is_running(pid)
    assert finished(run).error == "stopped with the runner before it had ended"


def test_a_short_lease_is_renewed_while_a_poll_is_held(tmp_path: Path) -> None:
    """The SDK alone renews every 15 s; this lease of 5 s would be over by then."""
    with live_edge() as server, runner(server, tmp_path):
        run = due("echo $$; sleep 1000", lease_seconds=5.0)
        first_line(run)
        entry = QueueEntry.objects.get(run=run)
        was = entry.claimed_at + timedelta(seconds=5)
        poll_until(
            lambda: QueueEntry.objects.get(run=run).lease_expires_at > was + timedelta(seconds=3), 10, what="renewals"
        )
        cancel_runs([run.pk], DatabaseClock().now(), SYSTEM)
        poll_until(lambda: not QueueEntry.objects.exists(), what="the runner has acked it")


def test_a_key_that_the_server_does_not_know_ends_the_runner_with_one_line(tmp_path: Path) -> None:
    with live_edge() as server, runner(server, tmp_path, key="croniq_unknown") as process:
        process.ends_with(1, within_seconds=PATIENCE_SECONDS)
        assert process.said("CommandError: unauthorized")
        assert not process.said("croniq_unknown")


def test_a_runner_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    with live_edge() as server:
        body = {"runner_id": "r1", "instance_id": "i", "max_inflight": 0}
        assert server.post("/v1/work/poll", body, key=server.key()).status_code == 200
        with runner(server, tmp_path) as process:
            process.ends_with(1, within_seconds=PATIENCE_SECONDS)
            assert process.said("CommandError: work ownership denied")
