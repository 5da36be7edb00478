"""A run's spans are one trace, whoever makes them; and where nobody asked for them, nothing is different."""

from __future__ import annotations

import itertools
import tracemalloc
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from opentelemetry.sdk.trace import SpanProcessor

from croniq_site.kernel import tracing
from croniq_site.kernel.tracing import place_of
from scheduler.api.work.claiming import claim_round
from scheduler.domain.occurrences import to_micro
from scheduler.domain.work import Ack, AckStatus, Ask, LossCause
from scheduler.metrics import traces
from scheduler.models import QueueEntry, Run
from scheduler.queries.assignments import JobDirectory
from scheduler.services.backfill import backfill
from scheduler.services.cancel import cancel_runs
from scheduler.services.finish import finish, time_out
from scheduler.services.materialize import materialize
from scheduler.services.release import release
from scheduler.services.replays import replay_run
from scheduler.services.trigger_runs import trigger_run
from scheduler.sql.planned import PlannedRun
from scheduler.workers.process import Worker
from tests.factories import JobFactory, QueueEntryFactory, RunnerInstanceFactory, TriggerFactory
from tests.scheduler.conformance.snapshots import SYSTEM_ACTOR
from tests.scheduler.edge.helpers import FakeRunner
from tests.scheduler.planning.support import make_job, make_trigger
from tests.support.collector import recorded_spans
from tests.support.server import live_edge

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

SECOND = timedelta(seconds=1)
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def spans():
    with recorded_spans() as recorded:
        yield recorded


def claimed(clock, lane_id, holder=None) -> list[dict]:
    """Claim as the server does and return the assignments."""
    ask = Ask((holder or RunnerInstanceFactory()).pk, 5)
    (answer,) = claim_round(clock, JobDirectory(), [ask], [[lane_id]], ()).answers
    if answer is None:
        return []
    traces.tell(answer.spans)
    return answer.work


def acked(entry, status=AckStatus.SUCCESS, **more) -> Ack:
    return Ack(entry.run_id, entry.attempt, entry.holder.runner.runner_id, status, **more)


def chain(*spans) -> bool:
    """Whether each is the child of the one before, all in one trace."""
    return len({span.context.trace_id for span in spans}) == 1 and all(
        below.parent.span_id == above.context.span_id for above, below in itertools.pairwise(spans)
    )


@pytest.mark.django_db(transaction=True)
def test_from_tick_to_ack_is_one_trace_for_each_run(spans, clock, now):
    TriggerFactory(job__job_key="demo:a", every=timedelta(minutes=30))
    TriggerFactory(job__job_key="demo:b", every=timedelta(minutes=31))
    Worker("materialize", lambda at: 1.0 if materialize(at).is_done else 0.0, clock).step()
    tick, batch = spans.one("croniq.tick"), spans.named("croniq.materialize")[0]  # the next one finds nothing left
    assert chain(tick, batch)
    plans = spans.named("croniq.plan")
    assert len(plans) == Run.objects.count() == 3
    assert len({plan.context.trace_id for plan in plans}) == 3
    assert {plan.links[0].context.span_id for plan in plans} == {batch.context.span_id}
    clock.tick(timedelta(minutes=30))
    entry = QueueEntry.objects.get(job__job_key="demo:a", available_at=clock.now())
    (assignment,) = claimed(clock, entry.lane_id)
    clock.tick(SECOND)
    entry.refresh_from_db()
    finish([acked(entry)], clock.now())
    (plan,) = [one for one in plans if one.attributes["croniq.execution_id"] == str(entry.run_id)]
    claim, run = spans.one("croniq.claim"), spans.one("croniq.run")
    assert chain(plan, claim, run)
    assert (plan.parent, plan.attributes["croniq.job_key"]) == (None, "demo:a")
    place = place_of(assignment["traceparent"])
    assert (place.trace_id, place.span_id, place.is_sampled) == (run.context.trace_id, run.context.span_id, True)
    assert run.end_time - run.start_time == 10**9
    assert (run.attributes["croniq.outcome"], run.attributes["croniq.attempt"]) == ("completed", 1)
    assert run.status.is_ok


def test_what_an_edit_or_a_backfill_plans_begins_its_trace_too(spans, clock, now, django_capture_on_commit_callbacks):
    def planned() -> set[str]:
        return {plan.attributes["croniq.execution_id"] for plan in spans.named("croniq.plan")}

    def made() -> set[str]:
        return {str(run_id) for run_id in Run.objects.values_list("pk", flat=True)}

    with django_capture_on_commit_callbacks(execute=True):
        make_trigger(make_job(now, catch_up="none"), now, every="30m")
    assert planned() == made() != set()
    materialize(clock.tick(timedelta(hours=12)))  # and of its callbacks, none
    before = made()
    with django_capture_on_commit_callbacks(execute=True):
        assert backfill("demo:job", now, clock.now() - timedelta(hours=1), clock.now(), SYSTEM_ACTOR).created > 10
    assert planned() & (made() - before) == made() - before


