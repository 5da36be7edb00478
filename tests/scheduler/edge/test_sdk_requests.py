"""Every request that the public SDK can send: each optional field there and not there, under both of its headers.

The requests are made by the SDK's own models and sent by its own clients; an SDK with a field more fails here first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from croniq_runner import RunnerOptions, TriggerClient, TriggerClientOptions
from croniq_runner._client import CroniqClient
from croniq_runner._protocol import (
    AckRequest,
    PollRequest,
    RegisterJobRequest,
    RenewRequest,
    TriggerRequest,
    WorkEvent,
)
from pydantic import BaseModel

from scheduler.models import Job, Run, RunLog
from tests.factories import JobFactory
from tests.support.server import LiveEdge, live_edge

pytestmark = pytest.mark.django_db(transaction=True)

HEADERS = ["api_key", "bearer_token"]
# Of each request: what it must have, and what it may have.
REQUESTS: dict[type[BaseModel], tuple[dict[str, Any], dict[str, Any]]] = {
    RegisterJobRequest: (
        {"job_key": "sdk:job", "schedule": "0 3 * * *"},
        {
            "timezone": "Europe/Vienna",
            "timeout": "90s",
            "runner_id": "sdk-1",
            "capabilities": ["gpu", "eu"],
            "description": "what it does – é💩",
        },
    ),
    TriggerRequest: (
        {"job_key": "sdk:work"},
        {
            "metadata": {"n": 1, "nested": {"list": [1.5, None, True, "é"]}, "__reserved": "dropped"},
            "require": ["gpu"],
            "prefer": ["eu"],
            "timeout": " 1.5m ",
            "idempotency_key": " key-1 ",
        },
    ),
    PollRequest: (
        {"runner_id": "sdk-1"},
        {"capabilities": ["gpu"], "max_inflight": 3, "inflight": [], "instance_id": "one", "tags": ["blue"]},
    ),
    AckRequest: (
        {"runner_id": "sdk-1", "execution_id": "", "status": "success", "attempt": 1},
        {"error": "what went wrong", "duration_ms": 1234},
    ),
    RenewRequest: ({"runner_id": "sdk-1", "execution_id": ""}, {}),
    WorkEvent: ({"message": "done"}, {"level": "warn", "fields": {"job_key": "sdk:work", "runner_id": "sdk-1"}}),
}


def variants(kind: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """Each set of optional fields, from none to all."""
    always, sometimes = REQUESTS[kind]
    for there in product([False, True], repeat=len(sometimes)):
        yield {
            **always,
            **{name: value for (name, value), is_there in zip(sometimes.items(), there, strict=True) if is_there},
        }


@pytest.mark.parametrize("kind", REQUESTS)
def test_these_are_the_fields_that_the_sdk_sends(kind):
    always, sometimes = REQUESTS[kind]
    assert set(kind.model_fields) == {*always, *sometimes}
    assert {name for name, field in kind.model_fields.items() if field.is_required()} == set(always)


def client_of(server: LiveEdge, header: str, key: str) -> CroniqClient:
    return CroniqClient(RunnerOptions(server_url=server.base_url, runner_id="sdk-1", **{header: key}))


@pytest.mark.parametrize("header", HEADERS)
def test_every_registration_is_taken(header):
    async def story(server, key):
        async with client_of(server, header, key) as client:
            return [await client.register_job(RegisterJobRequest(**fields)) for fields in variants(RegisterJobRequest)]

    with live_edge() as server:
        answers = asyncio.run(story(server, server.key("jobs:register")))
    job = Job.objects.get(job_key="sdk:job")
    assert {(answer.job_key, answer.status) for answer in answers} == {("sdk:job", "registered")}
    assert {answer.trigger_id for answer in answers} == {str(job.triggers.get().pk)}


@pytest.mark.parametrize("header", HEADERS)
def test_every_trigger_is_taken(header):
    job = JobFactory(job_key="sdk:work", max_queue_depth=1000)

    async def story(server, key):
        options = TriggerClientOptions(server_url=server.base_url, **{header: key})
        async with TriggerClient(options) as client:
            return [(fields, await client.trigger(**fields)) for fields in variants(TriggerRequest)]

    with live_edge() as server:
        answers = asyncio.run(story(server, server.key("jobs:trigger")))
    runs = {str(run.pk): run for run in Run.objects.filter(job=job)}
    keyed = {answer.execution_id for fields, answer in answers if "idempotency_key" in fields}
    assert len(keyed) == 1
    assert len(runs) == len(answers) / 2 + 1
    for fields, answer in answers:
        if "idempotency_key" not in fields:
            run = runs[answer.execution_id]
            expected = {name: value for name, value in fields.get("metadata", {}).items() if name != "__reserved"}
            assert (run.metadata or {}) == expected
            assert (run.require, run.prefer) == (fields.get("require"), fields.get("prefer"))
            assert run.timeout_seconds == (90 if "timeout" in fields else None)


@pytest.mark.parametrize("header", HEADERS)
def test_every_step_of_a_run_is_taken(header):
    job = JobFactory(job_key="sdk:work", max_queue_depth=1000)
    said = list(variants(WorkEvent))

    async def story(server, key):
        options = TriggerClientOptions(server_url=server.base_url, **{header: key})
        acks = [{**fields, "status": status} for fields in variants(AckRequest) for status in ("success", "failure")]
        async with client_of(server, header, key) as client, TriggerClient(options) as producer:
            for _ in acks:
                await producer.trigger("sdk:work", require=["gpu"])
            # Without capabilities it gets nothing, and waits for nothing at a capacity of none.
            for fields in variants(PollRequest):
                if "capabilities" not in fields:
                    request = PollRequest(**{**fields, "instance_id": "one", "max_inflight": 0})
                    assert (await client.poll(request, timeout_ms=5000)).work == []
            taken = await client.poll(
                PollRequest(
                    runner_id="sdk-1", instance_id="one", capabilities=["gpu"], max_inflight=len(acks), tags=["t"]
                ),
                timeout_ms=5000,
            )
            assert len(taken.work) == len(acks)
            listed = [work.execution_id for work in taken.work]
            for fields in variants(PollRequest):
                request = PollRequest(**{**fields, "instance_id": "one", "max_inflight": len(acks), "inflight": listed})
                again = await client.poll(request, timeout_ms=5000)
                assert (again.work, again.cancel) == ([], [])
            for work, ack in zip(taken.work, acks, strict=True):
                await client.renew(RenewRequest(runner_id="sdk-1", execution_id=work.execution_id))
                await client.push_events(work.execution_id, [WorkEvent(**fields) for fields in said])
                request = AckRequest(**{**ack, "execution_id": work.execution_id, "attempt": work.attempt})
                await client.ack(request)
                await client.ack(request)
            await client.push_events(listed[0], [])
            return dict(zip(listed, acks, strict=True))

    with live_edge() as server:
        ended = asyncio.run(
            story(server, server.key("work:poll", "work:ack", "work:renew", "work:events", "jobs:trigger"))
        )
    for run in Run.objects.filter(job=job):
        ack = ended[str(run.pk)]
        assert run.verdict == ("completed" if ack["status"] == "success" else None)
        lines = RunLog.objects.filter(run=run).order_by("id").values_list("level", "message", "fields")
        assert [(level, fields) for level, _, fields in lines] == [
            (fields.get("level", "info"), fields.get("fields", {})) for fields in said
        ]
