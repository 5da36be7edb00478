"""Cancel: at once for what waits, with its handler told for what runs, never for what is over."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.models import AuditEvent
from runners.services.audit import Actor
from scheduler.models import QueueEntry, Run, Slot
from scheduler.services.cancel import CancelResult, cancel_runs
from tests.factories import QueueEntryFactory, RunFactory, SlotFactory
from tests.scheduler.conformance.snapshots import everything

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
ALICE = Actor("user", "alice")


@pytest.mark.parametrize("state", [QueueEntry.State.READY, QueueEntry.State.GATED, QueueEntry.State.HELD])
def test_a_waiting_run_is_over_at_once(now, state):
    entry = QueueEntryFactory(state=state, attempt=2, job__tenant="acme", job__max_concurrent=1)
    SlotFactory(run=entry.run)
    assert cancel_runs([entry.run_id], now, ALICE, "not needed") == [CancelResult(entry.run_id, True, False)]
    run = Run.objects.get()
    assert (run.verdict, run.problem, run.reason) == ("cancelled", "cancelled", "not needed")
    assert (run.attempt, run.finished_at, run.claimed_at, run.duration_ms) == (2, now, None, None)
    assert not QueueEntry.objects.exists()
    assert not Slot.objects.exists()
    event = AuditEvent.objects.get()
    assert (event.action, event.actor_type, event.actor_id) == ("run.cancelled", "user", "alice")
    assert (event.target_id, event.tenant) == (str(entry.run_id), "acme")


def test_a_claimed_run_is_cancelled_and_its_handler_winds_down(now):
    entry = QueueEntryFactory(claimed=True, job__max_concurrent=1)
    SlotFactory(run=entry.run)
    assert cancel_runs([entry.run_id], now + SECOND, ALICE) == [CancelResult(entry.run_id, True, True)]
    run = Run.objects.get()
    assert (run.verdict, run.attempt, run.finished_at, run.duration_ms) == ("cancelled", 1, now + SECOND, 1000)
    assert (run.runner_id, run.claimed_at) == (entry.holder.runner.runner_id, now)
    after = QueueEntry.objects.get()
    assert after.state == QueueEntry.State.STOPPING
    assert (after.holder_id, after.lease_expires_at) == (entry.holder_id, entry.lease_expires_at)
    assert Slot.objects.count() == 1


def test_cancelling_again_says_the_same_and_changes_nothing(now):
    claimed, waiting = QueueEntryFactory(claimed=True), QueueEntryFactory()
    ids = [claimed.run_id, waiting.run_id]
    first = cancel_runs(ids, now, ALICE)
    before = everything()
    assert cancel_runs(ids, now + SECOND, ALICE, "again") == first
    assert everything() == before
    QueueEntry.objects.all().delete()
    assert cancel_runs([claimed.run_id], now, ALICE) == [CancelResult(claimed.run_id, True, False)]


@pytest.mark.parametrize("verdict", ["completed", "failed", "dead", "skipped"])
def test_what_is_over_is_a_conflict(now, verdict):
    run = RunFactory(verdict=verdict, problem=None if verdict == "completed" else verdict, finished_at=now)
    before = everything()
    with pytest.raises(Conflict) as refusal:
        cancel_runs([run.pk], now, ALICE)
    assert refusal.value.code == "already_finished"
    assert everything() == before


def test_a_run_that_timed_out_and_winds_down_is_over(now):
    entry = QueueEntryFactory(stopping=True, run__verdict="dead", run__problem="dead")
    with pytest.raises(Conflict):
        cancel_runs([entry.run_id], now, ALICE)


def test_all_or_none(now):
    waiting, over = QueueEntryFactory(), RunFactory(completed=True)
    before = everything()
    with pytest.raises(Conflict):
        cancel_runs([waiting.run_id, over.pk], now, ALICE)
    with pytest.raises(NotFound):
        cancel_runs([waiting.run_id, uuid4()], now, ALICE)
    with pytest.raises(InvalidInput):
        cancel_runs([uuid4() for _ in range(151)], now, ALICE)
    assert everything() == before


def test_the_results_are_in_the_order_asked_for(now):
    entries = [QueueEntryFactory(claimed=n % 2 == 0) for n in range(4)]
    ids = [entry.run_id for entry in reversed(entries)]
    results = cancel_runs([*ids, ids[0]], now, ALICE)
    assert [result.run_id for result in results] == [*ids, ids[0]]
    assert [result.delivered_via_runner for result in results] == [False, True, False, True, False]
    assert AuditEvent.objects.count() == 4
