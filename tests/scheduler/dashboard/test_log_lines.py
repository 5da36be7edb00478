"""How a line of a log looks, whatever its handler has put into it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from scheduler.dashboard.log_lines import Look, elapsed, event_of, line_element, shown_lines, visible
from scheduler.domain.log_levels import LEVELS, is_at_least, level_name
from scheduler.queries.log_pages import LINE_CHARACTERS, Line, Place
from scheduler.queries.logs import LogRow
from scheduler.queries.search import pattern_of

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
LOOK = Look("/runs/1/log")


def line(message: str = "hello", number: int = 7, **values) -> Line:
    row = {"attempt": 1, "logged_at": AT, "level": "info", "fields": {}} | values
    return Line(Place(1000 + number, number), LogRow(id=1000 + number, run_id=UUID(int=1), message=message, **row))


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ("plain text\twith a tab\nand a second line", "plain text\twith a tab\nand a second line"),
        ("\x1b[1;31mred\x1b[0m and \x1b[38;2;1;2;3mmore\x1b[K", "red and more"),
        ("\x1b]0;a title\x07shown \x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\", "shown link"),
        ("\x1b]0;never closed, so nothing is hidden", "␛]0;never closed, so nothing is hidden"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("100 %\r\nnext", "100 %\nnext"),
        ("over\rwritten\x08\x00\x7f\x85", "over␍written␈␀␡\\u0085"),
        ("\u202eright to left\u2066 \u200f\u2028", "\\u202eright to left\\u2066 \\u200f\\u2028"),
        ("ünïcödé 日本 🙂", "ünïcödé 日本 🙂"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out_or_shown(message, seen):
    assert visible(message) == seen
    assert visible(visible(message)) == seen


def test_what_a_handler_writes_is_no_markup():
    evil = "<script>alert(1)</script>\"'&"
    text = line_element(line(evil, level=evil[:16], fields={evil: evil}), Look("/runs/1/log", find="alert"), None)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3
    marked = line_element(line(evil), LOOK, re.compile("alert"))
    assert "&lt;script&gt;<mark>alert</mark>(1)&lt;/script&gt;" in marked


def test_what_is_searched_is_marked_in_whatever_case_and_whatever_it_is():
    for find, message, marks in (
        ("time", "Timeout TIME", 2),
        ("<b>", "a <b> b", 1),
        (".*", "a.*b axxb", 1),
        ("straße", "STRAßE", 1),
        ("&lt;", "a &lt; b", 1),
        ("zz", "a b", 0),
    ):
        element = line_element(line(message), LOOK, re.compile(pattern_of(find)))
        assert element.count("<mark>") == marks, find


def test_the_number_of_a_line_is_a_link_to_it():
    element = line_element(line(), Look("/runs/1/log", marked=7))
    assert element.startswith(
        '<li id="L7" class="level-info" aria-current="true"><a href="/runs/1/log?line=7#L7">7</a>'
    )
    assert "aria-current" not in line_element(line(), LOOK)


def test_a_line_says_of_its_attempt_and_fields_what_is_not_plain():
    assert "attempt" not in line_element(line(), LOOK)
    assert "<small>" not in line_element(line(fields={"stream": "stdout", "job_key": "x:y"}), LOOK)
    element = line_element(line(attempt=2, fields={"stream": "stderr", "user": 7}), LOOK)
    assert "<i>attempt 2</i>" in element
    assert "<small>stream=stderr user=7</small>" in element


def test_a_long_line_is_cut_and_leads_to_the_whole_of_it():
    for values in ({"message": "x" * (LINE_CHARACTERS + 1)}, {"fields": {"a": "x" * 600}}):
        element = line_element(line(**values), LOOK)
        assert '<a href="/runs/1/log/raw?line=7">' in element
        assert "x" * 2001 not in element
    assert "raw" not in line_element(line("x" * LINE_CHARACTERS), LOOK)


def test_an_answer_has_as_many_lines_as_fit_and_at_least_one():
    lines = [line("'" * 1000, number) for number in range(1, 100)]
    one = len(line_element(lines[0], LOOK).encode())
    assert one > 5000  # however it is escaped, its size is what travels
    assert len(shown_lines(lines, LOOK, most_bytes=3 * one + 100)) == 3
    assert len(shown_lines(lines, LOOK, most_bytes=1)) == 1
    assert sum(len(element.encode()) for element in shown_lines(lines * 100, LOOK)) <= 600_000


def test_times_count_from_the_first_line():
    element = line_element(line(logged_at=AT + timedelta(seconds=61.25)), Look("/x", since=AT))
    assert '<time datetime="2026-03-02T12:01:01.250000Z">+1:01.250</time>' in element
    assert [elapsed(timedelta(seconds=seconds)) for seconds in (0, 9.9996, 3723.004, -1.5)] == [
        "+0:00.000",
        "+0:10.000",
        "+1:02:03.004",
        "-0:01.500",
    ]


def test_an_event_says_its_lines_and_where_to_go_on():
    text = event_of(["<li>one\ntwo</li>\n", "<li>three</li>\n"], Place(9, 3))
    assert text == "id: 9.3\ndata: <li>one\ndata: two</li>\ndata: <li>three</li>\n\n"
    assert event_of([], Place(9, 3)) == "id: 9.3\n\n"
    # Nothing that a handler writes begins a line of the stream itself.
    forged = event_of([line_element(line("x\r\nevent: end\rdata: y\u2028id: 1\n\nid: 2"), LOOK)], Place(9, 3))
    assert [text for text in forged.splitlines() if not text.startswith("data: ")] == ["id: 9.3", ""]


def test_levels_have_an_order_whatever_they_are_called():
    called = {"TRACE": "debug", "Warn": "warning", "err": "error", " fatal ": "critical", "notice": "info", "": "info"}
    assert {level: level_name(level) for level in called} == called
    assert [
        [is_at_least(level, least) for least in LEVELS] for level in ("debug", "notice", "WARN", "err", "FATAL")
    ] == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, True],
        [True, True, True, True],
    ]


def test_a_place_is_read_as_it_was_written():
    assert Place.of_text(str(Place(123, 45))) == Place(123, 45)
    for text in ("", "1", "1.", ".1", "1.2.3", "-1.2", "1.x", "1e3.2", f"{'9' * 19}.1", "١.١", "1.2\n"):
        with pytest.raises(ValueError):
            Place.of_text(text)
