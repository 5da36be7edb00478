"""The log of a run: on the run's page, on its own, page by page, searched, followed and as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.test import Client

from scheduler.dashboard import log, tails
from scheduler.models import QueueEntry, Run, RunLog
from scheduler.queries import log_pages
from tests.factories import NOW, QueueEntryFactory, RunFactory, RunLogFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

END = "event: end"


def write(run: Run, count: int, first: int = 1, **values) -> None:
    RunLog.objects.bulk_create(
        RunLog(
            run=run,
            attempt=1,
            logged_at=NOW + timedelta(seconds=number),
            **{"level": "info", "message": f"line {number}", **values},
        )
        for number in range(first, first + count)
    )


def numbers(page: Page) -> list[int]:
    return [int(values["id"][1:]) for values in page.all("li") if values.get("id", "").startswith("L")]


def edge(page: Page, name: str) -> str:
    """Where the log goes on to one side, empty where it does not."""
    is_hidden = ["hidden" in values for values in page.all("p", data_edge=name)] == [True]
    word = "before=" if name == "earlier" else "after="
    links = [values["href"] for values in page.all("a") if word in values["href"]]
    return "" if is_hidden or not links else links[0]


def listed(page: Page) -> dict[str, str]:
    [values] = [values for values in page.all("ol") if "data-first" in values]
    return values


def end_of(entry: QueueEntry) -> None:
    QueueEntry.objects.all().delete()
    Run.objects.filter(pk=entry.run_id).update(verdict="completed", finished_at=entry.claimed_at, attempt=1)


def streamed(client: Client, run_id: object, place: str = "", query: str = "") -> tuple[list[str], str, bool]:
    """One answer of the stream: the ids of its lines, where to go on, and whether the log has ended."""
    headers = {"Last-Event-ID": place} if place else {}
    answer = client.get(f"/runs/{run_id}/log/stream{query}", headers=headers)
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    text = answer.content.decode()
    data = "\n".join(line[6:] for line in text.split("\n") if line.startswith("data: "))
    ids = [line[4:] for line in text.split("\n") if line.startswith("id: ")]
    answer._container = [data.encode()]
    return [values["id"] for values in Page(answer).all("li")], ids[-1] if ids else place, END in text


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of five lines, and searches that look at ten."""
    monkeypatch.setattr(log_pages, "SCAN_LINES", 10)
    monkeypatch.setattr(log_pages, "PAGE_LINES", 5)


def test_the_page_of_a_run_has_the_end_of_its_log(viewer, monkeypatch):
    run = RunFactory(completed=True)
    for level in ("info", "WARN", "error", "notice"):
        RunLogFactory(run=run, message=f"says {level}", level=level, fields={"user": 7, "job_key": "x:y"})
    page = Page(viewer.get(f"/runs/{run.id}"))
    assert [values["class"] for values in page.all("li", class_="")] == []
    assert [values["class"] for values in page.all("li") if "id" in values] == [
        "level-info",
        "level-warning",
        "level-error",
        "level-info",
    ]
    assert "WARN" in page.text  # a level is a word, as its handler wrote it, and not only a colour
    assert "user=7" in page.text
    assert "End of the log" in page.text
    assert not page.all("div", id="log-lines")[0].get("data-stream")
    monkeypatch.setattr(log, "PART_LINES", 2)
    page = Page(viewer.get(f"/runs/{run.id}"))
    assert numbers(page) == [3, 4]
    assert f"/runs/{run.id}/log" in page.links("/runs/")
    assert edge(page, "earlier").startswith(f"/runs/{run.id}/log?before=")


def test_the_poll_of_a_runs_head_reads_no_log(viewer, monkeypatch):
    entry = QueueEntryFactory(claimed=True)
    monkeypatch.setattr(log, "lines_before", None)
    assert viewer.get(f"/runs/{entry.run_id}", headers=HTMX).status_code == 200


def test_without_script_a_log_is_read_page_by_page_from_end_to_end(viewer, small):
    run = RunFactory(completed=True)
    write(run, 12)
    page = Page(viewer.get(f"/runs/{run.id}/log"))
    assert numbers(page) == [8, 9, 10, 11, 12]
    assert edge(page, "later") == ""
    assert "End of the log" in page.text
    seen = []
    while path := edge(page, "earlier"):
        page = Page(viewer.get(path))
        seen.append(numbers(page))
    assert seen == [[3, 4, 5, 6, 7], [1, 2]]
    seen = [numbers(page)]
    while path := edge(page, "later"):
        page = Page(viewer.get(path))
        seen.append(numbers(page))
    assert seen == [[1, 2], [3, 4, 5, 6, 7], [8, 9, 10, 11, 12]]
    assert numbers(Page(viewer.get(f"/runs/{run.id}/log?line=1"))) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("line", [1, 21, 25, 40, 10**17])
