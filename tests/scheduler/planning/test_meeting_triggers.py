"""Two triggers of a job that meet, planned by one batch."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from scheduler.domain.occurrences import to_micro
from scheduler.domain.schedules import Fire
from scheduler.models import Run, Trigger
from scheduler.services import caps, planning
from scheduler.services import materialize as passes
from scheduler.services.materialize import materialize
from scheduler.services.planning import Plan, carry_out, planned_run
from scheduler.sql.planned import BatchSize, insert_planned
from tests.factories import JobFactory, TriggerFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def restarted(monkeypatch):
    monkeypatch.setattr(passes, "_looked_at", None)
    caps.forget_count()
    yield
    caps.forget_count()


def test_a_batch_in_which_two_triggers_of_a_job_meet_is_planned_as_a_batch(now, caplog):
    """A job of every ten minutes and of every full hour: their common fire is one row of the batch."""
    others = [TriggerFactory(job=JobFactory()) for _ in range(3)]
    job = JobFactory()
    for expression in ("*/10 * * * *", "0 * * * *"):
        TriggerFactory(job=job, kind="cron", every=None, anchor_at=None, cron_expression=expression)
    with caplog.at_level(logging.WARNING, logger="scheduler.services.materialize"):
        materialize(now)
    at = sorted(Run.objects.filter(job=job).values_list("scheduled_for", flat=True))
    assert at == [now + n * timedelta(minutes=10) for n in range(1, 7)]
    assert not Trigger.objects.filter(pk__in=[one.pk for one in others], next_materialize_at__lte=now).exists()
    assert [record.getMessage() for record in caplog.records] == []


def test_the_statement_takes_a_fire_that_is_named_twice_once(now):
    """As `insert_planned` says: an occurrence that has its run already, from another trigger, makes none."""
    run = planned_run(JobFactory(), Fire(now + timedelta(hours=1), now + timedelta(hours=1)))
    assert [one.run_id for one in insert_planned([run, run], now)] == [run.run_id]


def test_where_they_meet_the_earliest_occurrence_is_kept_whatever_statement_it_stands_in(now, monkeypatch):
    monkeypatch.setattr(planning, "batch_size", lambda: BatchSize(100, 1))
    job, at = JobFactory(), to_micro(now + timedelta(hours=1))
    plans = []
    for hours in (2, 3, 1):  # before the fire, as a calendar moves it
        trigger = TriggerFactory(job=job)
        was = to_micro(trigger.cursor_at)
        plans.append(Plan(trigger, [at], [at - hours * 3_600_000_000], None, was, at, None))
    assert [run.occurrence_at for run in carry_out(plans, now)] == [at - 3 * 3_600_000_000]
    assert Run.objects.get().occurrence_at == now - timedelta(hours=2)
