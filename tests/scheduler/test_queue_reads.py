"""What is asked of a job, or of a runner, reads its own entries of the queue and not those of all others."""

from __future__ import annotations

import re

import pytest

from scheduler.queries.holders import holdings_of
from scheduler.queries.jobs import job_states, live_jobs
from scheduler.queries.overview import job_story
from scheduler.queries.runners import runner_list
from scheduler.services.admit import admit
from scheduler.services.trigger_runs import queue_depth, trigger_run
from tests.factories import QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.planning.support import make_job
from tests.schema.plans import forget_size, plans_of

pytestmark = pytest.mark.django_db

# What runs is little, and may be read whole.
WHOLE = re.compile(r"(?:SCAN|Seq Scan on) (?:scheduler_queueentry|[A-Z]\d+)\b(?! USING INDEX queue_entry_by_)")


@pytest.fixture
def job(now):
    forget_size("scheduler_queueentry")
    return make_job(now, coalesce=True)


@pytest.fixture
def limited(now):
    forget_size("scheduler_queueentry")
    return make_job(now, max_concurrent=1)


def whole(plans: list[str]) -> list[str]:
    """The steps that read the queue from end to end."""
    return [line for plan in plans for line in plan.splitlines() if WHOLE.search(line)]


def test_a_trigger_counts_what_its_own_job_has_waiting(job, now):
    later = now.replace(hour=23).isoformat()
    for asked in ({}, {"run_at": later}, {"idempotency_key": "k"}):
        assert whole(plans_of(lambda more=asked: trigger_run("demo:job", now, **more))) == []


def test_what_is_due_is_counted_without_a_look_at_what_is_asked_for_later(job, now):
    (plan,) = plans_of(lambda: queue_depth(job, now))
    assert re.search(r"job_id=\? AND available_at<\?|Index Cond: .*available_at <=", plan), plan


@pytest.mark.parametrize(
    "ask",
    [
        lambda now: job_states(live_jobs(), now),
        lambda now: job_story("demo:job", now),
        lambda now: holdings_of([RunnerInstanceFactory().pk]),
        lambda now: runner_list(now, limit=9),
    ],
    ids=["states", "story", "holdings", "runners"],
)
def test_whoever_asks_of_one_reads_what_is_his(job, now, ask):
    assert whole(plans_of(lambda: ask(now))) == []


def test_places_of_a_limited_job_are_given_by_its_own_entries(limited, now):
    QueueEntryFactory.create_batch(2, job=limited, state=1)
    plans = plans_of(lambda: admit(now, lane_ids=[limited.lane_id]))
    assert len(plans) > 5
    assert whole(plans) == []


def test_what_a_pause_holds_fills_no_queue(job, now):
    QueueEntryFactory(job=job, state=2, available_at=now)
    assert queue_depth(job, now) == 0
