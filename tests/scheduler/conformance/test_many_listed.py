"""Runners that list as many runs as the protocol allows, all at the same lanes."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from scheduler.domain.work import Ask
from scheduler.models import Lane
from scheduler.queries.holders import due_among
from scheduler.services.claim import claim_batch
from tests.factories import QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.edge.helpers import due_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_polls_that_list_all_they_may_take_nothing_from_the_one_beside_them(now):
    """One key may poll as thirty runners, each with 9,999 ids listed (legal: at most 10,000) and room for one."""
    entry = due_run()
    victim = RunnerInstanceFactory()
    bad = RunnerInstanceFactory()
    asks = [
        Ask(bad.pk, 1, frozenset(UUID(int=number * 10_000 + place) for place in range(9_999))) for number in range(30)
    ]
    asks.append(Ask(victim.pk, 5))
    outcomes = claim_batch(entry.available_at, asks, [list(Lane.objects.values_list("pk", flat=True))])
    assert sum(map(len, outcomes)) == 1


def test_of_the_listed_runs_those_are_due_that_anybody_could_claim_now(now):
    """A poll that lists one is answered at once: for one that backs off that would be a poll after the other."""
    due = QueueEntryFactory(available_at=now)
    others = [QueueEntryFactory(available_at=now + timedelta(microseconds=1)), QueueEntryFactory(claimed=True)]
    assert due_among([entry.run_id for entry in (due, *others)], now) == {due.run_id}
