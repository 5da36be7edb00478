"""The services against the table: every event from every state, on the real database."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from uuid import UUID

import pytest

from croniq_site.kernel.errors import Conflict
from scheduler.domain.transitions import EDGES, TERMINAL, WAITING, Event, State, next_state
from scheduler.domain.work import Ack, AckStatus, LossCause
from scheduler.models import QueueEntry, Run
from scheduler.services.admit import admit
from scheduler.services.backfill import backfill
from scheduler.services.cancel import cancel_runs
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish, time_out
from scheduler.services.pause import pause_job, resume_job
from scheduler.services.queue import STATE_NUMBERS
from scheduler.services.release import bury, reap_leases, release, wind_down
from scheduler.services.waiting import pass_over_unclaimed, skip_beyond_depth
from tests.factories import (
    NOW,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerInstanceFactory,
    SlotFactory,
    TriggerFactory,
)
from tests.scheduler.conformance.snapshots import SYSTEM_ACTOR, everything

pytestmark = pytest.mark.django_db

LAST = {Event.BURY, Event.FAIL, Event.TIME_OUT, Event.LOSE_LAST}
"""Events of a run whose attempts are used up."""


def run_in(state: State, *, is_last: bool, chosen: State | None, event: Event | None = None) -> UUID:
    """Make a run in ``state`` whose job's rules lead to ``chosen`` where there is a choice, and to whom ``event`` can
    happen as far as others have a part in it."""
    rules = {
        State.GATED: {"job__max_concurrent": 1},
        State.HELD: {"job__paused_at": NOW},
        State.FAILED: {"job__dead_letter_enabled": False},
        State.CANCELLED: {"job__deleted_at": NOW} if event is Event.GIVE_BACK else {},
    }.get(chosen, {})
    if event is Event.PASS_OVER:
        # Another one of its job waits for the one slot that it has.
        job = JobFactory(max_concurrent=1)
        run = RunFactory(job=job) if state not in (*TERMINAL, State.STOPPING) else None
        rules |= {"job": job, "run": run} if run else {"job": job}
        if run:
            SlotFactory(run=run, budget=f"job:{job.pk}", admitted_at=NOW - timedelta(minutes=1))
            QueueEntryFactory(job=job, state=QueueEntry.State.GATED, waits_since=NOW)
    elif event is Event.SKIP:
        rules["job"] = JobFactory(
            max_queue_depth=1,
            max_concurrent=1 if state is State.GATED else None,
            paused_at=NOW if state is State.HELD else None,
        )
        rules |= {"run__created_at": NOW - timedelta(days=2)} if state not in TERMINAL else {}
        QueueEntryFactory(job=rules["job"], available_at=NOW - timedelta(minutes=1))
    elif chosen is State.GATED:
        # Somebody else runs, or what is sent back to wait would be admitted again at once.
        rules["job"] = JobFactory(
            max_concurrent=rules.pop("job__max_concurrent"), paused_at=NOW if event is Event.LET_GO else None
        )
        SlotFactory(budget=f"job:{rules['job'].pk}")
    elif event is Event.LET_GO:
        rules["job__paused_at"] = NOW
    if state in TERMINAL:
        problem = None if state is State.COMPLETED else state.value
        return RunFactory(
            verdict=state.value,
            problem=problem,
            attempt=0 if event is Event.MAKE_UP else 1,
            runner_id="runner",
            claimed_at=NOW,
            finished_at=NOW,
            **rules,
        ).pk
    if state is State.STOPPING:
        verdict = (chosen or State.CANCELLED).value
        return QueueEntryFactory(stopping=True, run__verdict=verdict, run__problem=verdict).run_id
    attempts = {"attempt": 4, "losses": 2} if is_last else {"attempt": 1}
    if event is Event.SKIP and state in WAITING:
        attempts = {"attempt": 0}
    held = {"claimed": True} if state is State.CLAIMED else {}
    return QueueEntryFactory(state=STATE_NUMBERS[state], **attempts, **held, **rules).run_id


def state_of(run_id: UUID) -> State:
    entry = QueueEntry.objects.filter(pk=run_id).first()
    if entry is not None:
        return {number: state for state, number in STATE_NUMBERS.items()}[entry.state]
    return State(Run.objects.get(pk=run_id).verdict)


def happen(event: Event, run_id: UUID) -> None:
    """Let ``event`` come from outside, said by the holder where there is one."""
    entry = QueueEntry.objects.filter(pk=run_id).first()
    attempt = entry.attempt if entry else 1
    holder = entry.holder if entry else None
    runner_id = holder.runner.runner_id if holder else "runner"
    lane_ids = [entry.lane_id] if entry else []
    job_key = Run.objects.get(pk=run_id).job.job_key
    if event is Event.ADMIT:
        admit(NOW)
    elif event is Event.PASS_OVER:
        pass_over_unclaimed(NOW)
    elif event is Event.HOLD:
        pause_job(job_key, NOW)
    elif event is Event.LET_GO or (event is Event.SKIP and entry and entry.state == QueueEntry.State.HELD):
        resume_job(job_key, NOW)
    elif event is Event.MAKE_UP:
        at = Run.objects.get(pk=run_id).scheduled_for
        backfill(job_key, at, at, NOW, SYSTEM_ACTOR)
    elif event is Event.SKIP:
        admit(NOW)
        skip_beyond_depth(NOW)
    elif event is Event.CLAIM:
        claim_due(NOW, 1, RunnerInstanceFactory().pk, lane_ids)
    elif event is Event.BURY:
        bury([run_id], NOW)
    elif event is Event.SUCCEED:
        finish([Ack(run_id, attempt, runner_id, AckStatus.SUCCESS)], NOW)
    elif event in (Event.RETRY, Event.FAIL):
        finish([Ack(run_id, attempt, runner_id, AckStatus.FAILURE)], NOW)
    elif event is Event.TIME_OUT:
        time_out(NOW + timedelta(days=1), 10)
    elif event in (Event.LOSE, Event.LOSE_LAST):
        release([(run_id, attempt)], NOW, LossCause.TAKEOVER)
    elif event is Event.GIVE_BACK:
        release([(run_id, attempt)], NOW, LossCause.DISCONNECTED)
    elif event is Event.CANCEL:
        with contextlib.suppress(Conflict):
            cancel_runs([run_id], NOW, SYSTEM_ACTOR)
    elif event is Event.WIND_DOWN:
        wind_down(holder.pk if holder else 0, [run_id], NOW)
    else:
        raise AssertionError(f"no service is known for {event}")


def winds_down_by_ack(state: State, event: Event) -> bool:
    """An ack of a stopping run is no verdict: it is how the handler says that it is gone."""
    return state is State.STOPPING and event in (Event.SUCCEED, Event.RETRY, Event.FAIL)


CASES = [
    (state, event, chosen)
    for state in State
    for event in Event
    for chosen in EDGES.get((state, event), (None,))
    if not winds_down_by_ack(state, event)
]


@pytest.mark.parametrize(("state", "event", "chosen"), CASES, ids=lambda value: value.value if value else "no edge")
def test_a_service_does_what_the_table_says_and_nothing_where_it_says_nothing(state, event, chosen):
    run_id = run_in(state, is_last=event in LAST, chosen=chosen, event=event)
    assert state_of(run_id) is state
    bystander = QueueEntryFactory(available_at=NOW + timedelta(days=2))
    if event is Event.MAKE_UP:
        run = Run.objects.get(pk=run_id)
        past = {"run_at": run.scheduled_for, "created_at": NOW - timedelta(days=3), "next_materialize_at": None}
        TriggerFactory(job=run.job, kind="once", every=None, anchor_at=None, **past)
    before = everything()
    happen(event, run_id)
    if chosen is None:
        after = everything()
        if event in (Event.HOLD, Event.LET_GO):  # said of the job, whatever there is of it
            before, after = ({**rows, "Job": [], "AuditEvent": []} for rows in (before, after))
        assert after == before
    else:
        assert state_of(run_id) is next_state(state, event, chosen)
    assert state_of(bystander.run_id) is State.READY


@pytest.mark.parametrize("verdict", EDGES[State.STOPPING, Event.WIND_DOWN])
@pytest.mark.parametrize("way", ["ack of success", "ack of failure", "lease's end", "a poll without it"])
def test_a_handler_may_go_in_four_ways_and_the_verdict_stays(verdict, way):
    run_id = run_in(State.STOPPING, is_last=False, chosen=verdict)
    before = Run.objects.values().get(pk=run_id)
    if way == "ack of success":
        happen(Event.SUCCEED, run_id)
    elif way == "ack of failure":
        happen(Event.FAIL, run_id)
    elif way == "lease's end":
        reap_leases(NOW + timedelta(days=1))
    else:
        happen(Event.WIND_DOWN, run_id)
    assert state_of(run_id) is verdict
    assert Run.objects.values().get(pk=run_id) == before


def test_a_deadline_with_attempts_left_is_a_retry():
    run_id = run_in(State.CLAIMED, is_last=False, chosen=None)
    happen(Event.TIME_OUT, run_id)
    assert state_of(run_id) is next_state(State.CLAIMED, Event.RETRY)
