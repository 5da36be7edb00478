"""One run: its attempts, its log while it is written, and its cancel."""

from __future__ import annotations

import pytest

from runners.models import AuditEvent
from scheduler.dashboard import runs
from scheduler.models import QueueEntry, Run, RunLog
from tests.factories import (
    AttemptFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    RunnerFactory,
    SlotFactory,
)
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


def lines_of(page: Page) -> list[str]:
    return [values["class"] for values in page.all("li")]


def follow(client, page: Page) -> tuple[int, Page | None]:
    """Ask for what follows a page's log, as htmx does: the status and, unless 204, the part."""
    [more] = page.all("li", class_="more")
    answer = client.get(more["hx-get"], headers=HTMX)
    return answer.status_code, Page(answer) if answer.status_code == 200 else None


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


def test_the_log_of_a_finished_run_is_whole_and_ends(viewer):
    run = RunFactory(completed=True)
    for number, level in enumerate(["info", "WARN", "error", "notice"]):
        RunLogFactory(run=run, message=f"line {number}", level=level, fields={"user": 7, "job_key": "x:y"})
    page = Page(viewer.get(f"/runs/{run.id}"))
    assert lines_of(page) == ["level-info", "level-warning", "level-error", "level-info", "more"]
    assert page.text.index("line 0") < page.text.index("line 1") < page.text.index("line 3")
    assert "WARN" in page.text  # a level is a word, as its handler wrote it, and not only a colour
    assert "user=7" in page.text
    assert "End of the log" in page.text
    assert not [values for values in page.all("li") if "hx-get" in values]
    assert not [values for values in page.all("div") if "hx-get" in values]


def test_the_log_of_a_running_run_comes_in_pieces_until_it_is_over(viewer):
    entry = QueueEntryFactory(claimed=True)
    RunLogFactory(run=entry.run, message="first")
    page = Page(viewer.get(f"/runs/{entry.run_id}"))
    assert follow(viewer, page) == (204, None)
    RunLogFactory(run=entry.run, message="second")
    RunLogFactory(run=entry.run, message="third")
    status, part = follow(viewer, page)
    assert status == 200
    assert part.text.startswith("2026-03-02 12:00:00 UTC info second")
    assert "first" not in part.text
    assert "third" in part.text
    assert follow(viewer, part) == (204, None)
    RunLogFactory(run=entry.run, message="last")
    run_id = entry.run_id
    entry.delete()
    Run.objects.filter(pk=run_id).update(verdict="completed", finished_at=entry.claimed_at, attempt=1)
    status, end = follow(viewer, part)
    assert "last" in end.text
    assert "End of the log" in end.text
    assert [values for values in end.all("li") if "hx-get" in values] == []


def test_what_a_handler_still_says_after_a_cancel_is_followed(viewer):
    entry = QueueEntryFactory(stopping=True)
    page = Page(viewer.get(f"/runs/{entry.run_id}"))
    assert "still winds down" in page.text
    assert follow(viewer, page) == (204, None)
    RunLogFactory(run=entry.run, message="cleaning up")
    assert "cleaning up" in follow(viewer, page)[1].text


def test_a_line_that_is_written_in_the_last_moment_is_not_missed(viewer, monkeypatch):
    entry = QueueEntryFactory(claimed=True)
    page = Page(viewer.get(f"/runs/{entry.run_id}"))
    read = runs.log_lines

    def and_then_the_run_ends(run_id, **rest):
        lines = read(run_id, **rest)
        RunLogFactory(run=entry.run, message="the very last")
        QueueEntry.objects.all().delete()
        Run.objects.update(verdict="completed", finished_at=entry.claimed_at, attempt=1)
        return lines

    with monkeypatch.context() as patch:
        patch.setattr(runs, "log_lines", and_then_the_run_ends)
        assert follow(viewer, page) == (204, None)
    assert "the very last" in follow(viewer, page)[1].text


def test_a_long_log_is_loaded_in_pieces_and_ends_at_its_bound(viewer, monkeypatch):
    monkeypatch.setattr(runs, "LOG_CHUNK", 2)
    monkeypatch.setattr(runs, "MOST_LINES", 5)
    run = RunFactory(completed=True)
    for number in range(8):
        RunLogFactory(run=run, message=f"line {number}")
    page = Page(viewer.get(f"/runs/{run.id}"))
    texts, polls = page.text, 0
    while any("hx-get" in values for values in page.all("li", class_="more")):
        assert page.all("li", hx_trigger="load")
        polls, page = polls + 1, follow(viewer, page)[1]
        texts += page.text
    assert polls == 2
    assert [texts.count(f"line {number}") for number in range(8)] == [1, 1, 1, 1, 1, 0, 0, 0]
    [next_page] = page.links("/runs/")
    rest = Page(viewer.get(next_page))
    assert "line 5" in rest.text
    assert "line 4" not in rest.text


def test_without_script_a_long_log_has_a_link_to_its_next_lines(viewer, monkeypatch):
    monkeypatch.setattr(runs, "LOG_CHUNK", 2)
    run = RunFactory(completed=True)
    for number in range(3):
        RunLogFactory(run=run, message=f"line {number}")
    page = Page(viewer.get(f"/runs/{run.id}"))
    [link] = [link for link in page.links(f"/runs/{run.id}?") if "after=" in link]
    rest = Page(viewer.get(link))
    assert "line 2" in rest.text
    assert "From its beginning" in rest.text


@pytest.mark.parametrize("after", ["-1", "x", "1e3", "9" * 30, "%00", "١"])
def test_a_place_in_the_log_is_a_number(viewer, after):
    run = RunFactory(completed=True)
    for path in (f"/runs/{run.id}", f"/runs/{run.id}/log"):
        answer = viewer.get(f"{path}?after={after}")
        assert answer.status_code == 400
        assert "after" in Page(answer).text


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


def test_a_run_without_lines_says_why(viewer):
    silent, never = (
        RunFactory(completed=True),
        RunFactory(verdict="skipped", problem="skipped", finished_at="2026-03-02T12:00Z"),
    )
    assert "wrote no lines" in Page(viewer.get(f"/runs/{silent.id}")).text
    assert "never started" in Page(viewer.get(f"/runs/{never.id}")).text
    assert not RunLog.objects.exists()


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
