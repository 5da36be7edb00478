"""One run: its attempts, and its cancel."""

from __future__ import annotations

import pytest

from runners.models import AuditEvent
from scheduler.models import QueueEntry, Run
from tests.factories import (
    AttemptFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerFactory,
    SlotFactory,
)
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


def test_a_run_with_every_attempt(viewer):
    run = RunFactory(dead=True, attempt=2, error="exit code 7", duration_ms=61_000, reason="retries_exhausted")
    AttemptFactory(run=run, attempt=1, outcome="lost", cause="lease", error="")
    text = Page(viewer.get(f"/runs/{run.id}")).text
    for said in (
        "Dead",
        "Lost",
        "its lease ran out",
        "Failed",
        "exit code 7",
        "1 min 1 s",
        "retries exhausted",
        str(run.id),
    ):
        assert said in text


def test_a_replay_links_the_run_that_died(viewer):
    dead = RunFactory(dead=True)
    replay = RunFactory(job=dead.job, kind="replay", completed=True, replay_of=dead)
    page = Page(viewer.get(f"/runs/{replay.id}"))
    assert f"Replay of {dead.id}" in page.text
    assert f"/runs/{dead.id}" in page.links("/runs/")
    assert "Replay of" not in Page(viewer.get(f"/runs/{dead.id}")).text


def test_the_head_of_a_run_follows_it_to_its_end(viewer):
    entry = QueueEntryFactory(claimed=True)
    [part] = Page(viewer.get(f"/runs/{entry.run_id}")).all("div", id="run")
    assert viewer.get(part["hx-get"], headers=HTMX).status_code == 204
    QueueEntry.objects.all().delete()
    Run.objects.update(verdict="completed", finished_at=entry.claimed_at, attempt=1)
    answer = viewer.get(part["hx-get"], headers=HTMX)
    assert "Completed" in Page(answer).text
    assert b"<html" not in answer.content
    assert "hx-get" not in Page(answer).all("div", id="run")[0]


def test_a_waiting_run_is_cancelled_at_once_and_a_running_one_through_its_runner(operator):
    waiting, running = QueueEntryFactory(), QueueEntryFactory(claimed=True)
    answer = operator.post(f"/runs/{waiting.run_id}/cancel", follow=True)
    assert answer.redirect_chain == [(f"/runs/{waiting.run_id}", 302)]
    assert "Cancelled." in Page(answer).text
    told = operator.post(f"/runs/{running.run_id}/cancel", follow=True)
    assert "Its runner is told to stop it." in Page(told).text
    assert set(Run.objects.values_list("verdict", flat=True)) == {"cancelled"}
    assert set(AuditEvent.objects.values_list("action", "actor_id")) == {("run.cancelled", "otto")}
    assert not Page(told).all("button", id="cancel")


def test_cancelling_what_is_finished_is_a_message(operator):
    run = RunFactory(completed=True)
    answer = operator.post(f"/runs/{run.id}/cancel", follow=True)
    assert answer.redirect_chain == [(f"/runs/{run.id}", 302)]
    assert "completed already" in Page(answer).text
    assert Run.objects.get().verdict == "completed"


def test_a_run_that_waits_says_why(viewer, now):
    job = JobFactory(max_concurrent=1)
    holder = QueueEntryFactory(job=job, claimed=True)
    SlotFactory(run=holder.run)
    entry = QueueEntryFactory(job=job, state=QueueEntry.State.GATED, available_at=now)
    page = Page(viewer.get(f"/runs/{entry.run_id}"))
    assert f"The job {job.job_key} runs at most 1 at once" in page.text
    assert page.links(f"/runs/{holder.run_id}") == [f"/runs/{holder.run_id}"]
    assert "No runner that serves the tenant default" not in page.text  # the holder's was seen just now
    assert "Why it waits" not in Page(viewer.get(f"/runs/{holder.run_id}")).text


def test_a_reason_that_goes_away_goes_from_the_page(viewer, now):
    entry = QueueEntryFactory(available_at=now)
    page = viewer.get(f"/runs/{entry.run_id}")
    assert "Why it waits" in Page(page).text
    (live,) = [values["hx-get"] for values in Page(page).all("div") if values.get("id") == "run"]
    assert viewer.get(live, headers=HTMX).status_code == 204
    RunnerFactory(last_poll_at=now)
    answer = viewer.get(live, headers=HTMX)
    assert answer.status_code == 200
    assert "Why it waits" not in Page(answer).text
