"""Edits of a job while its runs wait, are claimed and fail: either the old claim or the new rule; never both, never
neither. Each edit meets a claim and the end of an attempt in either order, with two connections."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from runners.services.audit import Actor
from scheduler.domain.work import Ack, AckStatus, LossCause
from scheduler.models import Job, QueueEntry, Run
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.jobs import delete_job, save_job
from scheduler.services.pause import pause_job, resume_job
from scheduler.services.release import release
from tests.factories import QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.conformance.test_races import Waiter
from tests.support.races import DEADLINE_SECONDS, Session

pytestmark = pytest.mark.django_db(transaction=True)

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
ALICE = Actor("user", "alice")
State = QueueEntry.State

ROUTES = {
    "require": {"require": ["gpu"]},
    "prefer": {"prefer": ["ssd"]},
    "priority": {"priority": 7},
    "tenant": {"tenant": "acme"},
    "pin": {"pin": "r1"},
}


@pytest.fixture
def job(now, db) -> Job:
    return save_job({"job_key": "demo:job"}, now, ALICE)[0]


@pytest.fixture
def first():
    with Session() as session:
        yield session


@pytest.fixture
def second(database):
    with Session() as session:
        yield Waiter(session, database)


@pytest.fixture(params=ROUTES.values(), ids=ROUTES)
def reroute(request, now) -> Callable[[], object]:
    """An edit that sends the job's runs into another lane."""
    return lambda: save_job({"job_key": "demo:job", **request.param}, now, ALICE, partial=True)


def fail(entry: QueueEntry, now) -> object:
    return finish([Ack(entry.run_id, entry.attempt, entry.holder.runner.runner_id, AckStatus.FAILURE)], now)


def new_lane() -> int:
    return Job.objects.get(job_key="demo:job").lane_id


def test_a_claim_that_is_first_keeps_its_run_and_its_next_attempt_follows_the_edit(now, job, reroute, first, second):
    QueueEntryFactory(job=job)
    holder = RunnerInstanceFactory()
    first.begin()
    (claimed,) = first.run(claim_due, now, 1, holder.pk, [job.lane_id])
    editing = second.start(reroute)
    first.commit()
    editing.result(DEADLINE_SECONDS)
    entry = QueueEntry.objects.get(run_id=claimed.run_id)
    assert (entry.state, entry.holder_id) == (State.CLAIMED, holder.pk)
    fail(entry, now)
    entry.refresh_from_db()
    assert (entry.state, entry.lane_id) == (State.READY, new_lane())
    assert new_lane() != job.lane_id


def test_an_edit_that_is_first_leaves_the_old_lane_nothing(now, job, reroute, first, second, database):
    entry = QueueEntryFactory(job=job)
    holder = RunnerInstanceFactory()
    first.begin()
    first.run(reroute)
    claiming = second.session.start(claim_due, now, 1, holder.pk, [job.lane_id])
    if database == "postgresql":
        assert len(claiming.result(DEADLINE_SECONDS)) == 0  # it passes over what is being edited
    first.commit()
    assert len(claiming.result(DEADLINE_SECONDS)) == 0
    assert len(claim_due(now, 1, holder.pk, [job.lane_id])) == 0
    assert [one.run_id for one in claim_due(now, 1, holder.pk, [new_lane()])] == [entry.run_id]


ENDS = {
    "failure": lambda entry, now: fail(entry, now),
    "loss": lambda entry, now: release([(entry.run_id, entry.attempt)], now, LossCause.LEASE),
    "gone": lambda entry, now: release([(entry.run_id, entry.attempt)], now, LossCause.DISCONNECTED),
}


@pytest.fixture(params=ENDS.values(), ids=ENDS)
def end(request, now, job) -> Callable[[], object]:
    """The end of an attempt of the job's one run, after which the run waits again."""
    entry = QueueEntryFactory(job=job, claimed=True)
    return lambda: request.param(entry, now)


def both(first: Session, second: Waiter, one: Callable, other: Callable) -> None:
    """``one`` is done and not committed when ``other`` comes and waits for it."""
    first.begin()
    first.run(one)
    waiting = second.start(other)
    first.commit()
    waiting.result(DEADLINE_SECONDS)


@pytest.fixture(params=[False, True], ids=["attempt first", "edit first"])
def meet(request, first, second) -> Callable[[Callable, Callable], None]:
    """Let an attempt's end and an edit meet, in either order."""
    return lambda ending, edit: both(first, second, *((edit, ending) if request.param else (ending, edit)))


def test_an_attempt_that_ends_while_its_job_is_rerouted_waits_where_the_edit_says(now, job, end, reroute, meet):
    meet(end, reroute)
    entry = QueueEntry.objects.get()
    assert (entry.state, entry.lane_id) == (State.READY, new_lane())


def test_an_attempt_that_ends_while_its_job_is_paused_is_held(now, job, end, meet):
    meet(end, lambda: pause_job("demo:job", now))
    assert QueueEntry.objects.get().state == State.HELD


def test_an_attempt_that_ends_while_its_job_is_resumed_does_not_wait_for_ever(now, job, end, meet):
    Run.objects.update(scheduled_for=now + HOUR)  # else what was never tried is skipped
    pause_job("demo:job", now - SECOND)
    meet(end, lambda: resume_job("demo:job", now))
    assert QueueEntry.objects.get().state == State.READY


@pytest.mark.parametrize("how", ["failure", "loss"])
def test_nothing_of_a_job_begins_again_that_is_deleted_while_its_attempt_ends(now, job, how, meet):
    entry = QueueEntryFactory(job=job, claimed=True)
    meet(lambda: ENDS[how](entry, now), lambda: delete_job("demo:job", now, ALICE))
    assert not QueueEntry.objects.exists()
    assert Run.objects.get().verdict in ("cancelled", "failed")


def test_a_run_with_an_override_of_its_own_stays_where_that_sent_it(now, job, reroute):
    entry = QueueEntryFactory(job=job, claimed=True, own_lane=True)
    before = entry.lane_id
    reroute()
    fail(entry, now)
    entry.refresh_from_db()
    assert (entry.state, entry.lane_id) == (State.READY, before)


@pytest.mark.parametrize(
    ("edit", "left"),
    [
        (lambda now: pause_job("demo:job", now), State.HELD),
        (lambda now: save_job({"job_key": "demo:job", "max_concurrent": 1}, now, ALICE, partial=True), State.READY),
        (lambda now: delete_job("demo:job", now, ALICE), None),
    ],
    ids=["pause", "limit", "delete"],
)
def test_pause_limit_and_delete_against_a_claim(now, job, edit, left, first, second, database):
    """The claim first: it keeps its run. The edit first: the claim gets nothing that the edit holds back."""
    older, newer = QueueEntryFactory(job=job, available_at=now - SECOND), QueueEntryFactory(job=job)
    holder = RunnerInstanceFactory()
    first.begin()
    (claimed,) = first.run(claim_due, now, 1, holder.pk, [job.lane_id])
    editing = second.start(edit, now)
    first.commit()
    editing.result(DEADLINE_SECONDS)
    assert claimed.run_id == older.run_id
    assert QueueEntry.objects.get(run_id=older.run_id).state == State.CLAIMED
    waiting = QueueEntry.objects.filter(run_id=newer.run_id).first()
    # Of a job with the limit of one, whose one slot the claimed run has, the other waits for it.
    expected = State.GATED if left == State.READY else left
    assert (waiting.state if waiting else None) == expected
    assert len(claim_due(now, 5, holder.pk, [job.lane_id])) == 0
