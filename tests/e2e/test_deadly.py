"""RT-05: a run that kills every runner that takes it, also the only one that can."""

from __future__ import annotations

import sys

import pytest

from runners.models import AuditEvent, Runner
from scheduler.models import Attempt, DeadLetter, QueueEntry, Slot
from tests.e2e.installation import PATIENCE_SECONDS
from tests.e2e.sdk import running_sdk
from tests.e2e.test_sdk import ends, execution, make_job, runner_options, trigger
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

DEADLY = """
import os, signal, sys
import asyncio
from croniq_runner import Runner, RunnerOptions

async def die(ctx):
    print("started", ctx.execution_id, ctx.attempt, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

options = RunnerOptions(server_url=sys.argv[1], api_key=sys.argv[2], runner_id=sys.argv[3], capabilities=["gpu"])
runner = Runner(options)
runner.add_handler("sdk:deadly", die)
asyncio.run(runner.run())
"""


@pytest.mark.parametrize("names", [["only"], ["one", "two"]], ids=["back under its name", "each time another"])
def test_a_run_that_kills_every_runner_is_buried_after_its_losses(site, api, tmp_path, names):
    """Two attempts and two losses beyond them make at most four starts. Back under its name the runner loses the run
    by a takeover, and the last loss is found by a poll that gets nothing; under another by its lease, and by the
    reaper."""
    lease = 5 if len(names) > 1 else 60
    make_job(api, "sdk:deadly", require=["gpu"], max_retries=1, max_losses=2, lease=lease, max_concurrent=1)
    make_job(api, "sdk:harmless")
    script, key = tmp_path / "deadly.py", site.key()
    script.write_text(DEADLY)
    run = trigger(api, "sdk:deadly")

    def is_over() -> bool:
        return execution(api, run)["state"] == "dead"

    started = []
    while not is_over():
        assert len(started) < 10
        process = site.start(sys.executable, str(script), site.base_url, key, names[len(started) % len(names)])
        poll_until(lambda process=process: process.poll() is not None or is_over(), PATIENCE_SECONDS)
        if process.poll() is not None:
            assert process.wait() == -9, site.log_of(process)
            started += [line for line in site.log_of(process).splitlines() if line.startswith("started")]
    assert started == [f"started {run} {attempt}" for attempt in (1, 2, 3, 4)]
    dead = execution(api, run)
    assert (dead["attempt"], [attempt["outcome"] for attempt in dead["attempts"]]) == (4, ["lost"] * 4)
    (letter,) = DeadLetter.objects.all()
    assert (str(letter.run_id), letter.dead_reason) == (run, "losses_exhausted")
    causes = list(Attempt.objects.order_by("attempt").values_list("cause", flat=True))
    assert AuditEvent.objects.filter(action="run.lost").count() == len(causes) == 4
    assert AuditEvent.objects.get(action="run.buried").target_id == run
    if len(names) == 1:
        assert causes == ["takeover"] * 4
        assert Runner.objects.get().takeovers == 4
    assert not QueueEntry.objects.exists()
    assert not Slot.objects.exists()

    # Whoever comes now lives, and has work.
    async def finish(ctx):
        pass

    with running_sdk(lambda r: r.add_handler("sdk:harmless", finish), **runner_options(site, capabilities=["gpu"])):
        ends(api, trigger(api, "sdk:harmless"), "completed")
