"""/v1/work/… through the ASGI edge and through Django: the same requests, the same answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from runners.domain.scopes import RUNNER_SCOPES
from runners.services.audit import SYSTEM
from runners.services.clients import create_client, issue_key
from scheduler.models import QueueEntry, Run, RunLog
from scheduler.services.cancel import cancel_runs
from tests.factories import NOW, QueueEntryFactory
from tests.scheduler.edge.helpers import database_now
from tests.support.polling import poll_until
from tests.support.races import in_thread
from tests.support.server import live_edge

NOBODYS = "0197a000-0000-7000-8000-000000000001"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

Send = Callable[[str, str, bytes, str], tuple[int, str, str]]
"""(method, path, body, key) → status, text, the challenge of a 401 or the methods of a 405."""


class Door:
    """One way in, with things of its own that have the same names behind each door."""

    send: Send

    def __init__(self, name: str) -> None:
        self.name = name
        now = database_now()
        self.keys = {
            "owner": issue_key(create_client(f"owner-{name}", RUNNER_SCOPES, now, tenant=name), now),
            "other": issue_key(create_client(f"other-{name}", RUNNER_SCOPES, now, tenant=name), now),
            "reader": issue_key(create_client(f"reader-{name}", ["jobs:read"], now), now),
            "unknown": "croniq_unknown",
            "": "",
        }
        entries = [
            QueueEntryFactory(
                job__job_key=f"{name}:job-{number}",
                job__tenant=name,
                job__lane__tenant=name,
                job__max_retries=0,
                available_at=NOW + timedelta(seconds=number),
            )
            for number in range(3)
        ]
        self.entries = entries
        self.transcript: list[tuple[str, int, Any, str]] = []
        self._names = {str(entry.run_id): f"run-{number}" for number, entry in enumerate(entries)}

    def run(self, number: int) -> str:
        return str(self.entries[number].run_id)

    def ask(self, path: str, body: Any = None, key: str = "owner", method: str = "POST") -> Any:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, text, header = self.send(method, path, raw, self.keys[key])
        for run_id, name in self._names.items():
            text, path = text.replace(run_id, name), path.replace(run_id, name)
        text = INSTANT.sub("INSTANT", text).replace(f"{self.name}:", "").replace(f"-{self.name}", "")
        text = text.replace(f"{self.name}-r1", "r1")
        self.transcript.append((f"{len(self.transcript)} {method} {path}", status, json.loads(text), header))
        return json.loads(text)

    def poll(self, inflight: list[str], *, key: str = "owner", **more: Any) -> Any:
        body = {"runner_id": f"{self.name}-r1", "instance_id": "i1", "max_inflight": 2, "inflight": inflight}
        return self.ask("/v1/work/poll", body | more, key)

    def ack(self, number: int, status: str = "success", *, key: str = "owner", **more: Any) -> Any:
        body = {"runner_id": f"{self.name}-r1", "execution_id": self.run(number), "status": status, "attempt": 1}
        return self.ask("/v1/work/ack", body | more, key)

    def renew(self, run_id: str, key: str = "owner") -> Any:
        return self.ask("/v1/work/renew", {"runner_id": f"{self.name}-r1", "execution_id": run_id}, key)


def play(door: Door) -> list[tuple[int, Any, str]]:
    """A runner's life, with everything that it can do wrong."""
    for path in ("poll", "ack", "renew", f"{door.run(0)}/events"):
        for key in ("", "unknown", "reader"):
            door.ask(f"/v1/work/{path}", {}, key)
        for body in (
            b"",
            b"{",
            b"[]",
            b"[1]",
            b"5",
            b"{}",
            b'{"runner_id": "\\u0000"}',
            b'{"a": NaN}',
            b"\xff",
            b"[{}]",
        ):
            door.ask(f"/v1/work/{path}", body)
        for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
            door.ask(f"/v1/work/{path}", {}, method=method)
    for path in ("nothing", "poll/", f"{door.run(0)}/nothing", f"{door.run(0)}/events/x"):
        door.ask(f"/v1/work/{path}", {})
    door.poll([], max_inflight="many")
    door.poll([], capabilities=[5])
    assert len(door.poll([])["work"]) == 2
    door.poll([door.run(0), door.run(1), NOBODYS, "nonsense"], max_inflight=0)
    door.poll([door.run(0), door.run(1)])
    door.poll([], key="other")
    for run_id in (door.run(0), door.run(2), NOBODYS, "nonsense"):
        door.renew(run_id)
    door.renew(door.run(0), "other")
    line = {"level": "info", "message": "a\x00b", "fields": {"runner_id": f"{door.name}-r1"}}
    door.ask(f"/v1/work/{door.run(0)}/events", [line, {"message": "x" * 70_000}])
    door.ask(f"/v1/work/{door.run(0)}/events", [line] * 101)
    door.ask(f"/v1/work/{door.run(0)}/events", [line], "other")
    door.ask(f"/v1/work/{door.run(2)}/events", [{"message": "not claimed"}])
    door.ask(f"/v1/work/{NOBODYS}/events", [{"message": "no such"}])
    door.ask("/v1/work/nonsense/events", [{"message": "no such"}])
    door.ack(0, key="other")
    door.ack(0, attempt=2)
    door.ack(0, "perhaps")
    door.ack(0)
    door.ack(0)
    door.ack(0, "failure")
    door.ack(2)
    door.ask("/v1/work/ack", {"runner_id": "r", "execution_id": NOBODYS, "status": "success", "attempt": 1})
    acks = [
        {"runner_id": f"{door.name}-r1", "execution_id": run_id, "status": "success", "attempt": 1}
        for run_id in (door.run(0), NOBODYS)
    ]
    door.ask("/v1/work/ack", acks)
    door.ask("/v1/work/ack", acks, "other")
    door.ask("/v1/work/ack", [*acks, 7])
    cancel_runs([door.entries[1].run_id], database_now(), SYSTEM)
    assert door.poll([door.run(1)])["cancel"] == ["run-1"]
    door.ack(1, "failure", error="x\x00" * 50_000)
    assert len(door.poll([])["work"]) == 1
    door.poll([], instance_id="i2", max_inflight=0)
    door.poll([], instance_id="i1")
    door.ack(2)
    return door.transcript


