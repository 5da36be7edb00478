"""The unmodified public SDK against a real installation, on both databases."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from scheduler.models import Attempt, QueueEntry
from tests.e2e.installation import PATIENCE_SECONDS
from tests.e2e.sdk import running_sdk
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def runner_options(site, **more):
    return {"server_url": site.base_url, "api_key": site.key(), "runner_id": "sdk-1", **more}


def make_job(api, job_key, **fields):
    answer = api.post("/v1/jobs", json={"job_key": job_key, **fields})
    assert answer.status_code == 201, answer.text


def trigger(api, job_key, **fields):
    answer = api.post("/v1/trigger", json={"job_key": job_key, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["execution_id"]


def execution(api, execution_id):
    return api.get(f"/v1/executions/{execution_id}").json()


def ends(api, execution_id, state, deadline_s=PATIENCE_SECONDS):
    poll_until(
        lambda: execution(api, execution_id)["state"] == state, deadline_s, what=f"{execution_id} becomes {state}"
    )
    return execution(api, execution_id)


def instant(text):
    return datetime.fromisoformat(text)


def test_a_self_registered_job_of_two_seconds_runs_at_instants_exactly_two_seconds_apart_each_once(site, api):
    seen: list[datetime] = []
    enough = threading.Event()

    async def tick(ctx):
        seen.append(ctx.scheduled_for)
        if len(seen) >= 6:
            enough.set()

    with running_sdk(lambda r: r.add_handler("sdk:tick", tick, schedule="2s"), **runner_options(site)):
        assert enough.wait(PATIENCE_SECONDS)
    assert len(seen) == len(set(seen))
    gaps = {b - a for a, b in itertools.pairwise(sorted(seen))}
    assert gaps == {timedelta(seconds=2)}
    done = [e for e in api.get("/v1/executions?job_key=sdk:tick").json() if e["state"] == "completed"]
    assert {e["attempt"] for e in done} == {1}
    assert {instant(e["scheduled_for"]) for e in done} == set(seen)


def test_150_log_lines_inline_and_streamed_are_complete_and_in_order(site, api):
    async def talk(ctx):
        for n in range(50):
            await ctx.log(f"inline {n}")
        for n in range(100):
            await ctx.log_writer.write(f"streamed {n}", level="warn", fields={"n": str(n)})

    make_job(api, "sdk:talk")
    with running_sdk(lambda r: r.add_handler("sdk:talk", talk), **runner_options(site)):
        run = trigger(api, "sdk:talk")
        ends(api, run, "completed")
    lines = api.get(f"/v1/executions/{run}/logs").json()
    assert [line["message"] for line in lines] == [f"inline {n}" for n in range(50)] + [
        f"streamed {n}" for n in range(100)
    ]
    assert {line["level"] for line in lines} == {"info", "warn"}
    assert lines[-1]["fields"]["n"] == "99"
    assert lines[-1]["fields"]["job_key"] == "sdk:talk"


def test_a_failure_is_retried_and_at_last_dead_with_its_error_and_a_letter(site, api):
    attempts = []

    async def fail(ctx):
        attempts.append(ctx.attempt)
        raise RuntimeError(f"boom {ctx.attempt}")

    make_job(api, "sdk:fail", max_retries=2, retry={"strategy": "fixed", "base": "1s", "jitter": 0})
    with running_sdk(lambda r: r.add_handler("sdk:fail", fail), **runner_options(site)):
        run = trigger(api, "sdk:fail")
        dead = ends(api, run, "dead")
    assert attempts == [1, 2, 3]
    assert (dead["attempt"], dead["error"]) == (3, "boom 3")
    assert [(a["attempt"], a["error"]) for a in dead["attempts"]][:2] == [(1, "boom 1"), (2, "boom 2")]
    (letter,) = api.get("/v1/dead-letters?job_key=sdk:fail").json()
    assert (letter["execution_id"], letter["attempt"], letter["error"]) == (run, 3, "boom 3")


def test_a_cancel_reaches_a_running_handler_at_capacity_one(site, api):
    started, cancelled = threading.Event(), threading.Event()

    async def endless(ctx):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    make_job(api, "sdk:endless")
    with running_sdk(lambda r: r.add_handler("sdk:endless", endless), **runner_options(site, max_inflight=1)):
        run = trigger(api, "sdk:endless")
        assert started.wait(PATIENCE_SECONDS)
        answer = api.post(f"/v1/executions/{run}/cancel")
        assert (answer.status_code, answer.json()["delivered_via_runner"]) == (200, True)
        # Long before its lease or its timeout ends; how soon is measured by the benchmarks, not here.
        assert cancelled.wait(20)
        poll_until(lambda: not QueueEntry.objects.exists(), 20, what="the late ack takes the entry away")
    assert execution(api, run)["state"] == "cancelled"


def test_a_drain_finishes_and_acks_what_runs(site, api):
    started, release = threading.Event(), threading.Event()

    async def slow(ctx):
        started.set()
        while not release.is_set():
            await asyncio.sleep(0.02)

    make_job(api, "sdk:slow")
    with running_sdk(lambda r: r.add_handler("sdk:slow", slow), **runner_options(site)) as sdk:
        run = trigger(api, "sdk:slow")
        assert started.wait(PATIENCE_SECONDS)
        sdk.cancel()
        release.set()
        assert sdk.ended.result(PATIENCE_SECONDS) is None
    assert execution(api, run)["state"] == "completed"


KILLED = """
import asyncio, sys
from croniq_runner import Runner, RunnerOptions

