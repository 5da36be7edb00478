"""The SDK, the handler and the end of a runner, with the server's answers given by hand."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from croniq_runner import RunnerOwnershipDeniedError

from runners.agent.actions import ACTION_KEY
from runners.agent.agent import Agent, AgentSettings
from runners.agent.client import POLL_PATH
from runners.agent.command import Patience
from tests.runners.agent.helpers import is_running, until
from tests.runners.agent.local_http import serving
from tests.runners.agent.test_client import assignment
from tests.runners.agent.test_termination import STUBBORN

SETTINGS = AgentSettings(
    server_url="http://127.0.0.1:4000",
    api_key="croniq_k",
    runner_id="r",
    capabilities=("gpu",),
    patience=Patience(grace=0.2, idle=0.2, delivery=5.0),
)


class Server:
    """Hands out its assignments once, holds every further poll, and keeps what the runner says."""

    def __init__(self, *work: dict[str, Any]) -> None:
        self.work = list(work)
        self.acks: dict[str, dict[str, Any]] = {}
        self.lines: dict[str, list[str]] = {}
        self.order: list[str] = []
        self.cancel: list[str] = []
        self.is_holding = False
        self.last_poll: dict[str, Any] = {}
        self.wake = asyncio.Event()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(request.content)
        if path == POLL_PATH:
            self.last_poll = body
            work, self.work = self.work, []
            if not work and body["max_inflight"] > len(body["inflight"]):
                self.is_holding = True
                await self.wake.wait()
                self.is_holding = False
            return httpx.Response(200, json={"work": work, "cancel": self.cancel})
        if path == "/v1/work/ack":
            self.acks[body["execution_id"]] = body
        elif path.endswith("/events"):
            self.lines.setdefault(path.split("/")[-2], []).extend(event["message"] for event in body)
        self.order.append(path.rpartition("/")[2])
        return httpx.Response(200, json={})


def job(run: str, **action: Any) -> dict[str, Any]:
    return assignment(run, lease=60, metadata={ACTION_KEY: {"type": "command", **action}} if action else {})


def played(server: Server, story, settings: AgentSettings = SETTINGS) -> None:
    """Run an agent against `server` while `story(agent, its task)` goes on."""

    async def play() -> None:
        agent = Agent(settings, transport=httpx.MockTransport(server.answer))
        task = asyncio.create_task(agent.run())
        await story(agent, task)
        async with asyncio.timeout(10):
            await task

    asyncio.run(play())


def verdicts(server: Server) -> dict[str, tuple[str, str | None]]:
    return {run: (ack["status"], ack.get("error")) for run, ack in server.acks.items()}


def test_runs_are_executed_and_their_verdicts_and_lines_sent_before_the_ack() -> None:
    server = Server(
        job("ok", shell="echo $CRONIQ_JOB_KEY; seq 300"),
        job("bad", shell="echo why >&2; exit 3"),
        job("none"),
        job("missing", argv=["no-such-program"]),
    )

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        await until(lambda: len(server.acks) == 4, "four verdicts")
        agent.stop()

    played(server, story)
    found = verdicts(server)
    assert found["ok"] == ("success", None)
    assert found["bad"] == ("failure", "exit code 3")
    assert found["none"][0] == "failure"
    assert found["none"][1].startswith("job demo:a: the job has no action")
    assert found["missing"][1].startswith("job demo:a: command not found: 'no-such-program'")
    assert server.lines["ok"] == ["demo:a", *map(str, range(1, 301))]
    assert server.lines["bad"] == ["why"]


def test_it_says_that_it_executes_actions_and_has_no_handlers() -> None:
    server = Server()

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        await until(lambda: server.is_holding, "a poll is held")
        agent.stop()

    played(server, story)
    assert server.last_poll["capabilities"] == ["gpu", "croniq:command", "croniq:http", "croniq:command-only"]


def test_a_runner_of_requests_only_says_so_and_starts_no_command() -> None:
    server = Server(job("a", shell="echo no"))

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        await until(lambda: server.acks, "the verdict")
        agent.stop()

    played(server, story, replace(SETTINGS, http_only=True))
    assert server.last_poll["capabilities"] == ["gpu", "croniq:http", "croniq:command-only"]
    assert verdicts(server)["a"][1] == "job demo:a: this runner only executes HTTP requests (--http-only)"
    assert server.lines == {}


def test_a_request_is_executed_with_the_runs_identity_and_its_answer_is_the_log() -> None:
    with serving(lambda request, peer: peer.reply(b"hello\n", "404 x")) as web:
        server = Server(job("a", type="http", method="GET", url=web.url(), expected_status=[404]))
        server.work.append(job("b", type="http", method="GET", url=web.url()))

        async def story(agent: Agent, task: asyncio.Task[None]) -> None:
            await until(lambda: len(server.acks) == 2, "two verdicts")
            agent.stop()

        played(server, story)
        (of_a,) = (request for request in web.requests if request.headers["x-croniq-execution-id"] == "a")
    assert verdicts(server) == {"a": ("success", None), "b": ("failure", "answered 404 Not Found, expected 200-299")}
    assert server.lines["a"] == [f"GET {web.url()} answered 404 Not Found", "hello"]
    assert of_a.headers["idempotency-key"] == "a"
    assert of_a.headers["x-croniq-attempt"] == "1"
    assert of_a.headers["x-croniq-scheduled-for"].endswith("Z")


def test_a_held_poll_does_not_delay_the_drain_and_the_run_is_finished() -> None:
    server = Server(job("a", shell="echo here; sleep 0.4; echo done"))

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        await until(lambda: server.lines and server.is_holding, "the run goes on and a poll is held")
        agent.stop()

    played(server, story)
    assert verdicts(server) == {"a": ("success", None)}
    assert server.lines["a"] == ["here", "done"]
    assert server.order[-1] == "ack"


def test_a_drained_runner_says_in_a_last_poll_what_it_has_and_that_it_takes_no_more() -> None:
    """An answer that was on its way when the poll was cut off is lost; from this the server knows it at once."""
    server = Server(job("a", shell="echo here; sleep 0.4"))

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        await until(lambda: server.lines and server.is_holding, "the run goes on and a poll is held")
        agent.stop()

    played(server, story)
    assert (server.last_poll["inflight"], server.last_poll["max_inflight"]) == (["a"], 0)
    assert server.last_poll["instance_id"]


def test_a_second_signal_ends_the_runs_at_once_and_says_so() -> None:
    server = Server(job("a", shell=STUBBORN + "sleep 1000"))
    pids: list[int] = []

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        pids.extend(await until(lambda: [int(line) for line in server.lines.get("a", [])], "the run has begun"))
        agent.stop()
        agent.stop()

    played(server, story)
    assert verdicts(server) == {"a": ("failure", "stopped with the runner before it had ended")}
    assert not is_running(pids[0])


def test_a_cancel_of_the_server_ends_the_run() -> None:
    server = Server(job("a", shell="echo $$; sleep 1000"))

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        pid = int((await until(lambda: server.lines.get("a"), "the run has begun"))[0])
        server.cancel = ["a"]
        server.wake.set()
        await until(lambda: server.acks, "the ack")
        assert not is_running(pid)
        agent.stop()

    played(server, story)
    assert verdicts(server) == {"a": ("failure", "cancelled by server")}


def test_a_refusal_that_nothing_mends_ends_the_runner_with_its_reason() -> None:
    agent = Agent(SETTINGS, transport=httpx.MockTransport(lambda request: httpx.Response(403)))
    with pytest.raises(RunnerOwnershipDeniedError, match="does not own runner_id 'r'"):
        asyncio.run(agent.run())
