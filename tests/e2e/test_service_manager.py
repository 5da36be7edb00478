"""Real processes under a service manager: what they say when they begin, while they work, and when they stop."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.installation import free_port, installation
from tests.support.notify import ear
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]
START_SECONDS = 150.0
WATCHDOG_USEC = "400000"


def test_server_and_workers_say_when_they_are_ready_that_they_live_and_that_they_stop():
    with ExitStack() as stack:
        site = stack.enter_context(installation((), serve=False))
        started = {}
        for command in (f"serve --port {free_port()}", "materialize --interval 3600", "reap --interval 3600"):
            heard = stack.enter_context(ear())
            env = {"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": WATCHDOG_USEC}
            started[command] = heard, site.start(*command.split(), **env)
        for heard, process in started.values():
            # Ready first; then again and again, also of a worker whose next pass is an hour away.
            assert heard.hear(START_SECONDS) == "READY=1", site.log_of(process)
            for _ in range(3):
                assert heard.hear_until("WATCHDOG=1")[-1] == "WATCHDOG=1"
        for heard, process in started.values():
            assert site.stop(process) == 0
            words = heard.heard_so_far()
            assert "STOPPING=1" in words
            assert set(words) <= {"WATCHDOG=1", "STOPPING=1"}


def test_a_server_of_several_processes_lives_only_while_all_of_them_do(database):
    if database != "postgresql":
        pytest.skip("SQLite is served by one process")
    with installation((), serve=False) as site, ear() as heard:
        env = {"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": WATCHDOG_USEC}
        process = site.start("serve", "--port", str(free_port()), "--processes", "2", **env)
        assert heard.hear(START_SECONDS) == "READY=1", site.log_of(process)
        assert heard.hear() == "WATCHDOG=1"
        hung = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        os.kill(hung, signal.SIGSTOP)
        try:
            poll_until(lambda: Path(f"/proc/{hung}/stat").read_text().split()[2] == "T", 30, what="it has stopped")
            # What it said before it stopped may still complete one round.
            while heard.hear(0.0001) is not None:
                pass
            heard.hear(1.5)
            assert heard.hear(2.0) is None
        finally:
            os.kill(hung, signal.SIGCONT)
        assert heard.hear() == "WATCHDOG=1"
        assert site.stop(process) == 0
