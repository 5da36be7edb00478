"""The spans of what a runner executes are below those of the server, also in the command and at the other end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import httpx
import pytest
from croniq_runner import RunnerOptions

from croniq_site.kernel import tracing
from croniq_site.kernel.tracing import place_of
from runners.agent import handler
from runners.agent.actions import ACTION_KEY
from runners.agent.client import POLL_PATH, AgentClient
from runners.agent.handler import ActionHandler
from runners.agent.sdk_spans import Provider
from tests.runners.agent.helpers import PATH, RecordingWriter
from tests.support.collector import recorded_spans

SERVER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
RUN_ID = "019cae6b-6600-7249-9a86-31c6f0d37c1f"


def sdk_tracer(said):
    return Provider(tracing.active.provider, said.get).get_tracer("croniq-runner")


def test_the_sdks_span_is_below_what_the_assignment_says_and_is_its_own_where_it_says_nothing():
    with recorded_spans() as spans:
        tracer = sdk_tracer({RUN_ID: SERVER})
        for run_id in (RUN_ID, "another"):
            with tracer.start_as_current_span("croniq.execute", attributes={"croniq.execution_id": run_id}):
                assert tracing.current() is not None
        below, alone = spans.named("croniq.execute")
    place = place_of(SERVER)
    assert (below.context.trace_id, below.parent.span_id) == (place.trace_id, place.span_id)
    assert alone.parent is None
    assert alone.context.trace_id != place.trace_id


def test_a_failure_of_the_handler_is_the_spans():
    with recorded_spans() as spans:
        with pytest.raises(ValueError), sdk_tracer({}).start_as_current_span("croniq.execute"):
            raise ValueError("no")
        assert spans.one("croniq.execute").status.description == "ValueError: no"


def told_of_its_trace(said: str | None) -> str:
    """Execute a command that prints its TRACEPARENT, and return the line."""
    writer = RecordingWriter()
    action = {"type": "command", "shell": "echo ${TRACEPARENT-none}"}
    ctx = SimpleNamespace(
        execution_id=RUN_ID,
        job_key="demo:a",
        attempt=1,
        scheduled_for=None,
        metadata={ACTION_KEY: action},
        log_writer=writer,
        timeout=timedelta(seconds=20),
    )
    runs = ActionHandler(environ=PATH, traceparent_of=lambda run_id: said if run_id == RUN_ID else None)

    async def story() -> None:
        if tracing.active is None:
            await runs.handle(ctx)
        else:
            with tracing.live("croniq.execute"):
                await runs.handle(ctx)

    asyncio.run(story())
    (line,) = writer.of("stdout")
    return line


def test_a_command_is_told_the_servers_span_or_the_runners_or_none():
    assert told_of_its_trace(None) == "none"
    assert told_of_its_trace(SERVER) == SERVER
    with recorded_spans() as spans:
        line = told_of_its_trace(SERVER)
        context = spans.one("croniq.execute").context
    assert place_of(line) == tracing.Place(context.trace_id, context.span_id, True)


def test_so_is_the_receiver_of_an_http_job(monkeypatch):
    sent = []

    async def run_request(action, *, identity, **rest):
        sent.append(identity)

    monkeypatch.setattr(handler, "run_request", run_request)
    ctx = SimpleNamespace(
        execution_id=RUN_ID,
        job_key="demo:a",
        attempt=1,
        scheduled_for=None,
        metadata={ACTION_KEY: {"type": "http", "method": "GET", "url": "https://example.org/"}},
        log_writer=RecordingWriter(),
        timeout=timedelta(seconds=20),
    )
    for said in (SERVER, None):
        asyncio.run(ActionHandler(environ=PATH, traceparent_of=lambda run_id, said=said: said).handle(ctx))
    assert [identity.get("traceparent") for identity in sent] == [SERVER, None]


def test_the_client_keeps_what_assignments_say_for_as_long_as_they_run():
    work = [
        {
            "execution_id": run_id,
            "job_key": "demo:a",
            "fire_at": "2026-03-02T12:00:00.000000Z",
            "attempt": 1,
            "timeout": "300s",
            "lease": 60,
            "traceparent": said,
        }
        for run_id, said in ((RUN_ID, SERVER), ("odd", "nonsense"), ("none", None))
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == POLL_PATH
        return httpx.Response(200, json={"work": work, "cancel": []})

    async def story() -> None:
        nonlocal work
        options = RunnerOptions(server_url="http://127.0.0.1:1", api_key="k", runner_id="r1")
        client = AgentClient(options, transport=httpx.MockTransport(answer))
        from croniq_runner._protocol import PollRequest

        def poll(*inflight: str) -> PollRequest:
            return PollRequest(runner_id="r1", capabilities=[], max_inflight=5, inflight=list(inflight))

        await client.poll(poll(), timeout_ms=1000)
        assert client.traceparents == {RUN_ID: SERVER}
        work = []
        await client.poll(poll(RUN_ID), timeout_ms=1000)
        assert client.traceparents == {RUN_ID: SERVER}
        await client.poll(poll(), timeout_ms=1000)
        assert client.traceparents == {}
        await client.own_http.aclose()

    asyncio.run(story())
