"""What cron text means, and what is refused. Days of a month are checked on months that are known by heart."""

from __future__ import annotations

import pytest

from calendars.domain.errors import InvalidField
from scheduler.domain.cron import parse_cron


def hours_of(field: str) -> tuple[int, ...]:
    return parse_cron(f"0 {field} * * *").hours


def weekdays_of(field: str) -> set[int]:
    return set(parse_cron(f"0 0 * * {field}").days.weekdays)


def days_of(month_day: str, weekday: str, year: int, month: int) -> tuple[int, ...]:
    return parse_cron(f"0 0 {month_day} * {weekday}").month_days(year, month)


@pytest.mark.parametrize(
    ("field", "hours"),
    [
        ("*/6", (0, 6, 12, 18)),
        ("3/6", (3, 9, 15, 21)),
        ("8-18/5", (8, 13, 18)),
        ("22-2", (0, 1, 2, 22, 23)),
        ("22-2/2", (0, 2, 22)),
        ("5,1,5", (1, 5)),
        ("*/50", (0,)),
    ],
)
def test_lists_ranges_and_steps(field, hours):
    assert hours_of(field) == hours


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("7", {0}),
        ("0,7", {0}),
        ("FRI-MON", {5, 6, 0, 1}),
        ("5-7", {5, 6, 0}),
        ("7-3/2", {0, 2}),
        ("mon,Wed", {1, 3}),
        ("FRI-SUN", {5, 6, 0}),
        ("0-7", {0, 1, 2, 3, 4, 5, 6}),
        ("*/2", {0, 2, 4, 6}),
        ("1/2", {1, 3, 5}),
    ],
)
def test_weekdays_have_names_wrap_and_two_sundays(field, days):
    assert weekdays_of(field) == days


@pytest.mark.parametrize(
    ("month_day", "weekday", "year", "month", "days"),
    [
        ("13", "FRI", 2026, 2, (6, 13, 20, 27)),  # either
        ("*/10", "FRI", 2026, 2, ()),  # both, for the first begins with *: 1, 11, 21 February 2026 are no Fridays
        ("?", "FRI", 2026, 2, (6, 13, 20, 27)),
        ("L", "*", 2028, 2, (29,)),
        ("L-2", "*", 2026, 2, (26,)),
        ("15,L", "*", 2026, 4, (15, 30)),
        ("LW", "*", 2026, 5, (29,)),  # 31 May 2026 is a Sunday
        ("31W", "*", 2026, 5, (29,)),
        ("31W", "*", 2026, 4, ()),
        ("1W", "*", 2026, 8, (3,)),  # 1 August 2026 is a Saturday: not in July
        ("15W", "*", 2026, 3, (16,)),  # a Sunday
        ("15W", "*", 2026, 8, (14,)),  # a Saturday
        ("*", "MON#2", 2026, 6, (8,)),
        ("*", "MON#5", 2026, 6, (29,)),
        ("*", "MON#5", 2026, 7, ()),
        ("*", "5L", 2024, 7, (26,)),
        ("*", "FRIL", 2024, 8, (30,)),
        ("*", "FRIL,MON#1", 2024, 8, (5, 30)),
    ],
)
def test_days_of_the_month(month_day, weekday, year, month, days):
    assert days_of(month_day, weekday, year, month) == days


def test_six_fields_begin_with_seconds_and_seven_end_with_years():
    assert parse_cron("*/20 5 * * * *").in_hour == (300, 320, 340)
    assert parse_cron("0 0 12 1 1 ? 2028-2030/2").years == (2028, 2030)
    assert parse_cron("0 0 12 1 1 ? *").years is None


@pytest.mark.parametrize(
    "macro", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "@Daily"]
)
def test_macros(macro):
    assert parse_cron(macro).hours


@pytest.mark.parametrize(
    ("text", "fixed"),
    [("30 2 * * *", True), ("*/5 2 * * *", False), ("5 * * * *", False), ("* 30 2 * * *", True), ("H 3 * * *", True)],
)
def test_fixed_time_is_decided_by_the_text_of_minute_and_hour(text, fixed):
    assert parse_cron(text).fixed is fixed


NOT_CRON = """\
* * * *|* * * * * * * *|@reboot|@every 5m|@|77 * * * *|60 * * * *|* 24 * * *|* * 0 * *|* * 32 * *|* * * 0 *
* * * 13 *|* * * * 8|*/0 * * * *|5/0 * * * *|*/ * * * *|0-99999999/1 * * * *|*/99999 * * * *|0 0 - 2 ?|- * * * *
1- * * * *|-1 * * * *|1-2-3 * * * *|0 0 30 2 *|0 0 31 4,6,9,11 *|0 0 31W 2 *|0 0 L-30 2 *|0 0 12 29 2 ? 2027
0 0 12 1 1 ? 1969|0 0 12 1 1 ? 2030-2028|0 0 * * MON#6|0 0 * * MON#0|0 0 * * XYZ|0 0 * FOO *|0 0 32W * *|0 0 L-31 * *
? * * * *|* ? * * *|1,,2 * * * *|, * * * *|٥ * * * *|1.5 * * * *|*/1.5 * * * *|0x1 * * * *|H(5-3) * * * *|H(5 * * * *
H(0-99) * * * *|HH * * * *|1e1 * * * *|0 0 1-5W * *|0 0 * * L|0 0 * * 1-5L|0 0 12 1 1 ? H"""


@pytest.mark.parametrize(
    "text",
    [
        *(text for line in NOT_CRON.splitlines() for text in line.split("|")),
        *("", "   ", "* * * * *\n* * * * *", "* * * * *\0", "*\u00a0* * * *", "," * 100_000, "*" * 65_536),
    ],
    ids=lambda text: repr(text[:30]),
)
def test_what_is_not_cron_or_never_matches_is_refused_with_the_field_named(text):
    with pytest.raises(InvalidField) as refused:
        parse_cron(text)
    assert refused.value.field == "cron_expression"
    assert len(refused.value.message) < 400


def test_h_stands_for_the_same_value_of_a_job_and_for_different_ones_of_different_jobs():
    keys = [f"team:job-{n}" for n in range(200)]
    minutes = [parse_cron("H 3 * * *", key).in_hour[0] // 60 for key in keys]
    assert minutes == [parse_cron("H 3 * * *", key).in_hour[0] // 60 for key in keys]
    assert len(set(minutes)) > 40
    for key in keys[:20]:
        quarter = parse_cron("H/15 * * * *", key).in_hour
        assert len(quarter) == 4
        assert quarter[0] < 15 * 60
        assert parse_cron("0 0 H * *", key).month_days(2026, 2)
        assert 9 <= parse_cron("0 H(9-16) * * *", key).hours[0] <= 16


def test_a_long_text_is_refused_by_its_length():
    for text in ("*" * 256, "0," * 200 + "0 * * * *", " " * 300 + "* * * * *"):
        with pytest.raises(InvalidField, match="255 characters"):
            parse_cron(text)
    assert parse_cron("0," * 120 + "0 * * * *").in_hour == (0,)


@pytest.mark.parametrize(
    ("text", "taken"),
    [("0 9 * * MO-FR", "0 to 7 or SUN to SAT"), ("0 9 * FEBR *", "1 to 12 or JAN to DEC"), ("x 9 * * *", "0 to 59")],
)
def test_a_word_that_is_no_value_is_refused_with_what_is_one(text, taken):
    with pytest.raises(InvalidField, match=f"field, which takes {taken}"):
        parse_cron(text)
