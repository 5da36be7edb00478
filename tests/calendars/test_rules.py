from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time

import holidays
import pytest

from calendars.domain.errors import InvalidField
from calendars.domain.holiday_days import _countries
from calendars.domain.rules import CalendarSpec, Effect, HolidaySet, Rule, parse_rule
from calendars.domain.subdivisions import subdivisions_of


def test_a_rule_is_made_of_json_values():
    rule = parse_rule(
        {
            "effect": "exclude",
            "name": "Christmas",
            "weekdays": [1, "sun"],
            "month_days": [24, -1],
            "yearly_dates": ["12-24"],
            "dates": ["2026-12-24"],
            "range_start": "2026-12-01",
            "range_end": None,
            "window_start": "08:00",
            "window_end": "18:30:15",
            "holiday_country": "DE",
            "holiday_subdivision": "BY",
            "holiday_categories": ["public", "catholic"],
            "holiday_observed": False,
        }
    )
    assert rule == Rule(
        effect=Effect.EXCLUDE,
        name="Christmas",
        weekdays=frozenset({1, 7}),
        month_days=frozenset({24, -1}),
        yearly_dates=frozenset({(12, 24)}),
        dates=frozenset({date(2026, 12, 24)}),
        date_range=(date(2026, 12, 1), None),
        window=(time(8), time(18, 30, 15)),
        holidays=HolidaySet("DE", "BY", ("catholic", "public"), False),
    )


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"effect": "maybe"}, "effect"),
        ({"effect": []}, "effect"),
        ({}, "effect"),  # no condition
        ({"name": "x" * 256, "weekdays": [1]}, "name"),
        ({"name": "a\0", "weekdays": [1]}, "name"),
        ({"weekdays": 1}, "weekdays"),
        ({"weekdays": [0]}, "weekdays"),
        ({"weekdays": [True]}, "weekdays"),
        ({"weekdays": ["XYZ"]}, "weekdays"),
        ({"weekdays": [[]]}, "weekdays"),
        ({"weekdays": [1] * 8}, "weekdays"),
        ({"month_days": [0]}, "month_days"),
        ({"month_days": [32]}, "month_days"),
        ({"month_days": [1.0]}, "month_days"),
        ({"yearly_dates": ["02-30"]}, "yearly_dates"),
        ({"yearly_dates": ["2-3"]}, "yearly_dates"),
        ({"yearly_dates": ["٠٢-٠٣"]}, "yearly_dates"),
        ({"dates": ["2026-02-29"]}, "dates"),
        ({"dates": ["20260101"]}, "dates"),
        ({"dates": ["2200-01-01"]}, "dates"),
        ({"dates": [datetime(2026, 1, 1, tzinfo=UTC)]}, "dates"),
        ({"dates": ["2026-01-01"] * 2001}, "dates"),
        ({"range_start": "2026-02-01", "range_end": "2026-01-01"}, "range_end"),
        ({"range_start": "soon"}, "range_start"),
        ({"window_start": "08:00"}, "window_end"),
        ({"window_end": "08:00"}, "window_start"),
        ({"window_start": "08:00", "window_end": "08:00"}, "window_end"),
        ({"window_start": "24:00", "window_end": "08:00"}, "window_start"),
        ({"window_start": "8", "window_end": "08:00"}, "window_start"),
        ({"window_start": time(8, 0, 0, 5), "window_end": "09:00"}, "window_start"),
        ({"holiday_country": "ZZ"}, "holiday_country"),
        ({"holiday_country": "de"}, "holiday_country"),
        ({"holiday_country": 5}, "holiday_country"),
        ({"holiday_country": "DE", "holiday_subdivision": "XX"}, "holiday_subdivision"),
        ({"holiday_country": "DE", "holiday_categories": ["moon"]}, "holiday_categories"),
        ({"holiday_subdivision": "BY"}, "holiday_subdivision"),
        ({"holiday_country": "DE", "holiday_observed": "yes"}, "holiday_observed"),
        ({"moon": "full"}, "moon"),
        ({"moo\ud800n": "full"}, "moo\ufffdn"),
    ],
)
def test_a_bad_rule_is_refused_with_its_field(values, field):
    with pytest.raises(InvalidField) as refused:
        parse_rule({"effect": "include"} | values)
    assert refused.value.field == field
    assert len(refused.value.message) < 400


def test_the_nearest_country_is_suggested():
    with pytest.raises(InvalidField, match="'DE'"):
        parse_rule({"effect": "exclude", "holiday_country": "de"})


def test_a_calendar_has_a_zone_and_a_bounded_number_of_rules():
    rule = parse_rule({"effect": "exclude", "weekdays": [1]})
    with pytest.raises(InvalidField) as refused:
        CalendarSpec("Europe/Berln", (rule,))
    assert refused.value.field == "timezone"
    with pytest.raises(InvalidField) as refused:
        CalendarSpec("UTC", (rule,) * 201)
    assert refused.value.field == "rules"


def test_the_subdivisions_of_every_country_are_those_of_the_package():
    for country in sorted(_countries()):
        assert subdivisions_of(country) == tuple(holidays.country_holidays(country).subdivisions), country


@pytest.mark.parametrize(
    ("field", "says"), [("x", "There are dates, effect, holiday_categories"), ("weekday", "Did you mean weekdays?")]
)
def test_a_field_that_no_rule_has_is_refused_with_what_there_is(field, says):
    with pytest.raises(InvalidField) as refused:
        parse_rule({"effect": "include", field: 1})
    assert says in refused.value.message


def test_an_unknown_subdivision_is_refused_without_loading_any_country():
    script = (
        "import sys\nfrom calendars.domain.errors import InvalidField\n"
        "from calendars.domain.holiday_days import check\n"
        "check('DE', 'BY', ())\n"
        "try: check('DE', 'Bayern', ())\n"
        "except InvalidField as refused: print(refused.field, 'holidays.countries' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["holiday_subdivision", "False"]
