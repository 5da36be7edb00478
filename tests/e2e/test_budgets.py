"""Singletons of a real installation, run by the unmodified public SDK."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading

import pytest

from scheduler.models import Slot
from tests.e2e.installation import PATIENCE_SECONDS
from tests.e2e.sdk import running_sdk
from tests.e2e.test_sdk import KILLED, ends, execution, make_job, runner_options, trigger
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def test_of_a_singleton_with_three_runners_one_runs_at_a_time_and_each_once(site, api):
    make_job(api, "sdk:single", max_concurrent=1, max_queue_depth=20)
    lock = threading.Lock()
    at_once, most, seen = 0, 0, []

    async def work(ctx):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
            seen.append(str(ctx.execution_id))
        await asyncio.sleep(0.05)
        with lock:
            at_once -= 1

    key = site.key()  # the runners' own: each is another runner of one client
    with contextlib.ExitStack() as runners:
        for n in range(3):
            options = runner_options(site, runner_id=f"sdk-{n}") | {"api_key": key}
            runners.enter_context(running_sdk(lambda r: r.add_handler("sdk:single", work), **options))
        runs = [trigger(api, "sdk:single") for _ in range(12)]
        for run in runs:
            ends(api, run, "completed")
    assert sorted(seen) == sorted(runs)
    assert most == 1
    assert not Slot.objects.exists()


def test_a_singleton_whose_runner_is_killed_goes_on_without_anybodys_help(site, api, tmp_path):
    """CC-01: back under a new id, within the lease, one sweep and one period."""
    make_job(api, "sdk:rescue", max_concurrent=1, lease=5)
    script = tmp_path / "doomed.py"
    script.write_text(KILLED)
    doomed = site.start(sys.executable, str(script), site.base_url, site.key())
    first = trigger(api, "sdk:rescue")
    poll_until(lambda: "started 1" in site.log_of(doomed), PATIENCE_SECONDS, what="the doomed runner starts the run")
    second = trigger(api, "sdk:rescue")
    site.stop(doomed, signal.SIGKILL)

    async def finish(ctx):
        pass

    with running_sdk(lambda r: r.add_handler("sdk:rescue", finish), **runner_options(site, runner_id="back-again")):
        assert ends(api, second, "completed", 45)["attempt"] == 1
        assert ends(api, first, "completed", 45)["attempt"] == 2
    assert execution(api, first)["runner_id"] == "back-again"
    assert not Slot.objects.exists()