def test_the_claim_is_as_long_as_the_run_waited(spans, clock, now):
    entry = QueueEntryFactory(available_at=now - 3 * SECOND)
    claimed(clock, entry.lane_id)
    span = spans.one("croniq.claim")
    assert span.end_time - span.start_time == 3 * 10**9
    assert span.end_time == int(now.timestamp()) * 10**9


@pytest.mark.django_db(transaction=True)
def test_a_triggers_caller_is_the_parent_and_nobody_is_told_of_what_travels(spans):
    job = JobFactory(job_key="demo:a")
    with live_edge() as server:
        key = server.key("jobs:trigger", "executions:read")
        headers = {"authorization": f"ApiKey {key}", "traceparent": CALLER}
        body = {"job_key": job.job_key, "metadata": {"day": 1, "__traceparent": "mine"}}
        run_id = server.http.post("/v1/trigger", json=body, headers=headers).json()["execution_id"]
        runner = FakeRunner(server, server.key())
        (assignment,) = runner.work()
        assert assignment["metadata"] == {"day": 1}
        assert runner.ack(run_id).status_code == 200
        assert server.get(f"/v1/executions/{run_id}", key=key).json()["metadata"] == {"day": 1}
    trigger, claim, run = (spans.one(f"croniq.{name}") for name in ("trigger", "claim", "run"))
    assert chain(trigger, claim, run)
    parent = place_of(CALLER)
    assert (trigger.context.trace_id, trigger.parent.span_id) == (parent.trace_id, parent.span_id)
    assert assignment["traceparent"] == f"00-{parent.trace_id:032x}-{run.context.span_id:016x}-01"
    assert Run.objects.get(pk=run_id).metadata == {"day": 1, traces.PARENT_KEY: CALLER}


@pytest.mark.parametrize("header", ["", "nonsense", "00-" + "0" * 32 + "-00f067aa0ba902b7-01"])
def test_what_is_no_traceparent_is_as_if_it_were_not_there(spans, now, header, django_capture_on_commit_callbacks):
    JobFactory(job_key="demo:a")
    with django_capture_on_commit_callbacks(execute=True):
        made = trigger_run("demo:a", now, traceparent=header)
        assert spans.all() == []  # it may be rolled back
    assert Run.objects.get(pk=made.run_id).metadata is None
    assert spans.one("croniq.trigger").parent is None


def test_a_caller_that_is_not_sampled_is_believed(spans, clock, now, django_capture_on_commit_callbacks):
    JobFactory(job_key="demo:a")
    with django_capture_on_commit_callbacks(execute=True):
        run_id = trigger_run("demo:a", now, traceparent=CALLER[:-1] + "0").run_id
    (assignment,) = claimed(clock, QueueEntry.objects.get(pk=run_id).lane_id)
    assert assignment["traceparent"].endswith("-00")
    assert spans.all() == []


def test_a_replay_is_a_trace_of_its_own(spans, now, django_capture_on_commit_callbacks):
    metadata = {"day": 1, traces.PARENT_KEY: CALLER}
    original = QueueEntryFactory(claimed=True, run__metadata=metadata)
    finish([acked(original)], now)
    with django_capture_on_commit_callbacks(execute=True):
        replay_id = replay_run(original.run_id, now, SYSTEM_ACTOR)
    assert Run.objects.get(pk=replay_id).metadata == {"day": 1}
    assert spans.one("croniq.replay").context.trace_id != spans.one("croniq.run").context.trace_id


