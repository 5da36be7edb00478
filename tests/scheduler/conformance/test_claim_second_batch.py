"""A claim for many polls is several transactions; the database may fail between two of them."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from croniq_site.kernel.clock import DatabaseClock
from scheduler.domain.work import Ask
from scheduler.models import Lane
from scheduler.services.claim import claim_batch
from scheduler.sql import backend
from tests.factories import RunnerInstanceFactory
from tests.scheduler.edge.helpers import due_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_was_claimed_before_a_later_statement_failed_is_handed_out(monkeypatch):
    """Two polls with much room are two transactions. The first one hears of its claims when the second fails."""
    due_run(max_attempts=1, max_losses=0)
    first, second = RunnerInstanceFactory(), RunnerInstanceFactory()
    lanes = [list(Lane.objects.values_list("pk", flat=True))]
    real, calls = backend().claim_rows, []

    def fails_the_second_time(*arguments):
        calls.append(1)
        if len(calls) > 1:
            raise OperationalError("deadlock detected")
        return real(*arguments)

    monkeypatch.setattr(backend(), "claim_rows", fails_the_second_time)
    outcomes = claim_batch(DatabaseClock().now(), [Ask(first.pk, 400), Ask(second.pk, 400)], lanes)
    assert [len(outcome) for outcome in outcomes] == [1, 0]
    assert len(calls) == 2


def test_a_claim_of_which_nothing_is_done_says_so(monkeypatch):
    def fails(*arguments):
        raise OperationalError("server closed the connection")

    due_run()
    monkeypatch.setattr(backend(), "claim_rows", fails)
    lanes = [list(Lane.objects.values_list("pk", flat=True))]
    with pytest.raises(OperationalError):
        claim_batch(DatabaseClock().now(), [Ask(RunnerInstanceFactory().pk, 1)], lanes)
