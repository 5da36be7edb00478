"""What a runner's key of one tenant learns of the runs of another."""

from __future__ import annotations

import pytest

from runners.models import AuditEvent
from tests.factories import JobFactory, LaneFactory
from tests.scheduler.edge.helpers import FakeRunner, due_run
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)

UNKNOWN = "0197a000-0000-7000-8000-000000000001"
WORDS = {
    "events": lambda runner, run_id: runner.say(run_id, {"message": "m"}),
    "events-named": lambda runner, run_id: runner.say(run_id, {"message": "m", "fields": {"runner_id": "my-runner"}}),
    "ack": lambda runner, run_id: runner.ack(run_id),
    "renew": lambda runner, run_id: runner.renew(run_id),
}


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "waiting"])
@pytest.mark.parametrize("say", WORDS.values(), ids=WORDS)
def test_another_tenants_run_is_as_unknown_as_one_that_never_was(say, is_held):
    entry = due_run(job=JobFactory(tenant="theirs", lane=LaneFactory(tenant="theirs")))
    with live_edge() as server:
        owner = FakeRunner(server, server.key(tenant="theirs"), "secret-runner")
        stranger = FakeRunner(server, server.key(tenant="mine"), "my-runner")
        assert len(owner.work()) == 1
        if not is_held:
            assert owner.ack(entry.run_id, "failure").status_code == 200
        stranger.poll(max_inflight=0)
        answer, unknown = say(stranger, entry.run_id), say(stranger, UNKNOWN)
        assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
        assert answer.text.replace(str(entry.run_id), UNKNOWN) == unknown.text
        assert not AuditEvent.objects.filter(action__in=("run.late_word", "runner.identity_rejected")).exists()


@pytest.mark.parametrize("say", [WORDS["events-named"], WORDS["ack"], WORDS["renew"]])
def test_a_run_of_the_same_tenant_is_late_and_noted(say):
    entry = due_run(job=JobFactory(tenant="mine", lane=LaneFactory(tenant="mine")))
    with live_edge() as server:
        assert len(FakeRunner(server, server.key(tenant="mine"), "other-runner").work()) == 1
        runner = FakeRunner(server, server.key(tenant="mine"), "my-runner")
        runner.poll(max_inflight=0)
        assert say(runner, entry.run_id).status_code == 409
        assert AuditEvent.objects.get(action="run.late_word").tenant == "mine"


def test_a_runner_of_a_tenant_is_given_its_tenants_work_alone():
    theirs = due_run(job=JobFactory(tenant="theirs", lane=LaneFactory(tenant="theirs")))
    mine = due_run(job=JobFactory(tenant="mine", lane=LaneFactory(tenant="mine")))
    with live_edge(hold_seconds=0.1) as server:
        own = FakeRunner(server, server.key(tenant="mine"), "own").work()
        assert [given["execution_id"] for given in own] == [str(mine.run_id)]
        everybodys = FakeRunner(server, server.key(), "everybodys").work()
        assert [given["execution_id"] for given in everybodys] == [str(theirs.run_id)]
