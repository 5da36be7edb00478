"""/v1/executions/{id}/explain: why a run has not started."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from croniq_site.kernel.capabilities import COMMAND, COMMAND_ONLY, HTTP
from runners.models import Runner
from scheduler.models import QueueEntry
from scheduler.queries import explain as explaining
from scheduler.services.admit import admit
from tests.factories import (
    ApiClientFactory,
    ConcurrencyGroupFactory,
    JobFactory,
    LaneFactory,
    MaintenanceFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerFactory,
    RunnerInstanceFactory,
)

State = QueueEntry.State


@pytest.fixture
def explained(api):
    client = api("executions:read")

    def ask(entry: QueueEntry) -> dict:
        answer = client.get(f"/v1/executions/{entry.pk}/explain")
        assert answer.status_code == 200, answer.content
        return answer.json()

    return ask


def codes(body: dict) -> list[str]:
    return [reason["code"] for reason in body["reasons"]]


@pytest.fixture
def runner(db, now):
    return RunnerFactory(last_poll_at=now, capabilities=["gpu"])


def test_a_due_run_that_a_runner_may_have_has_nothing_in_its_way(explained, runner, now):
    body = explained(QueueEntryFactory(available_at=now))
    assert (body["state"], body["reasons"], body["ahead"]) == ("queued", [], 0)


def test_what_has_started_or_ended_needs_no_reason(api, explained, runner):
    entry = QueueEntryFactory(claimed=True)
    assert explained(entry) == {"execution_id": str(entry.pk), "state": "claimed", "ahead": None, "reasons": []}
    run = RunFactory(completed=True)
    assert api().get(f"/v1/executions/{run.pk}/explain").json()["state"] == "completed"


def test_a_paused_job_with_its_reason_and_end(explained, runner, now):
    until = now + timedelta(hours=2)
    job = JobFactory(paused_at=now, paused_until=until, paused_reason="the disk is full")
    body = explained(QueueEntryFactory(job=job, state=State.HELD, available_at=now))
    (reason,) = body["reasons"]
    assert (reason["code"], reason["until"]) == ("paused", "2026-03-02T14:00:00.000000Z")
    assert "the disk is full" in reason["message"]
    assert body["ahead"] is None


def test_maintenance_holds_whatever_is_due(explained, runner, now):
    MaintenanceFactory(is_on=True, began_at=now, reason="moving house", until=now + timedelta(hours=1))
    body = explained(QueueEntryFactory(available_at=now))
    assert codes(body) == ["maintenance"]
    assert "moving house" in body["reasons"][0]["message"]
    assert body["reasons"][0]["until"] == "2026-03-02T13:00:00.000000Z"


@pytest.mark.parametrize(("attempt", "code"), [(0, "not_due"), (2, "backing_off")])
@pytest.mark.parametrize("state", [State.READY, State.GATED])
def test_a_run_whose_time_has_not_come(explained, runner, now, attempt, code, state):
    entry = QueueEntryFactory(available_at=now + timedelta(minutes=5), attempt=attempt, max_attempts=4, state=state)
    body = explained(entry)
    assert codes(body) == [code]
    assert body["reasons"][0]["until"] == "2026-03-02T12:05:00.000000Z"


def test_a_limit_names_the_runs_that_have_its_slots(explained, runner, now, settings):
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 2
    group = ConcurrencyGroupFactory(max_concurrent=1, name="database")
    job = JobFactory(concurrency_group=group, max_concurrent=1)
    first, second = (
        QueueEntryFactory(job=job, state=State.GATED, available_at=now - timedelta(seconds=age)) for age in (2, 1)
    )
    assert admit(now) == 1
    body = explained(second)
    assert codes(body) == ["job_limit", "group_limit"]
    assert [reason["execution_ids"] for reason in body["reasons"]] == [[str(first.pk)]] * 2
    assert "database" in body["reasons"][1]["message"]
    QueueEntryFactory(job=JobFactory(), state=State.GATED, available_at=now)
    assert admit(now) == 1
    assert codes(explained(second)) == ["job_limit", "group_limit", "tenant_limit"]


def test_a_capability_that_no_runner_has_is_named_with_the_pin(explained, runner, now):
    lane = LaneFactory(require=["gpu", "tape", "runner:absent"])
    entry = QueueEntryFactory(lane=lane, available_at=now)
    (reason,) = explained(entry)["reasons"]
    assert (reason["code"], reason["capabilities"]) == ("lacking_capability", ["tape", "runner:absent"])
    absent = RunnerFactory(runner_id="absent", last_poll_at=now, capabilities=["tape"])
    # Each is had, and no one has them all.
    (reason,) = explained(entry)["reasons"]
    assert (reason["code"], reason["message"]) == (
        "no_taker",
        "No one runner that is online has all of gpu, runner:absent, tape.",
    )
    Runner.objects.filter(pk=absent.pk).update(capabilities=["tape", "gpu"])
    assert codes(explained(entry)) == []


@pytest.mark.parametrize(
    ("prefer", "has", "code"),
    [
        ([], [COMMAND, COMMAND_ONLY], "no_handler"),
        ([HTTP], [COMMAND, COMMAND_ONLY], "no_taker"),
        ([COMMAND], [HTTP, COMMAND_ONLY], "no_taker"),
        ([COMMAND], [COMMAND, COMMAND_ONLY], None),
        ([COMMAND], [COMMAND_ONLY], None),
        ([COMMAND], [], None),
        ([], [], None),
    ],
)
def test_a_run_that_nobody_who_is_there_can_execute_says_so(explained, now, prefer, has, code):
    RunnerFactory(last_poll_at=now, capabilities=has)
    entry = QueueEntryFactory(lane=LaneFactory(require=[], prefer=prefer), available_at=now)
    assert codes(explained(entry)) == ([code] if code else [])


def test_runners_with_no_place_free_are_why_a_due_run_waits(explained, now):
    full = RunnerFactory(last_poll_at=now, max_inflight=1)
    QueueEntryFactory(claimed=True, holder=RunnerInstanceFactory(runner=full))
    entry = QueueEntryFactory(available_at=now)
    (reason,) = explained(entry)["reasons"]
    assert (reason["code"], reason["message"]) == (
        "runners_full",
        "The one runner that may take it has no place free.",
    )
    assert codes(explained(QueueEntryFactory(available_at=now + timedelta(minutes=1)))) == ["not_due"]
    # Neither one that may not take it, nor one that is drained, nor another tenant's has room for it.
    other = ApiClientFactory(tenant="other")
    for more in ({"capabilities": [COMMAND_ONLY]}, {"drained_at": now}, {"client": other}):
        RunnerFactory(last_poll_at=now, max_inflight=9, **more)
    assert codes(explained(entry)) == ["runners_full"]
    # What a pause holds waits for no place.
    assert codes(explained(QueueEntryFactory(state=State.HELD, available_at=now, job__paused_at=now))) == ["paused"]
    RunnerFactory(last_poll_at=now, max_inflight=1)
    assert codes(explained(entry)) == []


def test_runs_that_nobody_who_is_there_can_execute_stand_in_nobodys_way(explained, now):
    RunnerFactory(last_poll_at=now, capabilities=[COMMAND, COMMAND_ONLY])
    QueueEntryFactory(lane=LaneFactory(require=[], prefer=[]), available_at=now - timedelta(minutes=1))
    entry = QueueEntryFactory(lane=LaneFactory(require=[], prefer=[COMMAND]), available_at=now)
    assert explained(entry)["ahead"] == 0


def test_runners_that_are_gone_or_of_another_tenant_are_none(explained, now):
    RunnerFactory(last_poll_at=now - timedelta(seconds=61))
    RunnerFactory(last_poll_at=now, client=ApiClientFactory(tenant="other"))
    assert codes(explained(QueueEntryFactory(available_at=now))) == ["no_runner"]


def test_the_queue_before_a_run(explained, runner, now, monkeypatch):
    lane, urgent = LaneFactory(), LaneFactory(priority=5)
    entry = QueueEntryFactory(lane=lane, available_at=now - timedelta(seconds=5))
    QueueEntryFactory(lane=lane, available_at=now - timedelta(seconds=6))
    QueueEntryFactory(lane=urgent, available_at=now)
    # Neither what comes later, nor what is not due, nor what others are served by, nor what nobody can take.
    QueueEntryFactory(lane=LaneFactory(require=["tape"]), available_at=now - timedelta(seconds=9))
    QueueEntryFactory(lane=lane, available_at=now)
    QueueEntryFactory(lane=urgent, available_at=now + timedelta(seconds=1))
    QueueEntryFactory(lane=LaneFactory(tenant="other"), available_at=now - timedelta(seconds=9))
    body = explained(entry)
    assert (body["ahead"], codes(body)) == (2, ["in_queue"])
    monkeypatch.setattr(explaining, "MOST_COUNTED", 1)
    assert "1 runs or more" not in body["reasons"][0]["message"]
    assert explained(entry)["ahead"] == 1


def test_the_queries_do_not_grow_with_the_lanes(explained, runner, now, django_assert_num_queries):
    entry = QueueEntryFactory(available_at=now)
    explained(entry)  # that the key is used is written down once a minute
    with CaptureQueriesContext(connection) as few:
        explained(entry)
    for number in range(10):
        LaneFactory(require=[f"tape-{number}"])
    with django_assert_num_queries(len(few)):
        explained(entry)


def test_another_tenants_run_is_none_and_what_is_no_uuid_is_400(api, now):
    entry = QueueEntryFactory(job__tenant="other")
    client = api("executions:read", tenant="default")
    assert client.get(f"/v1/executions/{entry.pk}/explain").status_code == 404
    assert client.get(f"/v1/executions/{uuid4()}/explain").status_code == 404
    assert client.get("/v1/executions/nonsense/explain").status_code == 400


def test_runners_that_are_drained_take_nothing(explained, runner, now):
    entry = QueueEntryFactory(lane=LaneFactory(require=["tape"]), available_at=now)
    RunnerFactory(last_poll_at=now, capabilities=["tape"], drained_at=now)
    (reason,) = explained(entry)["reasons"]
    assert (reason["code"], reason["capabilities"]) == ("drained", ["tape"])
    # What another tenant's runner has is nobody's business.
    RunnerFactory(last_poll_at=now, capabilities=["gold"], drained_at=now, client=ApiClientFactory(tenant="other"))
    gold = QueueEntryFactory(lane=LaneFactory(require=["gold"]), available_at=now)
    assert codes(explained(gold)) == ["lacking_capability"]
    Runner.objects.update(drained_at=now)
    (reason,) = explained(entry)["reasons"]
    assert (reason["code"], "is drained" in reason["message"]) == ("drained", True)
