"""A slow claim leaves marks in its lanes (`scheduler.sql.low_water`); whatever comes to stand before one is claimed."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from itertools import count
from types import SimpleNamespace

import pytest
from django.db import OperationalError

from scheduler.domain.work import Ask, LossCause
from scheduler.models import QueueEntry
from scheduler.services.claim import claim_batch, claim_due
from scheduler.services.release import release
from scheduler.sql import low_water, postgresql
from tests.factories import LaneFactory, QueueEntryFactory, RunnerInstanceFactory

pytestmark = pytest.mark.django_db(transaction=True)
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _on_postgresql(database):
    if database != "postgresql":
        pytest.skip("SQLite keeps no dead rows in an index")


@pytest.fixture
def marked(monkeypatch, now):
    """A lane with forty due runs, whose first was claimed slowly: the others begin at its mark."""
    monkeypatch.setattr(low_water, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(low_water, "KEPT_SECONDS", math.inf)
    lane = LaneFactory()
    for n in range(40):
        QueueEntryFactory(job__lane=lane, available_at=now - (50 - n) * SECOND)
    claim_due(now, 1, RunnerInstanceFactory().pk, [lane.pk])
    return lane


def older(lane, now):
    """A backfill: due before everything that is there."""
    return QueueEntryFactory(job__lane=lane, available_at=now - 3600 * SECOND).run_id


def claimed_by(now, k, lane):
    return [one.run_id for one in claim_due(now, k, RunnerInstanceFactory().pk, [lane.pk])]


def test_a_lane_is_read_from_its_mark(now, marked):
    late = older(marked, now)
    assert late not in claimed_by(now, 5, marked)


def test_the_mark_goes_on_with_the_claims(now, marked):
    first = postgresql.LOW_WATER.marks([[marked.pk]])[marked.pk]
    claimed_by(now, 5, marked)
    claimed_by(now, 5, marked)
    assert postgresql.LOW_WATER.marks([[marked.pk]])[marked.pk] == first + 6 * SECOND


def test_what_stands_before_the_mark_is_found_by_the_next_look_from_the_beginning(now, marked, monkeypatch):
    late = older(marked, now)
    claimed_by(now, 1, marked)
    monkeypatch.setattr(low_water, "KEPT_SECONDS", -1.0)
    assert claimed_by(now, 1, marked) == [late]


def test_a_look_from_the_beginning_is_due_a_second_after_the_last(now, marked, monkeypatch):
    """Claims from the mark do not put it off."""
    ticks = count(time.monotonic())
    monkeypatch.setattr(low_water, "KEPT_SECONDS", 3.0)
    clock = SimpleNamespace(monotonic=lambda: next(ticks))
    monkeypatch.setattr(low_water, "time", clock)
    monkeypatch.setattr(postgresql, "time", clock)
    late = older(marked, now)
    claims = [claimed_by(now, 1, marked) for _ in range(6)]
    assert [late] in claims


def test_a_claim_that_wants_more_than_stands_behind_the_mark_gets_the_rest_at_once(now, marked):
    late = older(marked, now)
    taken = claimed_by(now, 100, marked)
    assert late in taken
    assert len(taken) == len(set(taken)) == 40


def test_what_was_used_up_is_buried_once_although_it_is_found_twice(now, marked):
    used_up = QueueEntryFactory(job__lane=marked, available_at=now, attempt=4, max_attempts=4).run_id
    (outcome,) = claim_batch(now, [Ask(RunnerInstanceFactory().pk, 100)], [(marked.pk,)])
    assert [one.run_id for one in outcome.buried] == [used_up]
    assert len(outcome) == 39


def test_several_polls_get_no_more_than_they_want_over_both_looks(now, marked):
    for _ in range(3):
        older(marked, now)
    asks = [Ask(RunnerInstanceFactory().pk, 2), Ask(RunnerInstanceFactory().pk, 39)]
    outcomes = claim_batch(now, asks, [(marked.pk,)])
    assert [len(outcome) for outcome in outcomes] == [2, 39]


def test_a_run_that_is_released_is_claimed_again_before_the_mark(now, marked):
    entry = QueueEntry.objects.get(state=QueueEntry.State.CLAIMED)
    claimed_by(now, 5, marked)
    release([(entry.run_id, entry.attempt)], now, LossCause.DISCONNECTED)
    assert entry.run_id in claimed_by(now, 40, marked)


def test_what_the_first_look_claimed_is_told_when_the_second_fails(now, marked, monkeypatch):
    real = postgresql.rows_of
    calls = []

    def fails_the_second_time(*arguments):
        calls.append(1)
        if len(calls) > 1:
            raise OperationalError("server closed the connection")
        return real(*arguments)

    with monkeypatch.context() as broken:
        broken.setattr(postgresql, "rows_of", fails_the_second_time)
        assert len(claimed_by(now, 100, marked)) == 39
    assert len(calls) == 2


def test_a_claim_that_was_not_slow_leaves_no_mark(now, marked, monkeypatch):
    monkeypatch.setattr(low_water, "SLOW_SECONDS", math.inf)
    monkeypatch.setattr(low_water, "KEPT_SECONDS", -1.0)
    claimed_by(now, 1, marked)
    monkeypatch.setattr(low_water, "KEPT_SECONDS", math.inf)
    late = older(marked, now)
    assert claimed_by(now, 1, marked) == [late]