def test_an_address_of_a_line_shows_it_among_its_neighbours(viewer, line):
    run = RunFactory(completed=True)
    write(run, 40)
    page = Page(viewer.get(f"/runs/{run.id}/log?line={line}"))
    shown = numbers(page)
    if line > 40:
        assert "End of the log" in page.text
        return
    assert line in shown
    assert shown[0] == max(1, line - 20)
    assert [values["id"] for values in page.all("li", aria_current="true")] == [f"L{line}"]
    assert f"/runs/{run.id}/log?line={line}#L{line}" in page.links("/runs/")


def test_numbers_and_places_stay_while_old_lines_are_thrown_away(viewer, small):
    run = RunFactory(completed=True)
    write(run, 12)
    path = edge(Page(viewer.get(f"/runs/{run.id}/log?line=1")), "later")
    RunLog.objects.filter(message__in=["line 1", "line 2", "line 6"]).delete()
    page = Page(viewer.get(path))
    assert "line 7" in page.text
    assert numbers(page)[0] == 6  # goes on in the reader's count; no line is missed or told twice
    assert "line 5" not in page.text


def test_a_search_finds_lines_with_their_numbers_and_says_how_far_it_came(viewer, small):
    run = RunFactory(completed=True)
    write(run, 30)
    page = Page(viewer.get(f"/runs/{run.id}/log?q=LINE+1"))
    found, answers = numbers(page), 1
    assert "Searched from line 21 on." in page.text
    assert "No line is like that." in page.text
    while path := edge(page, "earlier"):
        assert "q=LINE+1" in path
        page = Page(viewer.get(path))
        found, answers = numbers(page) + found, answers + 1
    assert found == [1, *range(10, 20)]
    assert answers == 4  # the second of them with more hits than a page holds
    assert page.all("mark")
    forwards = Page(viewer.get(f"/runs/{run.id}/log?q=line+29&line=1"))
    assert numbers(forwards) == []
    assert "Searched up to line 10." in forwards.text


def test_a_search_takes_what_it_looks_for_as_it_is(viewer):
    run = RunFactory(completed=True)
    for message in ("50 % of a_b", "50 x of aXb", "[a.c]", "abc", "Straße 7", "über\nzwei Zeilen"):
        RunLogFactory(run=run, message=message)
    searches = {"%": [1], "a_b": [1], "[a.c]": [3], "a.c": [3], "ÜBER": [6], "zwei": [6], "\\": []}
    for text, found in searches.items():
        assert numbers(Page(viewer.get(f"/runs/{run.id}/log", {"q": text}))) == found, text


def test_levels_are_filtered_whatever_they_are_called(viewer):
    run = RunFactory(completed=True)
    for level in ("debug", "INFO", "notice", "Warn", "ERR", "fatal", " error "):
        RunLogFactory(run=run, level=level, message="disk")
    for level, first in {"": 1, "debug": 1, "info": 2, "warning": 4, "error": 5}.items():
        found = list(range(first, 8))
        page = Page(viewer.get(f"/runs/{run.id}/log", {"level": level}))
        assert numbers(page) == found
        assert numbers(Page(viewer.get(f"/runs/{run.id}/log", {"level": level, "q": "DISK"}))) == found


def test_how_lines_are_shown_stands_in_the_address_and_stays_from_page_to_page(viewer, small):
    run = RunFactory(completed=True)
    write(run, 12)
    page = Page(viewer.get(f"/runs/{run.id}/log?wrap=off&times=relative&level=info"))
    assert "+0:11.000" in page.text  # since the first line, whichever the first one here is
    assert page.all("div", class_="unwrapped")
    chosen = [values["value"] for values in page.all("option") if "selected" in values]
    assert chosen == ["info", "off", "relative"]
    path = edge(page, "earlier")
    assert all(said in path for said in ("wrap=off", "times=relative", "level=info"))
    assert not Page(viewer.get(f"/runs/{run.id}/log?wrap=on&times=absolute")).all("div", class_="unwrapped")


