"""The days of a calendar: open, closed or partly open, and the rule or the holiday that decides."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date, timedelta

import pytest

from calendars.domain.errors import InvalidField
from calendars.domain.openings import is_open, openings_of
from calendars.domain.preview import DayState, preview_days
from calendars.domain.reasons import NEVER_OPEN, rule_words
from calendars.domain.rules import parse_rule
from calendars.domain.zones import to_instant
from calendars.queries.preview import MOST_DAYS, calendar_days
from calendars.services import save_calendar
from tests.calendars.test_openings import spec

WEEK = {"effect": "include", "name": "working week", "weekdays": [1, 2, 3, 4, 5]}
AUSTRIA = {"effect": "exclude", "holiday_country": "AT"}


def days(calendar, first: str, last: str) -> list[tuple]:
    found = preview_days(calendar, date.fromisoformat(first), date.fromisoformat(last))
    return [(day.day.isoformat(), day.state, day.windows, day.reason) for day in found]


def test_each_day_names_the_rule_or_the_holiday_that_decides():
    calendar = spec(WEEK, AUSTRIA, {"effect": "exclude", "name": "inventory", "dates": ["2026-12-28"]})
    assert [(day, state, reason) for day, state, _, reason in days(calendar, "2026-12-24", "2026-12-29")] == [
        ("2026-12-24", DayState.OPEN, "working week"),
        ("2026-12-25", DayState.CLOSED, "Christmas Day"),
        ("2026-12-26", DayState.CLOSED, "Saint Stephen's Day"),
        ("2026-12-27", DayState.CLOSED, NEVER_OPEN),
        ("2026-12-28", DayState.CLOSED, "inventory"),
        ("2026-12-29", DayState.OPEN, "working week"),
    ]


def test_a_day_that_is_partly_open_shows_its_windows_and_what_closes_it():
    lunch = {"effect": "exclude", "name": "lunch", "window_start": "12:00", "window_end": "13:00"}
    hours = {"effect": "include", "name": "hours", "window_start": "08:00", "window_end": "18:30"}
    assert days(spec(hours, lunch), "2026-03-02", "2026-03-02") == [
        ("2026-03-02", DayState.PARTLY, (("08:00", "12:00"), ("13:00", "18:30")), "lunch")
    ]
    assert days(spec(hours), "2026-03-02", "2026-03-02")[0][2:] == ((("08:00", "18:30"),), "hours")
    night = {"effect": "include", "window_start": "22:00", "window_end": "06:00"}
    assert days(spec(night), "2026-03-02", "2026-03-02")[0][2] == (("00:00", "06:00"), ("22:00", "24:00"))


def test_days_are_those_of_the_calendars_own_zone_also_when_the_clock_changes():
    sunday = {"effect": "exclude", "name": "changes", "dates": ["2026-03-29"]}
    calendar = spec(sunday, timezone="Europe/Vienna")
    states = [state for _, state, _, _ in days(calendar, "2026-03-28", "2026-03-30")]
    assert states == [DayState.OPEN, DayState.CLOSED, DayState.OPEN]
    # At midnight the clock goes on to 01:00: the day begins there.
    havana = spec(sunday, timezone="America/Havana")
    assert days(havana, "2026-03-08", "2026-03-08")[0][1:3] == (DayState.OPEN, (("01:00", "24:00"),))


def test_a_day_that_the_zone_skipped_breaks_nothing():
    assert len(days(spec(WEEK, timezone="Pacific/Apia"), "2011-12-29", "2011-12-31")) == 3


def test_every_hour_agrees_with_the_question_for_an_instant():
    rules = [WEEK, AUSTRIA, {"effect": "exclude", "window_start": "23:00", "window_end": "02:00", "weekdays": [1]}]
    calendar = spec(*rules, timezone="Europe/Vienna")
    gate = openings_of(calendar)
    first = date(2026, 10, 20)
    for found in preview_days(calendar, first, first + timedelta(days=10)):
        for hour in range(24):
            second = gate.zone.to_utc((found.day.toordinal() - date(1970, 1, 1).toordinal()) * 86_400 + hour * 3600)
            shown = any(low <= f"{hour:02d}:00" < high for low, high in found.windows)
            assert shown == is_open(calendar, to_instant(second)).open, (found.day, hour)


@pytest.mark.django_db
def test_the_range_is_bounded_and_refused_by_field(now):
    calendar = save_calendar({"name": "office", "timezone": "UTC", "rules": [WEEK]}, now).calendar
    first = date(2026, 1, 1)
    assert len(calendar_days(calendar, first, first + timedelta(days=MOST_DAYS - 1))) == MOST_DAYS
    for start, end, field in (
        (first, first + timedelta(days=MOST_DAYS), "until"),
        (first, first - timedelta(days=1), "until"),
        (date(1, 1, 1), first, "from"),
        (first, date(9999, 12, 31), "until"),
    ):
        with pytest.raises(InvalidField) as refused:
            calendar_days(calendar, start, end)
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"weekdays": [1, 5]}, "Mon Fri"),
        ({"month_days": [1, -1]}, "days -1, 1 of the month"),
        ({"yearly_dates": ["12-24"], "window_start": "12:00", "window_end": "18:00"}, "12-24, 12:00 to 18:00"),
        ({"dates": [f"2026-01-0{n}" for n in range(1, 6)]}, "2026-01-01, 2026-01-02, 2026-01-03 and 2 more"),
        ({"range_start": "2026-08-01"}, "2026-08-01 to …"),
        ({"holiday_country": "DE", "holiday_subdivision": "BY"}, "holidays of DE-BY"),
        ({"weekdays": [1], "name": "ours"}, "ours"),
    ],
)
def test_a_rule_is_called_by_its_name_or_by_its_conditions(rule, said):
    assert rule_words(parse_rule({"effect": "exclude", **rule})) == said


def test_the_names_of_holidays_are_the_same_whatever_language_the_machine_speaks():
    code = "from calendars.domain.holiday_days import named_days; print(*named_days('AT', '', (), True, 2026).values())"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "LANG": language, "LANGUAGE": language, "LC_ALL": language},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for language in ("C", "en_US.UTF-8")
    }
    assert len(said) == 1
    assert "Christmas Day" in said.pop()
