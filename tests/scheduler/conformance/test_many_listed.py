"""Runners that list as many runs as the protocol allows, all at the same lanes."""

from __future__ import annotations

from uuid import UUID

import pytest

from scheduler.domain.work import Ask
from scheduler.models import Lane
from scheduler.services.claim import claim_batch
from tests.factories import RunnerInstanceFactory
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