def test_a_part_is_answered_to_the_script_without_a_page_around_it(viewer, small):
    run = RunFactory(completed=True)
    write(run, 12)
    answer = viewer.get(f"/runs/{run.id}/log", headers=HTMX)
    part = Page(answer)
    assert b"<html" not in answer.content
    assert numbers(part) == [8, 9, 10, 11, 12]
    ends = listed(part)
    assert ("data-earlier" in ends, "data-later" in ends, "data-over" in ends) == (True, False, True)
    before = Page(viewer.get(f"/runs/{run.id}/log?before={ends['data-first']}", headers=HTMX))
    assert numbers(before) == [3, 4, 5, 6, 7]
    after = Page(viewer.get(f"/runs/{run.id}/log?after={listed(before)['data-last']}", headers=HTMX))
    assert numbers(after) == [8, 9, 10, 11, 12]
    nothing = Page(viewer.get(f"/runs/{run.id}/log?after={ends['data-last']}", headers=HTMX))
    assert numbers(nothing) == []
    assert listed(nothing)["data-last"] == ends["data-last"]


def test_a_page_of_long_lines_ends_where_it_is_full_and_goes_on_there(viewer):
    run = RunFactory(completed=True)
    RunLog.objects.bulk_create(
        RunLog(run=run, attempt=1, logged_at=NOW, level="info", message="'" * 5000) for _ in range(120)
    )
    answer = viewer.get(f"/runs/{run.id}/log?line=1")
    assert 500_000 < len(answer.content) < 1_000_000
    first = numbers(Page(answer))
    assert len(first) < 60
    assert numbers(Page(viewer.get(edge(Page(answer), "later"))))[0] == first[-1] + 1
    last = Page(viewer.get(f"/runs/{run.id}/log"))
    assert numbers(last)[-1] == 120
    assert numbers(Page(viewer.get(edge(last, "earlier"))))[-1] == numbers(last)[0] - 1


def test_an_event_stream_tells_each_line_once_until_the_run_is_over(viewer, small):
    entry = QueueEntryFactory(claimed=True)
    write(entry.run, 3)
    page = Page(viewer.get(f"/runs/{entry.run_id}/log"))
    assert "Look for new lines" in page.text
    [box] = page.all("div", id="log-lines")
    assert box["data-stream"] == f"/runs/{entry.run_id}/log/stream"
    last = listed(page)["data-last"]
    assert streamed(viewer, entry.run_id, last) == ([], last, False)
    write(entry.run, 7, first=4)
    found, place, is_over = streamed(viewer, entry.run_id, query=f"?after={last}")
    assert (found, is_over) == ([f"L{number}" for number in range(4, 9)], False)
    RunLogFactory(run=entry.run, message="last")
    end_of(entry)
    found, place, is_over = streamed(viewer, entry.run_id, place)
    assert (found, is_over) == (["L9", "L10", "L11"], True)
    assert streamed(viewer, entry.run_id, place) == ([], place, True)


def test_a_stream_is_searched_like_the_page(viewer, small):
    entry = QueueEntryFactory(claimed=True)
    write(entry.run, 9)
    found, place, _ = streamed(viewer, entry.run_id, "0.0", "?q=line+7&level=info")
    assert found == ["L7"]
    assert place.endswith(".9")  # what was looked at is not looked at again
    RunLogFactory(run=entry.run, message="line 7 at last", level="debug")
    assert streamed(viewer, entry.run_id, place, "?q=line+7&level=info")[0] == []


def test_where_a_stream_goes_on_is_told_to_the_server_alone_and_by_get(viewer):
    entry = QueueEntryFactory(claimed=True)
    write(entry.run, 3)
    path = f"/runs/{entry.run_id}/log/stream?after=0.0&q=line&times=relative"
    answer = viewer.get(path)
    order = tails.Order.of_text(answer[tails.HEADER])
    assert (order.run_id, order.place.number, order.filters.text) == (entry.run_id, 3, "line")
    assert order.since == NOW + timedelta(seconds=1)
    assert tails.Order.of_text(order.as_text()) == order
    assert order.read() == ("", order.place, False)  # what has been said is no event
    assert (answer["X-Accel-Buffering"], "no-store" in answer["Cache-Control"]) == ("no", True)
    assert "no-transform" in answer["Cache-Control"]
    assert tails.HEADER not in viewer.head(path)
    end_of(entry)
    assert tails.HEADER not in viewer.get(path)


def test_what_a_handler_still_says_after_a_cancel_is_followed(viewer):
    entry = QueueEntryFactory(stopping=True)
    page = Page(viewer.get(f"/runs/{entry.run_id}"))
    assert "still winds down" in page.text
    assert page.all("div", id="log-lines")[0]["data-stream"]
    assert not streamed(viewer, entry.run_id)[2]


