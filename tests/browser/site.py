"""A whole installation for the browser: its own database with demo data, `serve`, workers and a runner as processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx

from tests.browser import demo
from tests.e2e.installation import ROOT, Installation, free_port
from tests.support.polling import poll_until

SET_UP_SECONDS = 240
"""Met only by failures."""


@dataclass
class Site(Installation):
    """An installation, with what its demo data are."""

    demo: demo.Demo | None = None

    @property
    def api(self) -> httpx.Client:
        assert self.demo is not None
        return self.http(self.demo.admin_key)


@contextlib.contextmanager
def site(*, jobs: int, runs: int, workers: bool = True) -> Iterator[Site]:
    """Run an installation on a new database beside that of DATABASE_URL (a file where that is none of PostgreSQL).

    ``jobs`` and ``runs``: the size of `seed_demo`; no jobs: the demo of quickstart. ``workers``: materializer, reaper
    and a runner run too.
    """
    with tempfile.TemporaryDirectory(prefix="croniq-browser-") as name, _new_database(Path(name)) as url:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CRONIQ_", "DATABASE_URL"))}
        env = {
            **kept,
            "DATABASE_URL": url,
            "CRONIQ_DATA_DIR": name,
            "CRONIQ_HTTPS": "false",
            "CRONIQ_SECRET_KEY": secrets.token_urlsafe(64),
            "CRONIQ_TOTP": "true",  # its pages are pages too
            "PYTHONUNBUFFERED": "1",
        }
        port = free_port()
        running = Site(f"http://127.0.0.1:{port}", env, Path(name))
        running.demo = demo.read(_made(env, jobs, runs))
        try:
            running.start("serve", "--port", str(port))
            if workers:
                running.start("materialize")
                running.start("reap")
            running.wait_for_server()
            if workers:
                who = ("--runner-id", "demo-runner", "--server", running.base_url)
                running.start("runner", *who, CRONIQ_RUNNER_KEY=running.demo.runner_key)
                poll_until(lambda: _has_runner(running), 90, what="the runner polls")
            yield running
        finally:
            running.end()


def _made(env: dict[str, str], jobs: int, runs: int) -> str:
    command = [sys.executable, "-m", "tests.browser.demo", "--jobs", str(jobs), "--runs", str(runs)]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SET_UP_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _has_runner(running: Site) -> bool:
    with running.api as api:
        return any(runner["runner_id"] == "demo-runner" for runner in api.get("/v1/runners").json())


@contextlib.contextmanager
def _new_database(directory: Path) -> Iterator[str]:
    server = os.environ.get("DATABASE_URL", "")
    if not server.startswith("postgres"):
        yield f"sqlite:///{directory / 'browser.sqlite3'}"
        return
    import psycopg
    from psycopg import sql

    name = f"croniq_browser_{os.getpid()}_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
