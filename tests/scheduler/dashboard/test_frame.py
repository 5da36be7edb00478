"""What stands around every page: the banner of workers that stand still, the keys, and the page that moves."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from runners.models import Heartbeat
from scheduler.dashboard.frame import SILENT
from scheduler.dashboard.shortcuts import JUMPS, KEYS
from tests.factories import HeartbeatFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

MATERIALIZER, REAPER = "The materializer is not at work", "The reaper is not at work"


@pytest.fixture
def beats(now):
    """All processes, just alive and with a pass behind them."""
    for kind in ("serve", "materialize", "reap"):
        HeartbeatFactory(kind=kind, beat_at=now, tick_at=now)


def said(answer) -> set[str]:
    text = Page(answer).text
    return {sentence for sentence in (MATERIALIZER, REAPER) if sentence in text}


@pytest.mark.parametrize("path", ["/jobs", "/now", "/runs", "/next", "/audit", "/jobs/new", "/time-zone", "/palette"])
def test_every_page_says_which_worker_stands_still_while_it_answers(operator, now, clock, beats, path):
    assert said(operator.get(path)) == set()
    Heartbeat.objects.exclude(kind="materialize").update(beat_at=now + SILENT, tick_at=now + SILENT)
    clock.set(now + SILENT)
    assert said(operator.get(path)) == set()
    clock.tick(timedelta(milliseconds=1))
    assert said(operator.get(path)) == {MATERIALIZER}


def test_a_worker_that_stopped_in_good_order_or_never_was_stands_still_at_once(viewer, now, beats):
    Heartbeat.objects.filter(kind="reap").update(ended_at=now)
    seen = viewer.get("/jobs")
    assert said(seen) == {REAPER}
    assert "no alert is sent" in Page(seen).text, "an alert cannot say so"
    Heartbeat.objects.all().delete()
    assert said(viewer.get("/jobs")) == {MATERIALIZER, REAPER}


def test_one_that_lives_and_finishes_no_pass_stands_still(viewer, now, clock, beats):
    """A beat without a tick: it began, and has been at its first pass ever since."""
    clock.set(now + SILENT + timedelta(seconds=1))
    Heartbeat.objects.update(beat_at=clock.now())
    assert said(viewer.get("/jobs")) == {MATERIALIZER, REAPER}


def test_another_of_its_kind_is_enough(viewer, now, clock, beats):
    clock.set(now + timedelta(hours=1))
    for kind in ("materialize", "reap"):
        HeartbeatFactory(kind=kind, beat_at=clock.now(), tick_at=clock.now())
    assert said(viewer.get("/jobs")) == set()


def test_signs_of_life_from_before_a_clock_was_set_back_are_none(viewer, now, clock, beats):
    clock.set(now - SILENT)  # as much as what one server sees later than another
    assert said(viewer.get("/jobs")) == set()
    clock.set(now - timedelta(hours=1))
    assert said(viewer.get("/jobs")) == {MATERIALIZER, REAPER}
    HeartbeatFactory(kind="reap", beat_at=clock.now(), tick_at=clock.now())
    assert said(viewer.get("/jobs")) == {MATERIALIZER}


def test_an_open_page_asks_for_the_banner_and_is_left_alone_while_it_has_not_changed(viewer, now, clock, beats):
    [banner] = Page(viewer.get("/runs")).all("div", id="banner")
    assert banner["data-hx-trigger"] == "every 15s"
    assert viewer.get(banner["data-hx-get"], headers=HTMX).status_code == 204
    clock.set(now + SILENT + timedelta(seconds=1))
    answer = viewer.get(banner["data-hx-get"], headers=HTMX)
    assert said(answer) == {MATERIALIZER, REAPER}
    [raised] = Page(answer).all("div", id="banner")
    assert viewer.get(raised["data-hx-get"], headers=HTMX).status_code == 204
    Heartbeat.objects.update(beat_at=clock.now(), tick_at=clock.now())
    answer = viewer.get(raised["data-hx-get"], headers=HTMX)
    assert (answer.status_code, said(answer)) == (200, set())


def test_a_page_without_a_banner_of_its_own_asks_at_once(viewer):
    [banner] = Page(viewer.get("/password")).all("div", id="banner")
    assert banner["data-hx-trigger"] == "load, every 15s"


def test_the_sheet_names_what_the_keys_do(viewer):
    page = Page(viewer.get("/jobs"), closed=True)
    assert [(row["data-key"], row["data-does"]) for row in page.all("div") if "data-does" in row] == [
        (key.key, key.does) for key in KEYS
    ]
    assert [(link["data-jump"], link["href"]) for link in page.all("a") if "data-jump" in link] == [
        (jump.key, reverse(jump.name)) for jump in JUMPS
    ]
    assert all(str(known.words) in page.text for known in (*KEYS, *JUMPS))


def test_no_two_keys_are_one():
    for table in (KEYS, JUMPS):
        assert len({known.key for known in table}) == len(table)


@pytest.mark.parametrize("path", ["/next?window=1h", "/missed"])
def test_a_window_moves_on_in_a_tab_that_is_left_open(viewer, path):
    [main] = Page(viewer.get(path)).all("main", id="main")
    assert (main["hx-get"], main["hx-select"], main["hx-trigger"]) == (path, "#main", "every 60s")
    assert "data-live" in main
    [again] = Page(viewer.get(main["hx-get"], headers=HTMX)).all("main", id="main")
    assert again == main


def test_a_form_is_not_replaced_under_who_fills_it_in(operator):
    [main] = Page(operator.get("/jobs/new")).all("main", id="main")
    assert "hx-get" not in main
