"""Writes that several events share name what they found, and count: where it is not so any more nothing is changed."""

from __future__ import annotations

import pytest
from django.db import transaction

from croniq_site.kernel.database import WRITE_BATCH_ROWS
from scheduler.domain.transitions import State
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import QueueEntry, Run
from scheduler.services import admit, cancel, finish, queue, release, waiting
from tests.factories import NOW, QueueEntryFactory
from tests.scheduler.conformance.snapshots import everything

pytestmark = pytest.mark.django_db

CLAIMED = {"claimed": True, "attempt": 2}


def to_rest(entry, now):
    queue.send_to_rest([queue.Rest(entry, now, entry.attempt, entry.max_attempts, entry.losses)], now)


def removed(entry, now):
    queue.remove_entries([entry], now)


def stopped(entry, now):
    queue.begin_stopping([entry])


def ended(entry, now):
    queue.end_runs([queue.Ending(entry, State.DEAD, entry.attempt)], now)


def admitted(entry, now):
    admit._hand_out([(entry, [])], now)


WINDS_DOWN = (QueueEntry, {"state": QueueEntry.State.STOPPING})
NEXT_ATTEMPT = (QueueEntry, {"attempt": 3})
OVER = (Run, {"verdict": "completed", "finished_at": NOW})


@pytest.mark.parametrize(
    ("write", "meanwhile"),
    [
        pytest.param(to_rest, WINDS_DOWN, id="rest of what stops"),
        pytest.param(to_rest, NEXT_ATTEMPT, id="rest of another attempt"),
        pytest.param(removed, WINDS_DOWN, id="end of what stops"),
        pytest.param(stopped, WINDS_DOWN, id="stop of what stops"),
        pytest.param(ended, OVER, id="second verdict"),
        pytest.param(admitted, WINDS_DOWN, id="slots for what stops"),
    ],
)
def test_a_write_that_finds_something_else_than_was_locked_changes_nothing(now, write, meanwhile):
    """As if the lock had been missing: somebody else has changed the row since it was read."""
    entry = QueueEntryFactory(**CLAIMED)
    model, change = meanwhile
    model.objects.filter(pk=entry.run_id).update(**change)
    before = everything()
    with pytest.raises((queue.GuardFailed, admit.SlotTaken)), transaction.atomic():
        write(entry, now)
    assert everything() == before


@pytest.mark.parametrize(
    ("most", "rows_each"),
    [
        (finish.ACKS_PER_TRANSACTION, 3),
        (release.CLAIMS_PER_TRANSACTION, 5),
        (cancel.MOST_RUNS, 3),
        (waiting.RUNS_PER_TRANSACTION, 3),
        (admit.ADMITTED_PER_TRANSACTION, 4),
        (admit.SKIPPED_PER_TRANSACTION, 3),
    ],
    ids=["acks", "losses", "cancels", "chores", "slots", "skips"],
)
def test_no_transaction_writes_more_rows_than_one_may(most, rows_each):
    assert 100 <= most * rows_each <= WRITE_BATCH_ROWS


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_success_writes_no_second_verdict(now, is_limited):
    entry = QueueEntryFactory(**CLAIMED, job__max_concurrent=1 if is_limited else None)
    Run.objects.filter(pk=entry.run_id).update(verdict="cancelled", problem="cancelled", finished_at=now, reason="mine")
    finish.finish([Ack(entry.run_id, 2, entry.holder.runner.runner_id, AckStatus.SUCCESS)], now)
    run = Run.objects.get(pk=entry.run_id)
    assert (run.verdict, run.reason) == ("cancelled", "mine")
