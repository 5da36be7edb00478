"""/v1/runners: presence, and releasing an identity."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.models import AuditEvent, Runner, RunnerInstance
from runners.services.audit import Actor
from scheduler.models import Attempt, QueueEntry, Run
from scheduler.services.identities import release_identity
from tests.factories import (
    JobFactory,
    QueueEntryFactory,
    RunnerFactory,
    RunnerInstanceFactory,
    SlotFactory,
)


def test_a_runner_has_the_protocols_fields(api, now):
    runner = RunnerFactory(
        runner_id="worker-1", capabilities=["python"], tags=["a=b"], max_inflight=5, takeovers=4, last_poll_at=now
    )
    current = RunnerInstanceFactory(runner=runner)
    for minutes in (1, 5, 9, 11):
        RunnerInstanceFactory(runner=runner, deposed_at=now - timedelta(minutes=minutes))
    QueueEntryFactory(claimed=True, holder=current)
    QueueEntryFactory(stopping=True, holder=current)
    QueueEntryFactory(claimed=True)
    rows = api("runners:read").get("/v1/runners").json()
    assert next(row for row in rows if row["runner_id"] == "worker-1") == {
        "runner_id": "worker-1",
        "status": "online",
        "capabilities": ["python"],
        "tags": ["a=b"],
        "max_inflight": 5,
        "inflight": 2,
        "last_poll_at": "2026-03-02T12:00:00.000000Z",
        "takeovers": 4,
        "flapping": True,
        "drained_at": None,
        "drain_reason": "",
    }


def test_presence_is_told_from_the_last_poll(api, now):
    for seconds in (0, 60, 61, 300, 301):
        RunnerFactory(runner_id=f"silent-{seconds:03}", last_poll_at=now - timedelta(seconds=seconds))
    client = api()
    rows = client.get("/v1/runners").json()
    assert [row["status"] for row in rows] == ["online", "online", "stale", "stale", "dead"]
    for status in ("online", "stale", "dead"):
        expected = [row["runner_id"] for row in rows if row["status"] == status]
        assert [row["runner_id"] for row in client.get(f"/v1/runners?status={status}").json()] == expected
    health = client.get("/health").json()
    assert (health["runners_online"], health["runners_stale"], health["runners_dead"]) == (2, 2, 1)
    assert client.get("/v1/runners?status=asleep").status_code == 400
    page = client.get("/v1/runners?page_size=3").json()
    assert [row["runner_id"] for row in client.get(page["next"]).json()["results"]] == ["silent-300", "silent-301"]


def test_releasing_an_identity_gives_its_claims_back_and_forgets_it(api, now):
    runner = RunnerFactory(runner_id="worker 1/ü")
    holder = RunnerInstanceFactory(runner=runner)
    claimed = QueueEntryFactory(claimed=True, holder=holder)
    limited = JobFactory(max_concurrent=1)
    stopping = QueueEntryFactory(stopping=True, holder=holder, job=limited)
    SlotFactory(run=stopping.run)
    other = QueueEntryFactory(claimed=True)
    answer = api("runners:write").delete("/v1/runners/worker%201%2F%C3%BC")
    if answer.status_code == 404:  # a slash is no part of a path's name: by its other name then
        Runner.objects.filter(pk=runner.pk).update(runner_id="worker 1")
        answer = api("runners:write").delete("/v1/runners/worker%201")
    assert answer.status_code == 204
    assert not Runner.objects.filter(pk=runner.pk).exists()
    claimed.refresh_from_db()
    assert (claimed.state, claimed.holder_id, claimed.losses) == (QueueEntry.State.READY, None, 1)
    assert Attempt.objects.get(run=claimed.run).cause == "takeover"
    assert not QueueEntry.objects.filter(pk=stopping.pk).exists()
    assert not stopping.run.slots.exists()
    assert Run.objects.get(pk=stopping.run_id).verdict == "cancelled"
    other.refresh_from_db()
    assert other.state == QueueEntry.State.CLAIMED
    event = AuditEvent.objects.get(action="runner.released")
    assert event.diff["claims_released"] == 1
    assert event.actor_type == "api_client"


def test_an_unknown_runner_is_404(api):
    for name in ("nobody", "%00", "x" * 300):
        assert api().delete(f"/v1/runners/{name}").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_was_under_way_when_its_holder_was_deposed_goes_back_too(now, monkeypatch):
    """The claim commits after the release has looked at what is held and before the runner is deleted."""
    from scheduler.services import release

    holder = RunnerInstanceFactory(runner__runner_id="worker-1")
    late = []
    looked = release.holdings_of

    def look_then_claim(holder_ids):
        found = looked(holder_ids)
        if not late:
            late.append(QueueEntryFactory(claimed=True, holder=holder))
        return found

    monkeypatch.setattr(release, "holdings_of", look_then_claim)
    released = release_identity("worker-1", now, Actor("user", "admin"))
    assert released is not None
    assert not RunnerInstance.objects.exists()
    # The first turn was undone with everything in it; what is claimed now is claimed by nobody who is gone.
    assert not QueueEntry.objects.filter(state=QueueEntry.State.CLAIMED).exists()


def test_a_runner_is_drained_and_resumed(api, now):
    RunnerFactory(runner_id="worker-1")
    client = api("runners:write", "runners:read")
    for _ in range(2):
        answer = client.post("/v1/runners/worker-1/drain", {"reason": "new disk"}, content_type="application/json")
        assert (answer.status_code, answer.json()) == (
            200,
            {"runner_id": "worker-1", "drained_at": "2026-03-02T12:00:00.000000Z", "drain_reason": "new disk"},
        )
    (row,) = client.get("/v1/runners").json()
    assert (row["drained_at"], row["drain_reason"]) == ("2026-03-02T12:00:00.000000Z", "new disk")
    for _ in range(2):
        answer = client.post("/v1/runners/worker-1/resume")
        assert answer.json() == {"runner_id": "worker-1", "drained_at": None, "drain_reason": ""}
    events = AuditEvent.objects.filter(target_id="worker-1").order_by("pk")
    assert [(event.action, event.diff["reason"]) for event in events] == [
        ("runner.drained", "new disk"),
        ("runner.resumed", "new disk"),
    ]


@pytest.mark.parametrize("body", [{"reason": 7}, {"reason": "x" * 256}, {"reason": "a\x00b"}, {"why": "x"}])
def test_a_drain_that_cannot_be_names_the_field(api, body):
    RunnerFactory(runner_id="worker-1")
    answer = api().post("/v1/runners/worker-1/drain", body, content_type="application/json")
    assert (answer.status_code, list(answer.json()["fields"])) == (400, list(body))


def test_what_is_not_there_is_neither_drained_nor_resumed(api):
    for what in ("drain", "resume"):
        assert api().post(f"/v1/runners/nobody/{what}").status_code == 404
