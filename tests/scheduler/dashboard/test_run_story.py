"""A run's page beyond its attempts: its way through the states, its line of time, who did what, and doing it again."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.db.models import F

from runners.services.audit import Actor
from scheduler.dashboard import run_path, run_timeline
from scheduler.dashboard.run_path import HEIGHT, WIDTH, diagram_of, moves_of, projected_edges, steps_of
from scheduler.dashboard.run_timeline import timeline_of
from scheduler.models import Job, QueueEntry, Run
from scheduler.queries import run_compare
from scheduler.queries.run_compare import compare_with_last_good
from scheduler.queries.run_story import Claim, run_story
from scheduler.queries.runs import AttemptRow, RunDetail, RunRow, run_detail
from scheduler.services.backfill import backfill
from scheduler.services.cancel import cancel_runs
from scheduler.services.replays import replay_run
from scheduler.services.trigger_runs import trigger_run
from tests.factories import (
    NOW,
    AttemptFactory,
    DeadLetterFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
)
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page
from tests.scheduler.planning.support import make_job, make_trigger

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
ANNA = Actor("user", "anna")


def detail(state: str, outcomes: str = "", **fields) -> RunDetail:
    """A run made by hand: an attempt a word, each a minute long and begun a minute after the one before."""
    names = outcomes.split()
    attempts = tuple(
        AttemptRow(
            attempt=number,
            outcome=outcome,
            cause="",
            runner_id="r",
            claimed_at=NOW + (2 * number - 1) * MINUTE,
            ended_at=None if outcome == "running" else NOW + 2 * number * MINUTE,
            duration_ms=None,
            error="",
        )
        for number, outcome in enumerate(names, start=1)
    )
    is_over = state not in ("queued", "claimed")
    values = {
        "id": UUID(int=1),
        "job_id": 1,
        "job_key": "ops:a",
        "tenant": "default",
        "kind": "scheduled",
        "state": state,
        "attempt": len(names),
        "scheduled_for": NOW,
        "fire_at": NOW,
        "runner_id": "r",
        "claimed_at": attempts[-1].claimed_at if attempts else None,
        "completed_at": NOW + 2 * max(1, len(names)) * MINUTE if is_over else None,
        "duration_ms": None,
        "error": "",
        "reason": "",
        "created_at": NOW - MINUTE,
        "is_planned": False,
        "is_winding_down": False,
        **fields,
    }
    return RunDetail(RunRow(**values), NOW, {}, attempts, None)


# The way


def test_the_diagram_has_the_edges_of_the_table_and_stays_on_its_sheet():
    diagram = diagram_of(detail("queued"))
    assert {(arrow.start, arrow.end) for arrow in diagram.arrows} == projected_edges()
    assert {box.name for box in diagram.boxes} == {name for edge in projected_edges() for name in edge}
    for box in diagram.boxes:
        assert 0 <= box.x <= WIDTH - diagram.box_width
        assert 0 <= box.y <= HEIGHT - diagram.box_height
    assert all(0 < arrow.label_x < WIDTH and 0 < arrow.label_y < HEIGHT for arrow in diagram.arrows)


CLAIM, BACK = ("queued", "claimed"), ("claimed", "queued")


@pytest.mark.parametrize(
    ("run", "moves"),
    [
        (detail("queued"), []),
        (detail("claimed", "running"), [CLAIM]),
        (detail("queued", "failed"), [CLAIM, BACK]),
        (detail("claimed", "lost running"), [CLAIM, BACK, CLAIM]),
        (detail("completed", "completed"), [CLAIM, ("claimed", "completed")]),
        (detail("dead", "lost failed"), [CLAIM, BACK, CLAIM, ("claimed", "dead")]),
        (detail("dead", "timed_out"), [CLAIM, ("claimed", "stopping"), ("stopping", "dead")]),
        (detail("cancelled", "cancelled"), [CLAIM, ("claimed", "stopping"), ("stopping", "cancelled")]),
        (detail("cancelled", "cancelled", is_winding_down=True), [CLAIM, ("claimed", "stopping")]),
        (detail("cancelled"), [("queued", "cancelled")]),
        (detail("skipped"), [("queued", "skipped")]),
    ],
)
def test_the_way_of_a_run_goes_along_the_table(run, moves):
    assert list(moves_of(run)) == moves
    assert set(moves) <= projected_edges()
    diagram = diagram_of(run)
    assert {(arrow.start, arrow.end): arrow.times for arrow in diagram.arrows if arrow.times} == {
        move: moves.count(move) for move in moves
    }
    [here] = [box.name for box in diagram.boxes if box.kind == "here"]
    assert here == (moves[-1][1] if moves else "queued")


def test_the_steps_are_told_in_their_order_with_what_is_to_come():
    run = detail("queued", "failed", fire_at=NOW + 9 * MINUTE)
    steps = steps_of(run, NOW + 3 * MINUTE)
    assert [(step.at, step.words, step.is_to_come) for step in steps] == [
        (NOW - MINUTE, "Planned", False),
        (NOW, "Fell due", False),
        (NOW + MINUTE, "Attempt 1 began on r", False),
        (NOW + 2 * MINUTE, "Attempt 1 failed", False),
        (NOW + 9 * MINUTE, "Attempt 2 is due", True),
    ]
    assert [step.words for step in steps_of(detail("completed", "completed", kind="replay"), NOW)][-1:] == [
        "Attempt 1 completed"
    ]
    assert [step.words for step in steps_of(detail("skipped", kind="triggered", created_at=NOW), NOW)] == [
        "Asked for",
        "Skipped",
    ]


def test_of_very_many_steps_the_first_and_the_last_are_told():
    run = detail("dead", "failed " * 50)
    steps = steps_of(run, NOW)
    assert len(steps) == run_path.MOST_STEPS
    assert [step.words for step in steps[:3]] == ["Planned", "Fell due", "92 steps more"]
    assert steps[-2].words == "Attempt 50 failed"


@pytest.mark.django_db
def test_a_run_that_was_retried_still_tells_when_it_fell_due(viewer, now):
    run = RunFactory(dead=True, attempt=2, scheduled_for=now - 3 * MINUTE)
    assert "Due 2026-03-02 11:57:00 UTC" in Page(viewer.get(f"/runs/{run.pk}")).text


# The line of time


def test_each_attempt_has_its_wait_and_its_time_on_one_line():
    line = timeline_of(detail("dead", "lost failed"), None, NOW + 60 * MINUTE)
    assert (line.start, line.end, line.is_open) == (NOW, NOW + 4 * MINUTE, False)
    assert [(lane.wait_x, lane.wait_width, lane.x, lane.width, lane.is_bad) for lane in line.lanes] == [
        ("0.0", "250.0", "250.0", "250.0", True),
        ("500.0", "250.0", "750.0", "250.0", True),
    ]
    assert [lane.waited for lane in line.lanes] == [MINUTE, MINUTE]


def test_what_runs_and_what_waits_reaches_to_now():
    claim = Claim("claimed", 3, NOW + 3 * MINUTE, NOW + 4 * MINUTE, None)
    line = timeline_of(detail("claimed", "running"), claim, NOW + 4 * MINUTE)
    [lane] = line.lanes
    assert (lane.x, lane.width, lane.beat_x, lane.is_bad, line.is_open) == ("250.0", "750.0", "750.0", False, True)
    line = timeline_of(detail("queued", "failed"), None, NOW + 4 * MINUTE)
    assert [lane.attempt is None for lane in line.lanes] == [False, True]
    assert (line.lanes[1].wait_x, line.lanes[1].wait_width) == ("500.0", "500.0")
    assert timeline_of(detail("queued", scheduled_for=NOW + MINUTE), None, NOW) is None
    many = timeline_of(detail("dead", "failed " * 50), None, NOW)
    assert (len(many.lanes), many.left_out) == (run_timeline.MOST_LANES, 10)


@pytest.mark.django_db
def test_the_page_tells_the_last_sign_of_life_and_how_long_the_lease_is_good_for(viewer, now):
    entry = QueueEntryFactory(
        claimed=True, lease_seconds=60, lease_expires_at=now + 40 * SECOND, claimed_at=now - MINUTE, max_attempts=4
    )
    page = Page(viewer.get(f"/runs/{entry.run_id}"))
    assert "Last sign of life 2026-03-02 11:59:40 UTC" in page.text
    assert "Lease until 2026-03-02 12:00:40 UTC" in page.text
    assert "1 of 4 at most" in page.text
    [part] = page.all("div", id="run")
    assert viewer.get(part["hx-get"], headers=HTMX).status_code == 204
    QueueEntry.objects.update(lease_expires_at=now + MINUTE)
    assert "Last sign of life 2026-03-02 12:00:00 UTC" in Page(viewer.get(part["hx-get"], headers=HTMX)).text
    # A lease that was longer when it was given says nothing about its last beat.
    QueueEntry.objects.update(lease_expires_at=now + 3 * MINUTE)
    assert "Last sign of life" not in Page(viewer.get(f"/runs/{entry.run_id}")).text


# Who did what


def told(run_id, now) -> list[tuple[str, str]]:
    return [(event.action, event.actor_id) for event in run_story(run_detail(run_id, now), now).events]


@pytest.mark.django_db
def test_who_asked_for_a_run_and_who_ended_it_is_told(viewer, now):
    job = make_job(now)
    run = trigger_run(job.job_key, now, actor=ANNA).run_id
    other = trigger_run(job.job_key, now, actor=Actor("user", "bert")).run_id
    cancel_runs([run], now + SECOND, Actor("user", "carl"), "no longer needed")
    assert told(run, now) == [("job.triggered", "anna"), ("run.cancelled", "carl")]
    assert told(other, now) == [("job.triggered", "bert")]
    text = Page(viewer.get(f"/runs/{run}")).text
    assert "Who did what" in text
    assert "no longer needed" in text


@pytest.mark.django_db
def test_a_replay_and_its_original_both_tell_who_asked(now):
    dead = RunFactory(dead=True)
    replay = replay_run(dead.pk, now, ANNA)
    assert told(replay, now) == [("run.replayed", "anna")]
    assert told(dead.pk, now) == [("run.replayed", "anna")]


@pytest.mark.django_db
def test_a_run_that_a_backfill_made_tells_who_made_up_for_it(now):
    job = make_job(now - timedelta(days=1))
    make_trigger(job, now - timedelta(days=1), every="1h")
    backfill(job.job_key, now - timedelta(hours=2), now - timedelta(hours=1), now, ANNA)
    run = Run.objects.filter(job=job, created_at=now).first()
    assert ("job.backfilled", "anna") in told(run.pk, now)
    planned = RunFactory(job=job, scheduled_for=now + MINUTE, created_at=now, completed=True)
    assert told(planned.pk, now) == []


# Once more


@pytest.mark.django_db
def test_a_run_is_done_once_more_for_the_same_instant_and_both_name_each_other(operator, now):
    dead = RunFactory(dead=True)
    letter = DeadLetterFactory(run=dead, job=dead.job)
    page = Page(operator.get(f"/runs/{dead.pk}"))
    assert page.all("button", id="rerun")
    assert f"/letters/{letter.pk}" in page.links("/letters/")
    answer = operator.post(f"/runs/{dead.pk}/rerun", follow=True)
    replay = Run.objects.get(replay_of=dead)
    assert answer.redirect_chain == [(f"/runs/{replay.pk}", 302)]
    assert replay.scheduled_for == dead.scheduled_for
    assert f"/runs/{dead.pk}" in Page(answer).links("/runs/")
    again = operator.post(f"/runs/{dead.pk}/rerun", follow=True)
    assert again.redirect_chain == [(f"/runs/{replay.pk}", 302)]
    assert "this is that run" in Page(again).text
    assert Run.objects.filter(replay_of=dead).count() == 1
    page = Page(operator.get(f"/runs/{dead.pk}"))
    assert not page.all("button", id="rerun")
    assert f"/runs/{replay.pk}" in page.links("/runs/")


@pytest.mark.django_db
def test_what_has_not_ended_or_is_of_a_deleted_job_is_not_done_once_more(operator, viewer, now):
    entry = QueueEntryFactory()
    assert not Page(operator.get(f"/runs/{entry.run_id}")).all("button", id="rerun")
    answer = operator.post(f"/runs/{entry.run_id}/rerun", follow=True)
    assert "has not run to an end" in Page(answer).text
    dead = RunFactory(dead=True)
    assert not Page(viewer.get(f"/runs/{dead.pk}")).all("button", id="rerun")
    assert viewer.post(f"/runs/{dead.pk}/rerun").status_code == 403
    Job.objects.filter(pk=dead.job_id).update(deleted_at=now)
    assert not Page(operator.get(f"/runs/{dead.pk}")).all("button", id="rerun")
    assert "The job was deleted" in Page(operator.post(f"/runs/{dead.pk}/rerun", follow=True)).text
    assert operator.post(f"/runs/{UUID(int=7)}/rerun").status_code == 404
    assert not Run.objects.filter(kind="replay").exists()


# Beside the last good one


def good_and_bad(now, **fields):
    job = JobFactory()
    good = RunFactory(
        job=job,
        completed=True,
        scheduled_for=now - 30 * MINUTE,
        claimed_at=now - 29 * MINUTE,
        duration_ms=1000,
        runner_id="one",
        metadata={"size": 3, "same": 1},
    )
    bad = RunFactory(
        job=job,
        dead=True,
        scheduled_for=now - 10 * MINUTE,
        claimed_at=now - 5 * MINUTE,
        duration_ms=90_000,
        runner_id="two",
        metadata={"size": 4, "same": 1, "new": True},
        **fields,
    )
    return good, bad


@pytest.mark.django_db
def test_a_run_is_compared_with_the_last_good_one_before_it(now):
    good, bad = good_and_bad(now)
    RunFactory(job=bad.job, completed=True, scheduled_for=now - 5 * MINUTE)
    RunFactory(job=bad.job, dead=True, scheduled_for=now - 20 * MINUTE)
    RunFactory(completed=True, scheduled_for=now - 11 * MINUTE)
    found = compare_with_last_good(run_detail(bad.pk, now), now)
    assert found.other.id == good.pk
    assert (found.wait_here, found.wait_there) == (5 * MINUTE, MINUTE)
    assert [(one.name, one.here, one.there) for one in found.metadata] == [("new", True, None), ("size", 4, 3)]
    assert compare_with_last_good(run_detail(good.pk, now), now) is None


@pytest.mark.django_db
def test_a_good_run_too_far_back_is_not_looked_for(now, monkeypatch):
    monkeypatch.setattr(run_compare, "LOOKED_AT", 2)
    good, bad = good_and_bad(now)
    RunFactory(job=bad.job, dead=True, scheduled_for=now - 20 * MINUTE)
    assert compare_with_last_good(run_detail(bad.pk, now), now).other.id == good.pk
    RunFactory(job=bad.job, dead=True, scheduled_for=now - 21 * MINUTE)
    assert compare_with_last_good(run_detail(bad.pk, now), now) is None


def say(run, *lines: str, attempt: int | None = None) -> None:
    for line in lines:
        level, _, message = line.partition(" ")
        RunLogFactory(run=run, attempt=attempt or run.attempt, level=level, message=message)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("here", "there", "number", "shown"),
    [
        (["info step 1 took 5 ms", "info done"], ["info step 1 took 77 ms", "error no disk"], 2, "error no disk"),
        (["info a", "info b"], ["info a"], 2, None),
        (["info a"], ["warning a"], 1, "warning a"),
        (["info run 17"], ["info run 18"], None, None),
        ([], [], None, None),
    ],
)
def test_the_first_line_that_differs_by_more_than_numbers_is_found(now, here, there, number, shown):
    good, bad = good_and_bad(now, attempt=2)
    AttemptFactory(run=bad, attempt=1)
    say(bad, "error of the attempt before", attempt=1)
    say(good, *here)
    say(bad, *there)
    line = compare_with_last_good(run_detail(bad.pk, now), now).line
    assert (None if line is None else line.number) == number
    if line is not None:
        assert (None if line.here is None else f"{line.here.level} {line.here.message}") == shown


@pytest.mark.django_db
def test_what_a_run_was_given_is_shown_to_those_alone_who_could_give_it(viewer, operator, now):
    _, bad = good_and_bad(now)
    Run.objects.filter(pk=bad.pk).update(metadata={"customer": "Ada"})
    for client, sees in ((viewer, False), (operator, True)):
        text = Page(client.get(f"/runs/{bad.pk}")).text
        assert "Beside the last good run" in text
        assert "customer" in text
        assert ("Ada" in text) == sees


@pytest.mark.django_db
def test_beside_a_run_whose_start_is_not_known_the_wait_is_a_dash(viewer, now):
    good, bad = good_and_bad(now)
    Run.objects.filter(pk=good.pk).update(claimed_at=None)
    assert "From due to its last start 5 min –" in Page(viewer.get(f"/runs/{bad.pk}")).text


@pytest.mark.django_db
def test_what_is_said_alike_is_not_marked_as_another(viewer, now):
    good, bad = good_and_bad(now)
    Run.objects.filter(pk=good.pk).update(claimed_at=F("claimed_at") + timedelta(minutes=4, milliseconds=1))
    page = Page(viewer.get(f"/runs/{bad.pk}"))
    assert "From due to its last start 5 min 5 min" in page.text
    marked = page.all("tr", class_="other")
    Run.objects.filter(pk=good.pk).update(claimed_at=F("claimed_at") + timedelta(minutes=1))
    assert len(Page(viewer.get(f"/runs/{bad.pk}")).all("tr", class_="other")) == len(marked) + 1


@pytest.mark.django_db
def test_a_run_that_goes_on_is_compared_once_it_is_over(viewer, now):
    good, _ = good_and_bad(now)
    entry = QueueEntryFactory(job=good.job, claimed=True, run__scheduled_for=now)
    page = Page(viewer.get(f"/runs/{entry.run_id}"))
    assert "Beside the last good run" not in page.text
    [part] = page.all("div", id="run")
    QueueEntry.objects.all().delete()
    Run.objects.filter(pk=entry.run_id).update(verdict="completed", finished_at=now, attempt=1, claimed_at=now)
    assert "Beside the last good run" in Page(viewer.get(part["hx-get"], headers=HTMX)).text
