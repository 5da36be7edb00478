"""Each answer of the server names its request: of the edge, of Django under it, of a refused body, of Django alone."""

from __future__ import annotations

import httpx
import pytest
from django.test import Client

from runners.models import AuditEvent
from tests.factories import RunnerFactory
from tests.scheduler.edge.helpers import FakeRunner, due_run
from tests.support.server import live_edge


def ids_of(answer: httpx.Response) -> list[str]:
    return answer.headers.get_list("X-Request-ID")


@pytest.mark.django_db(transaction=True)
def test_the_answer_carries_the_id_once_and_the_audit_has_it():
    RunnerFactory(runner_id="taken")
    with live_edge() as server:
        for path in ("/v1/work/poll", "/v1/work/nothing", "/version", "/v1/nothing"):
            said = server.http.get(path, headers={"X-Request-ID": "mine-1"})
            assert ids_of(said) == ["mine-1"], path
            (fresh,) = ids_of(server.http.get(path, headers={"X-Request-ID": "a b"}))
            assert len(fresh) == 32
        refused = FakeRunner(server, server.key(), "taken").poll()
        assert refused.status_code == 403
        event = AuditEvent.objects.get(action="runner.identity_rejected")
        assert [event.request_id] == ids_of(refused)


@pytest.mark.django_db
def test_django_alone_answers_with_an_id_too():
    assert Client().get("/version", headers={"X-Request-ID": "mine-2"}).headers["X-Request-ID"] == "mine-2"
    assert len(Client().get("/version", headers={"X-Request-ID": "a b"}).headers["X-Request-ID"]) == 32


@pytest.mark.django_db(transaction=True)
def test_what_a_claim_does_for_all_that_wait_is_no_requests_own():
    used_up = due_run(attempt=4)
    with live_edge(hold_seconds=1) as server:
        runner = FakeRunner(server, server.key())
        assert runner.work() == []
    event = AuditEvent.objects.get(action="run.buried")
    assert (event.target_id, event.request_id) == (str(used_up.run_id), "")
