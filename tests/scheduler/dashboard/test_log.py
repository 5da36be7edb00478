"""The log of a run, while it is written and afterwards."""

from __future__ import annotations

import pytest

from scheduler.dashboard import log
from scheduler.models import QueueEntry, Run, RunLog
from tests.factories import QueueEntryFactory, RunFactory, RunLogFactory
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
    read = log.log_lines

    def and_then_the_run_ends(run_id, **rest):
        lines = read(run_id, **rest)
        RunLogFactory(run=entry.run, message="the very last")
        QueueEntry.objects.all().delete()
        Run.objects.update(verdict="completed", finished_at=entry.claimed_at, attempt=1)
        return lines

    with monkeypatch.context() as patch:
        patch.setattr(log, "log_lines", and_then_the_run_ends)
        assert follow(viewer, page) == (204, None)
    assert "the very last" in follow(viewer, page)[1].text


def test_a_long_log_is_loaded_in_pieces_and_ends_at_its_bound(viewer, monkeypatch):
    monkeypatch.setattr(log, "LOG_CHUNK", 2)
    monkeypatch.setattr(log, "MOST_LINES", 5)
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
    monkeypatch.setattr(log, "LOG_CHUNK", 2)
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


def test_a_run_without_lines_says_why(viewer):
    silent, never = (
        RunFactory(completed=True),
        RunFactory(verdict="skipped", problem="skipped", finished_at="2026-03-02T12:00Z"),
    )
    assert "wrote no lines" in Page(viewer.get(f"/runs/{silent.id}")).text
    assert "never started" in Page(viewer.get(f"/runs/{never.id}")).text
    assert not RunLog.objects.exists()
