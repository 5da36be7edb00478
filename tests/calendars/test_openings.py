"""When a calendar is open: examples known by heart, and every half hour against a reading of its own."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from calendars.domain.openings import Decision, Openings, is_open, next_open, openings_of
from calendars.domain.rules import CalendarSpec, Rule, parse_rule
from calendars.domain.zones import DAY, load_zone, to_instant, to_seconds

# Shrinking a counterexample of days costs minutes, more than a run may take; the first one found tells enough.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
HALF_HOUR = timedelta(minutes=30)


def spec(*rules: dict, timezone: str = "UTC") -> CalendarSpec:
    return CalendarSpec(timezone, tuple(parse_rule(rule) for rule in rules))


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def is_open_at(calendar: CalendarSpec, *texts: str) -> list[bool]:
    return [is_open(calendar, instant(text)).open for text in texts]


def test_without_rules_it_is_always_open():
    assert is_open(spec(), instant("2026-06-05T12:00Z")) == Decision(True, None)
    assert next_open(spec(), instant("2026-06-05T12:00Z")) == instant("2026-06-05T12:00Z")


def test_any_include_opens_and_any_exclude_closes_and_the_rule_that_decides_is_named():
    calendar = spec(
        {"effect": "include", "name": "week", "weekdays": ["MON", "TUE"]},
        {"effect": "include", "name": "first", "month_days": [1]},
        {"effect": "exclude", "name": "evening", "window_start": "18:00", "window_end": "23:00"},
    )
    named = {
        "2026-06-08T12:00Z": (True, "week"),  # a Monday
        "2026-07-01T12:00Z": (True, "first"),  # a Wednesday
        "2026-06-10T12:00Z": (False, None),
        "2026-06-08T18:00Z": (False, "evening"),
        "2026-06-08T23:00Z": (True, "week"),
    }
    for text, (is_it, name) in named.items():
        decision = is_open(calendar, instant(text))
        assert (decision.open, decision.rule and decision.rule.name) == (is_it, name)
    assert next_open(calendar, instant("2026-06-08T18:30Z")) == instant("2026-06-08T23:00Z")


def test_the_conditions_of_a_rule_are_a_conjunction():
    calendar = spec({"effect": "include", "weekdays": [5], "month_days": [13]})
    assert is_open_at(calendar, "2026-02-13T12:00Z", "2026-02-20T12:00Z", "2026-04-13T12:00Z") == [True, False, False]


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins():
    calendar = spec({"effect": "include", "weekdays": [5], "window_start": "22:00", "window_end": "02:00"})
    friday = ["2026-06-05T21:59Z", "2026-06-05T22:00Z", "2026-06-06T01:59Z", "2026-06-06T02:00Z", "2026-06-06T22:30Z"]
    assert is_open_at(calendar, *friday) == [False, True, True, False, False]
    assert is_open_at(calendar, "2026-06-05T01:00Z") == [False]  # Thursday's night


def test_a_window_to_midnight_ends_at_midnight():
    calendar = spec({"effect": "include", "weekdays": [5], "window_start": "22:00", "window_end": "00:00"})
    assert is_open_at(calendar, "2026-06-05T23:59Z", "2026-06-06T00:00Z") == [True, False]


def test_month_days_count_from_the_end_too():
    calendar = spec({"effect": "include", "month_days": [-1, -2, 3]})
    days = ["2028-02-29T12:00Z", "2028-02-28T12:00Z", "2028-02-27T12:00Z", "2026-12-31T12:00Z", "2026-02-03T12:00Z"]
    assert is_open_at(calendar, *days) == [True, True, False, True, True]


def test_yearly_dates_dates_and_ranges():
    calendar = spec(
        {"effect": "exclude", "yearly_dates": ["02-29", "12-24"]},
        {"effect": "exclude", "dates": ["2026-07-01", date(2026, 7, 3)]},
        {"effect": "exclude", "range_start": "2026-08-01", "range_end": "2026-08-02"},
        {"effect": "exclude", "range_start": "2030-01-01"},
        {"effect": "exclude", "range_end": "2019-12-31"},
    )
    closed = ["2028-02-29", "2026-12-24", "2029-12-24", "2026-07-01", "2026-07-03", "2026-08-01", "2026-08-02"]
    closed += ["2030-01-01", "2050-06-06", "2019-12-31", "1999-01-01"]
    opened = ["2026-02-28", "2026-03-01", "2026-07-02", "2026-07-31", "2026-08-03", "2029-12-31", "2020-01-01"]
    assert is_open_at(calendar, *(f"{day}T12:00Z" for day in closed)) == [False] * len(closed)
    assert is_open_at(calendar, *(f"{day}T12:00Z" for day in opened)) == [True] * len(opened)


@pytest.mark.parametrize(
    ("rule", "day", "is_it"),
    [
        ({"holiday_country": "AT"}, "2026-10-26", False),
        ({"holiday_country": "AT"}, "2026-12-24", True),  # not a public holiday there
        ({"holiday_country": "AT", "holiday_categories": ["bank"]}, "2026-12-24", False),
        ({"holiday_country": "DE"}, "2026-01-06", True),
        ({"holiday_country": "DE", "holiday_subdivision": "BY"}, "2026-01-06", False),
        ({"holiday_country": "US"}, "2021-12-31", False),  # New Year's Day of 2022, observed
        ({"holiday_country": "US", "holiday_observed": False}, "2021-12-31", True),
    ],
)
def test_public_holidays(rule, day, is_it):
    calendar = spec({"effect": "exclude", **rule})
    assert is_open_at(calendar, f"{day}T00:00Z", f"{day}T23:59Z") == [is_it, is_it]


def test_days_are_those_of_the_calendars_own_zone():
    calendar = spec({"effect": "exclude", "dates": ["2026-12-25"]}, timezone="Asia/Tokyo")
    texts = ["2026-12-24T14:59Z", "2026-12-24T15:00Z", "2026-12-25T14:59Z", "2026-12-25T15:00Z"]
    assert is_open_at(calendar, *texts) == [True, False, False, True]
    assert next_open(calendar, instant("2026-12-24T20:00Z")) == instant("2026-12-25T15:00Z")


def test_a_window_is_open_in_both_passes_of_a_repeated_hour_and_never_in_a_skipped_one():
    calendar = spec({"effect": "include", "window_start": "02:00", "window_end": "03:00"}, timezone="Europe/Berlin")
    assert next_open(calendar, instant("2026-10-25T00:59:59Z")) == instant("2026-10-25T00:59:59Z")
    assert is_open_at(calendar, "2026-10-25T00:00Z", "2026-10-25T01:30Z", "2026-10-25T02:00Z") == [True, True, False]
    assert next_open(calendar, instant("2026-03-28T02:00Z")) == instant("2026-03-30T00:00Z")


def test_closed_for_good_ends_the_search():
    calendar = spec({"effect": "exclude", "weekdays": [1, 2, 3, 4, 5, 6, 7]})
    assert next_open(calendar, instant("2026-06-05T12:00Z")) is None
    assert next_open(calendar, instant("9979-12-31T12:00Z")) is None


def test_an_opening_that_a_rule_names_far_away_is_found():
    calendar = spec({"effect": "include", "dates": ["2150-05-05"]})
    assert next_open(calendar, instant("2026-06-05T12:00Z")) == instant("2150-05-05T00:00Z")


RULES = st.lists(
    st.fixed_dictionaries(
        {
            "effect": st.sampled_from(["include", "exclude"]),
            "weekdays": st.lists(st.integers(1, 7), min_size=1, max_size=4),
        },
        optional={
            "month_days": st.lists(st.integers(1, 31), min_size=1, max_size=20),
            "window": st.tuples(st.integers(0, 47), st.integers(0, 47)).filter(lambda pair: pair[0] != pair[1]),
        },
    ),
    min_size=1,
    max_size=4,
)
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Antarctica/Troll"]


def with_window(rule: dict) -> dict:
    rule = dict(rule)
    if "window" in rule:
        first, last = (time(half // 2, half % 2 * 30) for half in rule.pop("window"))
        rule |= {"window_start": first, "window_end": last}
    return rule


def matches(rule: Rule, wall: datetime) -> bool:
    """A reading of a rule by the hands of the clock alone."""
    day = wall.date()
    if rule.window is not None:
        start, end = rule.window
        if start < end and not start <= wall.time() < end:
            return False
        if start > end and not (wall.time() >= start or wall.time() < end):
            return False
        if start > end and wall.time() < end:
            day -= timedelta(days=1)
    return day.isoweekday() in rule.weekdays and (not rule.month_days or day.day in rule.month_days)


@settings(max_examples=40, deadline=None, phases=NO_SHRINKING)
@given(
    rules=RULES,
    zone=st.sampled_from(ZONES),
    start=st.sampled_from(
        ["2026-03-07", "2026-03-28", "2026-04-03", "2026-10-02", "2026-10-24", "2026-10-31", "2026-12-30"]
    ),
)
def test_every_half_hour_is_as_the_rules_say_and_the_search_agrees(rules, zone, start):
    calendar = spec(*map(with_window, rules), timezone=zone)
    info = load_zone(zone).info
    includes = [rule for rule in calendar.rules if rule.effect == "include"]
    excludes = [rule for rule in calendar.rules if rule.effect == "exclude"]
    instants = [instant(f"{start}T00:00Z") + k * HALF_HOUR for k in range(5 * 48)]
    states = []
    for at in instants:
        wall = at.astimezone(info).replace(tzinfo=None)
        opened = not includes or any(matches(rule, wall) for rule in includes)
        states.append(opened and not any(matches(rule, wall) for rule in excludes))
    assert [is_open(calendar, at).open for at in instants] == states
    openings = openings_of(calendar)
    for k in range(0, len(instants), 17):
        at = instants[k]
        later = next((instants[n] for n in range(k, len(instants)) if states[n]), None)
        found = next_open(calendar, at)
        assert found == later if later else (found is None or found > instants[-1])
        if not states[k]:
            since = next((instants[n + 1] for n in range(k, -1, -1) if states[n]), instants[0])
            floor = to_seconds(instants[0])
            assert to_instant(openings.closed_since(to_seconds(at), floor)) == since


def test_a_long_closure_is_walked_through_once():
    gate = Openings(
        spec(
            {"effect": "exclude", "weekdays": [1, 2, 3, 4, 5, 6, 7], "range_end": "2045-01-01"},
            {"effect": "exclude", "window_start": "00:00", "window_end": "12:00"},
            timezone="Europe/Vienna",
        )
    )
    start = to_seconds(instant("2026-01-01T00:00:00Z"))
    found = gate.at_or_after(start)
    assert found == gate.at_or_after(found.start)
    looked = gate.days_looked_at
    assert looked > 18 * 365
    for later in range(0, 1400, 100):
        assert gate.at_or_after(start + later * DAY).start == found.start
    assert gate.at_or_after(start - 3 * DAY).start == found.start
    assert gate.at_or_after(start, start + 5 * DAY) is None
    assert gate.days_looked_at - looked < 50
