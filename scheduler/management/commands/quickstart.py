"""One command that sets up an installation and runs all of it on this machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import Conflict
from croniq_site.kernel.lockfile import LockTaken, hold_lock
from croniq_site.kernel.stop import StopToken, stop_on_signals
from croniq_site.kernel.supervisor import ChildSpec, supervise
from runners.services.declared import apply_declared
from scheduler.services.demo import create_demo_jobs
from scheduler.services.installation import ensure_admin, ensure_local_runner_key
from scheduler.workers.alerter import END_SECONDS

_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
READY_SECONDS = 60
DRAIN_SECONDS = 10


class Command(BaseCommand):
    help = "Set up Croniq (first time) and run server, materializer, reaper and one runner on this machine."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=4000, help="port to listen on (default: %(default)s)")
        parser.add_argument("--no-demo", action="store_true", help="make no demo jobs")

    def handle(self, *, host: str, port: int, no_demo: bool, **options: object) -> None:
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        try:
            with hold_lock(settings.DATA_DIR / "quickstart.lock"):
                _refuse_taken_port(host, port)
                key_file = self.set_up(no_demo)
                self.run(host, port, key_file)
        except LockTaken as taken:
            raise CommandError(
                f"Croniq runs here already (process {taken.pid or 'unknown'}). Stop it first, or set CRONIQ_DATA_DIR "
                "to another directory for a second installation."
            ) from None

    def set_up(self, no_demo: bool) -> Path:
        self.say("setup", "bringing the database up to date")
        call_command("migrate", verbosity=0, interactive=False)
        now = DatabaseClock().now()
        admin = ensure_admin()
        if admin:
            self.say("setup", f"administrator {admin.name!r}, password {admin.password} (shown this once)")
        try:
            for change in apply_declared(settings.CRONIQ_API_CLIENTS, now):
                self.say("setup", change)
        except Conflict as refusal:
            raise CommandError(refusal.message) from None
        key_file = ensure_local_runner_key(settings.DATA_DIR / "local-runner.key", now)
        if not no_demo and (keys := create_demo_jobs(now)):
            self.say("setup", f"demo jobs: {', '.join(keys)}")
        return key_file

    def run(self, host: str, port: int, key_file: Path) -> None:
        url = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}"  # noqa: S104
        stop, hurry = StopToken(), StopToken()
        stop_on_signals(stop, again=hurry)
        ready = _Readiness(url, self.say)
        supervise(children_of(host, port, url, key_file, ready), stop, say=self.say, on_tick=ready.look, hurry=hurry)
        self.say("croniq", "stopped")

    def say(self, name: str, line: str) -> None:
        # One write a line: the readers of all children end here, and halves of two lines must not mix.
        self.stdout.write(f"{name:<11} | {line}\n", ending="")
        self.stdout.flush()


def children_of(host: str, port: int, url: str, key_file: Path, ready: _Readiness) -> list[ChildSpec]:
    """Started in this order, the runner once the server answers; ended in the reverse one: its last acks need it."""
    manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
    # Plain http on this machine: cookies that only travel over https would make sign-in fail.
    env = {"CRONIQ_HTTPS": os.environ.get("CRONIQ_HTTPS") or "false"}
    return [
        ChildSpec("serve", [*manage, "serve", "--host", host, "--port", str(port)], env),
        ChildSpec("materialize", [*manage, "materialize"], env),
        # An alert that is being sent ends: one that is torn away is sent again.
        ChildSpec("reap", [*manage, "reap"], env, stop_seconds=END_SECONDS + 3),
        ChildSpec(
            "runner",
            [
                *manage,
                "runner",
                *("--server", url),
                *("--runner-id", f"local-{socket.gethostname()}"[:255]),
                *("--drain-timeout", str(DRAIN_SECONDS)),
            ],
            {
                **env,
                "CRONIQ_RUNNER_KEY_FILE": str(key_file),
                # What a job's command inherits is the runner's allow-list; it has no business with the database either.
                "CRONIQ_RUNNER_DATA_DIR": str(settings.DATA_DIR),
                # Its server is this machine, which a proxy of the environment does not reach.
                "no_proxy": ",".join(filter(None, [_no_proxy(), urlsplit(url).hostname])),
            },
            # What runs has its time to drain, and then five seconds between TERM and KILL.
            stop_seconds=DRAIN_SECONDS + 8,
            start_when=lambda: ready.said,
        ),
    ]


def _no_proxy() -> str:
    return os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""


class _Readiness:
    """Asks /health until it answers, then says once that Croniq is ready."""

    def __init__(self, url: str, say) -> None:
        self.url, self.say = url, say
        self.said = False
        self.asking: threading.Thread | None = None
        self.late_at = time.monotonic() + READY_SECONDS

    def look(self) -> None:
        if self.said or (self.asking and self.asking.is_alive()):
            return
        # In a thread: a server that accepts and does not answer must not hold up the supervisor.
        self.asking = threading.Thread(target=self._ask, daemon=True)
        self.asking.start()
        if time.monotonic() > self.late_at:
            self.late_at = float("inf")
            self.say("croniq", f"the server did not answer within {READY_SECONDS} s; its lines above say why")

    def _ask(self) -> None:
        with (
            contextlib.suppress(OSError, urllib.error.URLError),
            _DIRECTLY.open(f"{self.url}/health", timeout=2) as answer,
        ):
            if answer.status == 200 and not self.said:
                self.said = True
                self.say("croniq", f"Croniq is ready: {self.url} (Ctrl-C stops everything)")


def _refuse_taken_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"{host}:{port} cannot be used ({error.strerror}). Choose another with --port."
            ) from None
