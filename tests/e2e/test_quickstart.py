"""The main job: one command sets everything up and runs it; Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from django.contrib.auth import get_user_model

from runners.models import ApiClient, ApiKey, Runner
from scheduler.models import Job, QueueEntry, Run, Trigger
from tests.e2e.installation import ROOT, free_port
from tests.support.database import database_url
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


class Quickstart:
    """One start of the command, with what it printed."""

    def __init__(self, directory: Path, port: int, *argv: str) -> None:
        self.port = port
        self.output = directory / f"output-{len(list(directory.iterdir()))}"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CRONIQ_", "DATABASE_URL"))}
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "quickstart", "--port", str(port), *argv],
                cwd=ROOT,
                env={
                    **kept,
                    "DATABASE_URL": database_url(),
                    "CRONIQ_DATA_DIR": str(directory / "data"),
                    "HTTP_PROXY": "http://127.0.0.1:9",  # a company's, which does not reach this machine
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.text
            return f"Croniq is ready: http://127.0.0.1:{self.port}" in self.text

        poll_until(is_ready, 60, what="quickstart says that it is ready")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0, self.text


def processes_of(directory: Path) -> list[str]:
    """Command lines of all processes whose environment names ``directory`` (zombies have none)."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str(directory).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def quickstart(directory):
    """Start the command; whatever a failed test leaves running is killed."""
    started = []

    def start(port: int, *argv: str) -> Quickstart:
        started.append(Quickstart(directory, port, *argv))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait(20)
    # The children ask to end with their parent; their runs' commands have the runner to do that for them.
    poll_until(lambda: not processes_of(directory / "data"), 60, what="no process is left")


def test_quickstart_sets_up_runs_the_demo_and_leaves_nothing_and_a_second_start_doubles_nothing(directory, quickstart):
    port = free_port()
    first = quickstart(port)
    first.wait_until_ready()
    password = re.search(r"administrator 'admin', password (\S+) \(shown this once\)", first.text)[1]

    # Within a minute a run of the demo is done, with its lines, in the API …
    poll_until(lambda: Run.objects.filter(verdict="completed").exists(), 60, what="a demo run completes")
    key = subprocess.run(
        [sys.executable, "manage.py", "create_api_key", "looker", "--scopes", "executions:read,jobs:read"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url(), "CRONIQ_DATA_DIR": str(directory / "data")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"ApiKey {key}"}) as api:
        done = [e for e in api.get("/v1/executions").json() if e["state"] == "completed"]
        lines = api.get(f"/v1/executions/{done[-1]['id']}/logs").json()
        assert lines
        assert lines[0]["message"].startswith(("alive at", "line 1", "lucky", "rolling", "somebody"))
    # … and on the pages, for who signs in with the password that was printed.
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", follow_redirects=True) as browser:
        page = browser.get("/runs")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[1]
        page = browser.post(
            str(page.url), data={"username": "admin", "password": password, "csrfmiddlewaretoken": token}
        )
        assert page.status_code == 200, first.text
        page = browser.get("/runs")
        assert "demo:" in page.text
        assert "completed" in page.text.lower()

    first.interrupt()
    assert processes_of(directory / "data") == []
    assert not QueueEntry.objects.filter(state__in=[QueueEntry.State.CLAIMED, QueueEntry.State.STOPPING]).exists()

    def installed():
        return (
            sorted(get_user_model().objects.values_list("username", "password")),
            sorted(Job.objects.values_list("job_key", "id")),
            sorted(Trigger.objects.values_list("id", "anchor_at")),
            sorted(ApiClient.objects.values_list("name", "id")),
            sorted(ApiKey.objects.values_list("digest", flat=True)),
            sorted(Runner.objects.values_list("runner_id", flat=True)),
        )

    before, runs_before = installed(), Run.objects.filter(verdict="completed").count()
    second = quickstart(port)
    second.wait_until_ready()
    poll_until(lambda: Run.objects.filter(verdict="completed").count() > runs_before, 60, what="it goes on")
    assert "password" not in second.text
    assert installed() == before

    # One at a time: another start says so, and the running one does not notice.
    third = quickstart(free_port())
    assert third.process.wait(60) == 1
    assert "Croniq runs here already" in third.text
    assert second.process.poll() is None
    second.interrupt()
    assert processes_of(directory / "data") == []


def test_a_taken_port_is_refused_in_one_sentence(quickstart):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        start = quickstart(port, "--no-demo")
        assert start.process.wait(60) == 1
    assert f"127.0.0.1:{port} cannot be used" in start.text
    assert "Traceback" not in start.text
    assert not Job.objects.exists()