@pytest.mark.django_db(transaction=True)
def test_both_doors_give_the_same_answers():
    # Before the server starts: it reads the lanes once, and nobody tells it of these.
    edge_door, django_door = Door("edge"), Door("django")
    with live_edge(hold_seconds=0.3) as server:

        def through_the_edge(method: str, path: str, body: bytes, key: str) -> tuple[int, str, str]:
            headers = {"authorization": f"ApiKey {key}"} if key else {}
            answer = server.http.request(method, path, content=body, headers=headers)
            header = answer.headers.get("www-authenticate", "") or answer.headers.get("allow", "")
            return answer.status_code, answer.text, header

        def through_django(method: str, path: str, body: bytes, key: str) -> tuple[int, str, str]:
            headers = {"HTTP_AUTHORIZATION": f"ApiKey {key}"} if key else {}
            # The edge does not look at the type of a body.
            answer = APIClient().generic(method, path, body, content_type="text/plain", **headers)
            header = answer.get("WWW-Authenticate", "") or (
                answer.get("Allow", "") if answer.status_code == 405 else ""
            )
            return answer.status_code, answer.content.decode(), header

        edge_door.send, django_door.send = through_the_edge, through_django
        edge, django = play(edge_door), play(django_door)
    assert len(edge) > 80
    assert {status for _, status, _, _ in edge} == {200, 400, 401, 403, 404, 405, 409}
    for one, other in zip(edge, django, strict=True):
        assert one == other
    assert RunLog.objects.filter(run__job__tenant="edge").count() == 2
    for column in ("message", "level", "attempt"):
        edge_lines, django_lines = (
            list(RunLog.objects.filter(run__job__tenant=name).order_by("id").values_list(column, flat=True))
            for name in ("edge", "django")
        )
        assert edge_lines == django_lines
    verdicts = [
        list(Run.objects.filter(job__tenant=name).order_by("job__job_key").values_list("verdict", "attempt", "error"))
        for name in ("edge", "django")
    ]
    assert verdicts[0] == verdicts[1]


@pytest.mark.django_db(transaction=True)
def test_a_poll_through_django_waits_a_moment_and_hears_of_new_work(settings):
    settings.CRONIQ_POLL_HOLD_SECONDS = 30
    client = APIClient()
    now = database_now()
    client.credentials(HTTP_AUTHORIZATION=f"ApiKey {issue_key(create_client('a runner', RUNNER_SCOPES, now), now)}")
    producer = APIClient()
    producer.credentials(
        HTTP_AUTHORIZATION=f"ApiKey {issue_key(create_client('a producer', ['jobs:trigger'], now), now)}"
    )
    first = QueueEntryFactory(job__job_key="a:b")
    poll = {"runner_id": "r1", "instance_id": "i1"}
    (work,) = client.post("/v1/work/poll", poll, format="json").json()["work"]
    assert work["execution_id"] == str(first.run_id)
    client.post(
        "/v1/work/ack",
        {"runner_id": "r1", "execution_id": str(first.run_id), "status": "success", "attempt": 1},
        format="json",
    )
    answer = in_thread(client.post, "/v1/work/poll", poll, format="json")
    poll_until(lambda: _is_listening(), what="the poll waits")
    triggered = producer.post("/v1/trigger", {"job_key": "a:b"}, format="json").json()
    (work,) = answer.result(10).json()["work"]
    assert work["execution_id"] == triggered["execution_id"]
    assert QueueEntry.objects.get(pk=work["execution_id"]).state == QueueEntry.State.CLAIMED


def _is_listening() -> bool:
    from scheduler.services import wake

    return bool(wake._subscribers)
