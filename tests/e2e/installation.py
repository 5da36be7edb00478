"""A whole installation in processes of its own, on the test database: what a user runs, started by a test."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from croniq_site.kernel.clock import DatabaseClock
from runners.services.clients import create_client, issue_key
from tests.support.database import database_url
from tests.support.polling import poll_until

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS, STOP_SECONDS, PATIENCE_SECONDS = 150, 60, 90
"""Met only by failures: on two cores that twenty processes want, a server once needed a minute to start."""


@dataclass
class Installation:
    """Where it is, keys for it, and its processes."""

    base_url: str
    env: dict[str, str]
    directory: Path
    processes: list[subprocess.Popen] = field(default_factory=list)
    logs: dict[int, Path] = field(default_factory=dict)

    def key(self, *scopes: str, tenant: str | None = None) -> str:
        now = DatabaseClock().now()
        name = f"client-{len(list(self.directory.iterdir()))}-{now.timestamp()}"
        return issue_key(create_client(name, scopes or ("admin",), now, tenant=tenant), now)

    def http(self, key: str) -> httpx.Client:
        return httpx.Client(base_url=self.base_url, headers={"Authorization": f"ApiKey {key}"}, timeout=40)

    def start(self, *argv: str, **env: str) -> subprocess.Popen:
        """Start `manage.py argv…`, or `argv` as it is if it begins with a path; ended with the installation."""
        command = list(argv) if Path(argv[0]).is_absolute() else [sys.executable, str(ROOT / "manage.py"), *argv]
        log = self.directory / f"{len(self.processes)}-{Path(argv[0]).name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env={**self.env, **env}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.processes.append(process)
        self.logs[process.pid] = log
        return process

    def log_of(self, process: subprocess.Popen) -> str:
        return self.logs[process.pid].read_text(errors="replace")

    def wait_for_server(self, base_url: str | None = None) -> None:
        def answers() -> bool:
            for process in self.processes:
                assert process.poll() is None, self.log_of(process)
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{base_url or self.base_url}/health", timeout=5).status_code == 200
            return False

        poll_until(answers, START_SECONDS, what="the server answers /health")

    def stop(self, process: subprocess.Popen, signum: int = signal.SIGTERM) -> int:
        """Send ``signum``, wait, and return the exit code."""
        if process.poll() is None:
            process.send_signal(signum)
        return process.wait(STOP_SECONDS)

    def end(self) -> None:
        """Stop all processes, the last started first; what does not within its time is killed."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def installation(processes: Sequence[str] = ("materialize", "reap"), *, serve: bool = True) -> Iterator[Installation]:
    """Run `serve` and `processes` (names of commands, with arguments after a blank) until the block ends."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="croniq-e2e-") as name:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CRONIQ_", "DATABASE_URL"))}
        env = {
            **kept,
            "DATABASE_URL": database_url(),
            "CRONIQ_DATA_DIR": name,
            "CRONIQ_HTTPS": "false",
            "CRONIQ_SECRET_KEY": "only-for-this-test-" * 4,
            "PYTHONUNBUFFERED": "1",
        }
        site = Installation(f"http://127.0.0.1:{port}", env, Path(name))
        try:
            if serve:
                site.start("serve", "--port", str(port))
            for process in processes:
                site.start(*process.split())
            if serve:
                site.wait_for_server()
            yield site
        except BaseException:
            for process in site.processes:
                print(f"--- {site.logs[process.pid].name}\n{site.log_of(process)[-4000:]}")  # noqa: T201
            raise
        finally:
            site.end()