def test_half_of_the_traces_are_half_of_the_runs_in_every_process(
    monkeypatch, clock, now, django_capture_on_commit_callbacks
):
    """By the ratio sampler, which takes a trace's lower half for random: whole runs or nothing of them."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    ids = [f"019cae6b6600724980000000{number:08x}" for number in range(400)]
    job, at = JobFactory(), to_micro(now)
    with recorded_spans() as spans:
        with django_capture_on_commit_callbacks(execute=True):
            runs = [PlannedRun(run_id, job.pk, job.lane_id, at, at, 0, 1, 0, 60.0, 60.0) for run_id in ids]
            traces.note_planned(runs, [job], now)
        planned = {span.attributes["croniq.execution_id"] for span in spans.all()}
        assert 120 < len(planned) < 280
        for run_id in ids[:20]:
            entry = QueueEntryFactory(run__id=UUID(run_id))
            (assignment,) = claimed(clock, entry.lane_id)
            assert assignment["traceparent"].endswith("-01" if str(UUID(run_id)) in planned else "-00")


def ending(name, entry, now):
    failure = acked(entry, AckStatus.FAILURE, error="it broke")
    claims = [(entry.run_id, entry.attempt)]
    return {
        "failed": lambda: finish([failure], now),
        "dead": lambda: finish([failure], now),
        "timed out": lambda: time_out(now + 400 * SECOND, 5),
        "lost": lambda: release(claims, now, LossCause.LEASE),
        "given back": lambda: release(claims, now, LossCause.DISCONNECTED),
        "cancelled": lambda: cancel_runs([entry.run_id], now, SYSTEM_ACTOR),
    }[name]


@pytest.mark.parametrize(
    ("name", "retries", "outcome", "error"),
    [
        ("failed", 3, "failed", "it broke"),
        ("dead", 0, "dead", "it broke"),
        ("timed out", 3, "failed", "The attempt ran past its timeout."),
        ("lost", 3, "lost", "lost"),
        ("given back", 3, None, None),
        ("cancelled", 3, "cancelled", None),
    ],
)
def test_however_an_attempt_ends_it_has_one_span(
    spans, now, name, retries, outcome, error, django_capture_on_commit_callbacks
):
    entry = QueueEntryFactory(claimed=True, job__max_retries=retries)
    with django_capture_on_commit_callbacks(execute=True):
        ending(name, entry, now)()
        assert spans.all() == []  # it may be rolled back
    if outcome is None:
        assert spans.named("croniq.run") == []
        return
    span = spans.one("croniq.run")
    assert (span.attributes["croniq.outcome"], span.attributes["croniq.attempt"]) == (outcome, 1)
    assert not span.status.is_ok
    assert error is None or span.status.description == error


def test_a_run_that_never_began_has_no_span_when_it_is_cancelled(spans, now, django_capture_on_commit_callbacks):
    entry = QueueEntryFactory()
    with django_capture_on_commit_callbacks(execute=True):
        cancel_runs([entry.run_id], now, SYSTEM_ACTOR)
    assert spans.all() == []


def test_an_ack_is_taken_though_its_span_is_lost(spans, now, monkeypatch, caplog):
    monkeypatch.setattr(traces, "_tell_of_ended", lambda attempts: 1 / 0)
    entry = QueueEntryFactory(claimed=True)
    assert finish([acked(entry)], now) == ["accepted"]
    assert "spans of 1 completed runs are lost" in caplog.text


class Broken(SpanProcessor):
    def on_end(self, span) -> None:
        raise RuntimeError("no span today")


def test_a_run_is_handed_out_though_its_span_is_lost(spans, clock, caplog):
    tracing.active.provider.add_span_processor(Broken())
    (assignment,) = claimed(clock, QueueEntryFactory().lane_id)
    assert place_of(assignment["traceparent"]) is not None
    assert "1 spans are lost" in caplog.text
    assert "no span today" in caplog.text


def test_a_run_is_made_and_handed_out_though_nobody_can_say_whether_it_is_recorded(
    spans, clock, now, monkeypatch, caplog, django_capture_on_commit_callbacks
):
    monkeypatch.setattr(tracing.active, "is_sampled", lambda trace_id: 1 / 0)
    JobFactory(job_key="demo:a")
    with django_capture_on_commit_callbacks(execute=True):
        run_id = trigger_run("demo:a", now).run_id
    (assignment,) = claimed(clock, QueueEntry.objects.get(pk=run_id).lane_id)
    assert "traceparent" not in assignment
    assert "spans of 1 claims are lost" in caplog.text


def cost(clock, entry) -> tuple[list[dict], int]:
    with CaptureQueriesContext(connection) as queries:
        work = claimed(clock, entry.lane_id, RunnerInstanceFactory())
    return work, len(queries)


def test_off_is_off(clock, now):
    """No query, no allocation in what makes spans, no field, and a caller's header is not kept."""
    assert tracing.active is None
    claimed(clock, QueueEntryFactory().lane_id)
    tracemalloc.start()
    try:
        (assignment,), off = cost(clock, QueueEntryFactory())
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    ours = [tracemalloc.Filter(True, file) for file in (traces.__file__, tracing.__file__, "*/opentelemetry/*")]
    assert taken.filter_traces(ours).statistics("filename") == []
    with recorded_spans():
        (other,), on = cost(clock, QueueEntryFactory())
    assert on == off
    assert set(other) - set(assignment) == {"traceparent"}
    JobFactory(job_key="demo:a")
    run_id = trigger_run("demo:a", now, traceparent=CALLER).run_id
    assert Run.objects.get(pk=run_id).metadata is None
