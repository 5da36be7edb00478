"""The client that reads leases: what it takes from an answer and what it does to the SDK's interval."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

import httpx
import pytest
from croniq_runner import RunnerOptions, WorkEvent
from croniq_runner._protocol import AckRequest, PollRequest

from runners.agent import client as client_module
from runners.agent.client import AgentClient
from runners.management.commands.runner import _without_traceback_of_the_network


def assignment(run: str, **changes: Any) -> dict[str, Any]:
    return {
        "execution_id": run,
        "job_key": "demo:a",
        "fire_at": "2026-03-02T12:00:00.000000Z",
        "scheduled_for": "2026-03-02T12:00:00.000000Z",
        "attempt": 1,
        "metadata": {},
        "timeout": "300s",
    } | changes


def polled(*answers: Any, inflight: tuple[list[str], ...] = ()) -> list[int]:
    """Poll once for each answer, listing what `inflight` says, and return the renewal interval after each, in ms."""
    queue = list(answers)
    options = RunnerOptions(api_key="croniq_k")
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=queue.pop(0)))

    async def story() -> list[int]:
        client = AgentClient(options, transport=transport)
        intervals = []
        for number in range(len(answers)):
            listed = inflight[number] if number < len(inflight) else []
            await client.poll(PollRequest(runner_id="r", inflight=listed), timeout_ms=1000)
            intervals.append(options.renew_interval_ms)
        await client.own_http.aclose()
        return intervals

    return asyncio.run(story())


def test_it_renews_every_third_of_the_shortest_lease() -> None:
    work = [assignment("a", lease=60), assignment("b", lease=6), assignment("c", lease=30.0)]
    assert polled({"work": work, "cancel": []}) == [2000]


def test_never_more_often_than_every_second() -> None:
    assert polled({"work": [assignment("a", lease=1)], "cancel": []}) == [1000]


def test_without_a_lease_the_interval_is_the_sdks() -> None:
    assert polled({"work": [assignment("a")], "cancel": []}) == [15_000]


def test_a_lease_counts_while_its_run_is_held() -> None:
    """The second answer brings another run while the first is still listed; the third comes when it is not any more."""
    answers = [
        {"work": [assignment(run, lease=lease)], "cancel": []} for run, lease in (("a", 6), ("b", 60), ("c", 90))
    ]
    assert polled(*answers, inflight=([], ["a"], ["b"])) == [2000, 2000, 20_000]


@pytest.mark.parametrize("lease", [None, "60", 0, -1, {}])
def test_a_lease_that_is_none_is_ignored(lease: object) -> None:
    assert polled({"work": [assignment("a", lease=lease)], "cancel": []}) == [15_000]


def test_the_work_reaches_the_sdk_as_it_came() -> None:
    answer = {"work": [assignment("a", lease=60, metadata={"x": 1})], "cancel": ["b"]}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))

    async def story() -> Any:
        client = AgentClient(RunnerOptions(api_key="croniq_k"), transport=transport)
        response = await client.poll(PollRequest(runner_id="r"), timeout_ms=1000)
        assert not client.is_polling
        await client.own_http.aclose()
        return response

    response = asyncio.run(story())
    assert [(work.execution_id, work.metadata) for work in response.work] == [("a", {"x": 1})]
    assert response.cancel == ["b"]


def pushed(monkeypatch: pytest.MonkeyPatch, *outcomes: int | type[httpx.TransportError]) -> list[list[str]]:
    """Send one line while the server answers as told, and return what it received."""
    monkeypatch.setattr(client_module, "_EVENT_RETRY_SECONDS", (0.0, 0.0, 0.0))
    queue, received = list(outcomes), []

    def answer(request: httpx.Request) -> httpx.Response:
        outcome = queue.pop(0)
        if not isinstance(outcome, int):
            raise outcome("refused")
        received.append([event["message"] for event in json.loads(request.content)])
        return httpx.Response(outcome, json={})

    async def story() -> None:
        client = AgentClient(RunnerOptions(api_key="croniq_k"), transport=httpx.MockTransport(answer))
        try:
            await client.push_events("e", [WorkEvent(message="line")])
        finally:
            await client.own_http.aclose()

    asyncio.run(story())
    return received


def test_lines_wait_for_a_server_that_is_restarting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pushed(monkeypatch, httpx.ConnectError, 503, 200) == [["line"], ["line"]]


@pytest.mark.parametrize("outcome", [500, 403, httpx.ReadTimeout])
def test_lines_that_may_have_arrived_or_are_refused_are_not_sent_again(
    monkeypatch: pytest.MonkeyPatch, outcome: int | type[httpx.TransportError]
) -> None:
    with pytest.raises(httpx.HTTPError):
        pushed(monkeypatch, outcome)


def acked(
    monkeypatch: pytest.MonkeyPatch, *outcomes: int | type[httpx.TransportError], patience: float = 60
) -> list[object]:
    """Say how a run ended while the server answers as told, and return how often it was asked."""
    monkeypatch.setattr(client_module, "_ACK_RETRY_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(client_module, "_ACK_PATIENCE_SECONDS", patience)
    queue: list[Any] = list(outcomes)
    asked: list[object] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["attempt"])
        outcome = queue.pop(0)
        if not isinstance(outcome, int):
            raise outcome("refused")
        return httpx.Response(outcome, json={})

    async def story() -> None:
        client = AgentClient(RunnerOptions(api_key="croniq_k"), transport=httpx.MockTransport(answer))
        try:
            await client.ack(AckRequest(runner_id="r", execution_id="e", status="success", attempt=2))
        except httpx.HTTPError as error:
            asked.append(type(error).__name__)
        finally:
            await client.own_http.aclose()

    asyncio.run(story())
    return asked


def test_a_result_waits_for_a_server_that_is_restarting(monkeypatch: pytest.MonkeyPatch) -> None:
    outages = [httpx.ConnectError, 503, httpx.ReadTimeout, httpx.RemoteProtocolError, 503]
    assert acked(monkeypatch, *outages, 200) == [2] * 6


@pytest.mark.parametrize("status", [400, 403, 404, 409, 500])
def test_a_result_that_was_refused_is_not_said_again(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    assert acked(monkeypatch, status, 200) == [2, "HTTPStatusError"]


@pytest.mark.parametrize(("outage", "name"), [(503, "HTTPStatusError"), (httpx.ConnectError, "ConnectError")])
def test_the_patience_for_a_result_ends(monkeypatch: pytest.MonkeyPatch, outage: object, name: str) -> None:
    assert acked(monkeypatch, outage, 200, patience=-1) == [2, name]


def test_a_server_that_is_away_is_one_line_and_a_handlers_error_keeps_its_traceback() -> None:
    def line_of(error: Exception) -> str:
        try:
            raise error
        except Exception:
            record = logging.LogRecord("n", logging.ERROR, "p", 1, "failed %d/3", (3,), sys.exc_info())
        assert _without_traceback_of_the_network(record)
        return logging.Formatter("%(message)s").format(record)

    assert line_of(httpx.ConnectError("refused 100%s")) == "failed 3/3 (ConnectError: refused 100%s)"
    assert line_of(httpx.ReadTimeout("")) == "failed 3/3 (ReadTimeout)"
    assert "Traceback" in line_of(ValueError("mine"))
