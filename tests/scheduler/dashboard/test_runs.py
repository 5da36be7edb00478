"""The lists of runs: filters, order, pages, and how the head keeps itself up to date."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.dashboard import runs
from scheduler.models import Run
from tests.factories import JobFactory, QueueEntryFactory, RunFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


def shown(client, path: str) -> list[str]:
    """The ids of the runs of a page, from top to bottom."""
    return [values["id"][4:] for values in Page(client.get(path)).all("a") if values.get("id", "").startswith("run-")]


def test_newest_first_and_what_is_planned_on_a_tab_of_its_own(viewer, now):
    job = JobFactory(job_key="ops:backup")
    old = RunFactory(job=job, completed=True, scheduled_for=now - timedelta(hours=2))
    due = QueueEntryFactory(job=job, run__scheduled_for=now - timedelta(seconds=1)).run
    later = QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(hours=2)).run
    soon = QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(minutes=1)).run
    assert shown(viewer, "/runs") == [str(due.id), str(old.id)]
    assert Page(viewer.get("/runs/planned")).links("/runs/0") == [f"/runs/{soon.id}", f"/runs/{later.id}"]


def test_a_fire_that_was_taken_out_stands_among_the_planned_ones_until_it_would_be_due(viewer, clock, now):
    job = JobFactory(job_key="ops:backup")
    done = RunFactory(job=job, completed=True, scheduled_for=now)
    out = RunFactory(
        job=job, verdict="skipped", problem="skipped", scheduled_for=now + timedelta(minutes=5), finished_at=now
    )
    later = QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(hours=2)).run
    assert shown(viewer, "/runs") == [str(done.id)]
    assert Page(viewer.get("/runs/planned")).links("/runs/0") == [f"/runs/{out.id}", f"/runs/{later.id}"]
    clock.tick(timedelta(minutes=5))
    assert shown(viewer, "/runs") == [str(out.id), str(done.id)]
    assert Page(viewer.get("/runs/planned")).links("/runs/0") == [f"/runs/{later.id}"]


def test_filters_are_in_the_address(viewer, now):
    backup, invoices = JobFactory(job_key="ops:backup"), JobFactory(job_key="billing:invoices")
    done = RunFactory(job=backup, completed=True, runner_id="a")
    dead = RunFactory(job=backup, dead=True, runner_id="b")
    other = RunFactory(job=invoices, dead=True, runner_id="b")
    held = QueueEntryFactory(job=invoices, claimed=True, holder__runner__runner_id="a").run
    assert shown(viewer, "/runs?job=ops:backup") == [str(dead.id), str(done.id)]
    assert shown(viewer, "/runs?state=dead") == [str(other.id), str(dead.id)]
    assert shown(viewer, "/runs?state=dead&job=ops:backup") == [str(dead.id)]
    assert shown(viewer, "/runs?state=claimed") == [str(held.id)]
    assert set(shown(viewer, "/runs?runner=a")) == {str(held.id), str(done.id)}
    page = Page(viewer.get("/runs?job=ops:backup&state=queued"))
    assert "No run matches" in page.text
    assert page.all("input", name="job", value="ops:backup")
    assert page.all("option", value="queued", selected="")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/runs?before=x", "before"),
        ("/runs?before=2026-03-02T12:00:00,0195f9a0-0000-7000-8000-000000000000", "before"),
        ("/runs?before=0001-01-01T00:00:00%2B14:00,0195f9a0-0000-7000-8000-000000000000", "before"),
        ("/runs?before=2026-03-02T12:00:00Z,zz", "before"),
        ("/runs/planned?after=%00", "after"),
    ],
)
def test_nonsense_in_the_address_is_a_page_that_names_the_field(viewer, path, field):
    answer = viewer.get(path)
    assert answer.status_code == 400
    assert field in Page(answer).text


@pytest.mark.parametrize("path", ["/runs?job=%00", "/runs?job=%ff%fe", "/runs?runner=%00&state=dead", "/runs?seen=%00"])
def test_odd_bytes_in_a_filter_match_nothing_and_break_nothing(viewer, path):
    assert viewer.get(path).status_code == 200


def test_older_runs_follow_each_once_though_new_ones_come(viewer, now, monkeypatch):
    monkeypatch.setattr(runs, "PAGE_ROWS", 2)
    job = JobFactory(job_key="ops:backup")
    # Three of one instant: the place is an instant and an id.
    at = [now - timedelta(minutes=minute) for minute in (1, 2, 2, 2, 3, 4)]
    made = [RunFactory(job=job, completed=True, kind="triggered", scheduled_for=instant) for instant in at]
    seen, path = [], "/runs?job=ops:backup"
    while path:
        page = Page(viewer.get(path))
        seen += shown(viewer, path)
        path = next(iter(values["href"] for values in page.all("a", rel="next")), "")
        assert not path or "job=ops" in path
        RunFactory(job=job, completed=True, kind="triggered", scheduled_for=now)
    assert sorted(seen) == sorted(str(run.id) for run in made)
    assert len(seen) == 6


def test_planned_runs_go_on_too(viewer, now, monkeypatch):
    monkeypatch.setattr(runs, "PAGE_ROWS", 2)
    made = [QueueEntryFactory(run__scheduled_for=now + timedelta(minutes=m)).run for m in (1, 2, 2, 3, 4)]
    seen, path = [], "/runs/planned"
    while path:
        page = Page(viewer.get(path))
        seen += page.links("/runs/0")
        path = next(iter(values["href"] for values in page.all("a", rel="next")), "")
    assert sorted(seen) == sorted(f"/runs/{run.id}" for run in made)
    assert len(seen) == 5


def test_the_head_of_the_list_asks_again_and_gets_only_what_is_new(viewer, now):
    job = JobFactory(job_key="ops:backup")
    run = RunFactory(job=job, completed=True)
    [part] = Page(viewer.get("/runs?job=ops:backup&state=completed")).all("div", id="runs")
    live = part["hx-get"]
    assert part["hx-trigger"] == "every 3s"
    assert viewer.get(live, headers=HTMX).status_code == 204
    RunFactory(job=job, dead=True)
    assert viewer.get(live, headers=HTMX).status_code == 204  # of another state: it disturbs nobody
    newer = RunFactory(job=job, completed=True)
    answer = viewer.get(live, headers=HTMX)
    assert b"<html" not in answer.content
    [again] = Page(answer).all("div", id="runs")
    assert again["hx-get"] != live
    assert "state=completed" in again["hx-get"]
    assert [values["id"] for values in Page(answer).all("a") if "id" in values] == [f"run-{newer.id}", f"run-{run.id}"]


def test_an_older_page_stands_still(viewer, now, monkeypatch):
    monkeypatch.setattr(runs, "PAGE_ROWS", 1)
    for _ in range(3):
        RunFactory(completed=True)
    [older] = Page(viewer.get("/runs")).all("a", rel="next")
    [part] = Page(viewer.get(older["href"])).all("div", id="runs")
    assert "hx-get" not in part


def test_without_any_run_the_page_says_what_to_do(viewer):
    text = Page(viewer.get("/runs")).text
    assert "No runs yet" in text
    assert "Run now" in text
    assert Run.objects.count() == 0