async def hang(ctx):
    print("started", ctx.attempt, flush=True)
    await asyncio.Event().wait()

runner = Runner(RunnerOptions(server_url=sys.argv[1], api_key=sys.argv[2], runner_id="doomed", renew_interval_ms=1000))
runner.add_handler("sdk:rescue", hang)
asyncio.run(runner.run())
"""


def test_a_killed_runner_loses_its_run_to_another_within_a_lease_and_a_sweep(site, api, tmp_path):
    make_job(api, "sdk:rescue", lease=5)
    script = tmp_path / "doomed.py"
    script.write_text(KILLED)
    doomed = site.start(sys.executable, str(script), site.base_url, site.key())
    run = trigger(api, "sdk:rescue")
    poll_until(lambda: "started 1" in site.log_of(doomed), PATIENCE_SECONDS, what="the doomed runner starts the run")
    # It renews for longer than one lease: the lease is kept alive by it, and by nothing else.
    alive = threading.Event()
    alive.wait(7)
    assert (execution(api, run)["state"], execution(api, run)["attempt"]) == ("claimed", 1)
    attempts = []

    async def finish(ctx):
        attempts.append(ctx.attempt)

    with running_sdk(lambda r: r.add_handler("sdk:rescue", finish), **runner_options(site, runner_id="rescuer")):
        site.stop(doomed, signal.SIGKILL)
        # One lease, one sweep of the reaper (at most 5 s), and room for a slow machine; no default lease of sixty.
        done = ends(api, run, "completed", 45)
    assert Attempt.objects.get().cause == "lease"
    assert attempts == [2]
    assert done["runner_id"] == "rescuer"
    lost = done["attempts"][0]
    assert (lost["attempt"], lost["outcome"], lost["runner_id"]) == (1, "lost", "doomed")


def test_an_ack_of_a_wrong_attempt_is_409_and_the_same_ack_twice_is_200(site, api):
    make_job(api, "sdk:ack")
    run = trigger(api, "sdk:ack")
    work = api.post("/v1/work/poll", json={"runner_id": "by-hand", "instance_id": "i1"}).json()["work"]
    assert [w["execution_id"] for w in work] == [run]
    ack = {"runner_id": "by-hand", "execution_id": run, "status": "success", "attempt": 1}
    wrong = api.post("/v1/work/ack", json={**ack, "attempt": 2})
    assert (wrong.status_code, wrong.json()["error"]) == (409, "stale_claim")
    assert [api.post("/v1/work/ack", json=ack).status_code for _ in range(2)] == [200, 200]
    other = api.post("/v1/work/ack", json={**ack, "status": "failure"})
    assert (other.status_code, other.json()["error"]) == (409, "stale_claim")
    assert execution(api, run)["state"] == "completed"


def test_the_sdk_itself_is_the_published_one():
    import importlib.metadata

    assert importlib.metadata.version("croniq-runner") == "0.8.0"
    assert "croniq_runner" in str(Path(sys.modules["croniq_runner"].__file__).parent)
