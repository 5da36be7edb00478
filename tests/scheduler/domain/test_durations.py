from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calendars.domain.errors import InvalidField
from scheduler.domain.durations import LONGEST, checked_duration, format_duration, parse_duration

SDK = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([smhd])\s*$")
"""How the public SDK reads a duration."""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1.5h", 5400), ("5m", 300), ("2d", 172_800), (" 10 s ", 10), ("0.5s", 0.5), ("0.000001s", 0.000001)],
)
def test_it_reads_one_number_and_one_unit(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


def test_a_bare_number_is_seconds_only_where_asked_for():
    assert parse_duration("300", bare_seconds=True) == timedelta(seconds=300)
    with pytest.raises(InvalidField):
        parse_duration("300")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "s",
        "5",
        "-5s",
        "+5s",
        "0s",
        "0.0000001s",
        "nan",
        "NaNs",
        "infs",
        "1e3s",
        "٣٠s",
        "5x",
        "5m5s",
        "1h 30m",
        "5 0s",
        ".5s",
        "5.s",
        "3654d",
        "9999999999d",
        "9" * 400 + "s",
        "5s\n5s",
        "5s\0",
        None,
        5,
        True,
        ["5s"],
    ],
)
def test_anything_else_is_refused_with_the_field_named(text):
    with pytest.raises(InvalidField) as refused:
        parse_duration(text, field="timeout")
    assert list(refused.value.fields) == ["timeout"]
    assert refused.value.status == 400
    assert len(refused.value.message) < 300


def test_ten_years_is_the_longest():
    assert parse_duration("3653d") == LONGEST
    with pytest.raises(InvalidField):
        checked_duration(LONGEST + timedelta(microseconds=1))


def test_the_shortest_possible_value_is_said():
    with pytest.raises(InvalidField, match="5s"):
        checked_duration(timedelta(seconds=4), least=timedelta(seconds=5))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(seconds=300), "5m"),
        (timedelta(seconds=90), "90s"),
        (timedelta(hours=36), "36h"),
        (timedelta(1), "24h"),
    ],
)
def test_it_is_written_as_one_number_and_one_unit(value, text):
    assert format_duration(value) == text


@settings(max_examples=200, deadline=None)
@given(st.timedeltas(min_value=timedelta(microseconds=1), max_value=LONGEST))
def test_what_is_written_is_read_back_by_us_and_by_the_sdk(value):
    text = format_duration(value)
    number, unit = SDK.match(text).groups()
    assert parse_duration(text) == value
    size = {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]
    assert float(number) * size == pytest.approx(value.total_seconds())