@pytest.mark.parametrize(
    "query", ["", "?line=3", "?before={place}", "?q=line", "?level=info", "?q=line&before={place}"]
)
def test_the_lines_of_other_runs_are_in_no_log(viewer, query):
    mine, other = RunFactory(completed=True), RunFactory(completed=True)
    for first in range(1, 7, 2):
        write(mine, 2, first)
        write(other, 2, first, message="of another run, line")
    last = RunLog.objects.filter(run=other).latest("id").pk
    page = Page(viewer.get(f"/runs/{mine.pk}/log{query.format(place=f'{last}.7')}"))
    assert numbers(page) == [1, 2, 3, 4, 5, 6]
    assert "of another run" not in page.text
    assert "of another run" not in viewer.get(f"/runs/{mine.pk}/log/stream").content.decode()


def test_a_line_that_is_written_in_the_last_moment_is_not_missed(viewer, monkeypatch):
    entry = QueueEntryFactory(claimed=True)
    read = tails.lines_after

    def and_then_the_run_ends(*arguments):
        lines = read(*arguments)
        RunLogFactory(run=entry.run, message="the very last")
        end_of(entry)
        return lines

    with monkeypatch.context() as patch:
        patch.setattr(tails, "lines_after", and_then_the_run_ends)
        assert streamed(viewer, entry.run_id, "0.0") == ([], "0.0", False)
    assert streamed(viewer, entry.run_id, "0.0")[::2] == (["L1"], True)


def test_a_run_without_lines_says_why(viewer):
    silent, never, waiting = (
        RunFactory(completed=True),
        RunFactory(verdict="skipped", problem="skipped", finished_at="2026-03-02T12:00Z"),
        QueueEntryFactory().run,
    )
    for run, said in ((silent, "wrote no lines"), (never, "never started"), (waiting, "No lines yet.")):
        for path in (f"/runs/{run.id}", f"/runs/{run.id}/log"):
            assert said in Page(viewer.get(path)).text
        assert b"".join(viewer.get(f"/runs/{run.id}/log/raw").streaming_content) == b""


NONSENSE: Sequence[tuple[str, str]] = [
    *(("line", text) for text in ("-1", "x", "1e3", "9" * 30, "\x00", "١")),
    *((name, text) for name in ("after", "before") for text in ("7", "-1.2", "1.2.3", "x.y", f"{'9' * 30}.1")),
    ("before", "0.0"),
    ("level", "loud"),
    ("wrap", "perhaps"),
    ("times", "soon"),
]


@pytest.mark.parametrize(("name", "text"), NONSENSE)
def test_nonsense_in_the_address_is_refused_by_its_name(viewer, name, text):
    run = RunFactory(completed=True)
    answer = viewer.get(f"/runs/{run.id}/log", {name: text})
    assert answer.status_code == 400
    assert name in Page(answer).text
    if name == "after":
        assert viewer.get(f"/runs/{run.id}/log/stream", headers={"Last-Event-ID": text}).status_code == 400


def test_a_whole_log_is_downloaded_as_it_was_written(viewer, small):
    run = RunFactory(completed=True)
    write(run, 11)
    RunLogFactory(run=run, attempt=2, level="error", message="<b>\x1b[31mred", fields={"user": "ü"})
    answer = viewer.get(f"/runs/{run.id}/log/raw")
    assert answer.streaming
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Disposition"] == f'attachment; filename="run-{run.id}.log"'
    lines = b"".join(answer.streaming_content).decode().split("\n")
    assert len(lines) == 13
    assert lines[0] == "2026-03-02T12:00:01.000000Z info line 1"
    assert lines[11:] == ['2026-03-02T12:00:00.000000Z error attempt=2 <b>\x1b[31mred {"user": "ü"}', ""]


def test_one_line_is_downloaded_whole(viewer):
    run = RunFactory(completed=True)
    RunLogFactory(run=run, message="x" * 60_000)
    page = viewer.get(f"/runs/{run.id}/log")
    assert len(page.content) < 30_000
    assert f"/runs/{run.id}/log/raw?line=1" in Page(page).links("/runs/")
    answer = viewer.get(f"/runs/{run.id}/log/raw?line=1")
    assert len(b"".join(answer.streaming_content)) > 60_000
    assert viewer.get(f"/runs/{run.id}/log/raw?line=2").status_code == 404


def test_of_a_run_that_is_not_there_there_is_no_log(viewer):
    for path in ("log", "log/raw", "log/stream"):
        assert viewer.get(f"/runs/0195f9a0-0000-7000-8000-000000000000/{path}").status_code == 404


@pytest.mark.parametrize("path", ["log", "log/raw", "log/stream"])
def test_a_log_is_for_those_who_may_look(client, path):
    run = RunFactory(completed=True)
    assert client.get(f"/runs/{run.id}/{path}")["Location"].startswith("/sign-in")
