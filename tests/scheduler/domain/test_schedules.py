"""Interval, once, and what a calendar makes of occurrences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from calendars.domain.errors import InvalidField
from calendars.domain.openings import is_open, next_open, openings_of
from calendars.domain.rules import CalendarSpec, OnBlocked, parse_rule
from scheduler.domain.blocked import begin_matters
from scheduler.domain.newest import newest_fires
from scheduler.domain.schedules import (
    CronSchedule,
    Fire,
    IntervalSchedule,
    OnceSchedule,
    fires,
    next_fire,
    occurrences,
    refuse_never,
    schedule_from_text,
)

# Shrinking a counterexample of days costs minutes, more than a run may take; the first one found tells enough.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
ANCHOR = datetime(2026, 6, 1, 0, 0, 31, 250_000, tzinfo=UTC)
NOON = datetime(2026, 6, 5, 12, tzinfo=UTC)  # a Friday
MONDAY = datetime(2026, 6, 1, 6, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def calendar(*rules: dict, timezone: str = "UTC") -> CalendarSpec:
    return CalendarSpec(timezone, tuple(parse_rule(rule) for rule in rules))


OFFICE = calendar(
    {"effect": "include", "weekdays": [1, 2, 3, 4, 5], "window_start": "08:00", "window_end": "18:00"},
    {"effect": "exclude", "holiday_country": "AT"},
    timezone="Europe/Vienna",
)
NIGHT = calendar({"effect": "include", "window_start": "22:00", "window_end": "02:00", "weekdays": [5]})
CLOSED_SUMMER = calendar({"effect": "exclude", "range_start": "2026-06-02", "range_end": "2026-09-30"})


def at(fires_: list[Fire]) -> list[datetime]:
    return [fire.at for fire in fires_]


# interval


@settings(max_examples=100, deadline=None)
@given(
    every=st.timedeltas(min_value=SECOND, max_value=timedelta(days=400)),
    after=st.timedeltas(min_value=timedelta(days=-30), max_value=timedelta(days=4000)).map(lambda d: ANCHOR + d),
)
def test_an_interval_lies_on_its_lattice_whenever_it_is_asked(every, after):
    found = at(fires(IntervalSchedule(every, ANCHOR), after=after, count=3))
    assert found[0] > after
    assert found[0] == ANCHOR or found[0] - every <= after
    assert [(instant - ANCHOR) % every for instant in found] == [timedelta(0)] * 3
    assert [b - a for a, b in pairwise(found)] == [every, every]


def test_an_interval_does_not_drift_over_ten_years_of_microseconds():
    every = timedelta(seconds=1, microseconds=1)
    after = ANCHOR + timedelta(days=3650)
    k = (after - ANCHOR) // every + 1
    assert next_fire(IntervalSchedule(every, ANCHOR), after=after) == Fire(ANCHOR + k * every, ANCHOR + k * every)


def test_the_anchor_is_the_first_fire_and_nothing_is_before_it():
    schedule = IntervalSchedule(timedelta(hours=6), ANCHOR)
    assert at(fires(schedule, after=ANCHOR - timedelta(days=9), count=2)) == [ANCHOR, ANCHOR + timedelta(hours=6)]
    assert at(fires(schedule, after=ANCHOR, count=1)) == [ANCHOR + timedelta(hours=6)]


@pytest.mark.parametrize(
    "every", [timedelta(0), timedelta(seconds=-5), timedelta(milliseconds=999), timedelta(days=3654)]
)
def test_a_period_under_a_second_or_over_ten_years_is_refused(every):
    with pytest.raises(InvalidField) as refused:
        IntervalSchedule(every, ANCHOR)
    assert refused.value.field == "every"


def test_an_instant_without_an_offset_is_refused():
    for make, field in ((lambda t: IntervalSchedule(SECOND, t), "anchor"), (OnceSchedule, "run_at")):
        with pytest.raises(InvalidField) as refused:
            make(ANCHOR.replace(tzinfo=None))
        assert refused.value.field == field


# once and bounds


def test_once_fires_once_and_is_deferred_by_default():
    once = OnceSchedule(datetime(2026, 6, 6, 9, tzinfo=UTC))  # a Saturday
    assert at(fires(once, after=NOON, count=5)) == [once.at]
    assert fires(once, after=once.at, count=5) == []
    monday = datetime(2026, 6, 8, 6, tzinfo=UTC)
    assert fires(once, after=NOON, count=5, calendar=OFFICE) == [Fire(monday, once.at)]
    assert fires(once, after=once.at + SECOND, count=5, calendar=OFFICE) == [Fire(monday, once.at)]
    assert fires(once, after=NOON, count=5, calendar=OFFICE, on_blocked="advance") == []


def test_until_is_inclusive_and_after_is_not():
    schedule = IntervalSchedule(timedelta(minutes=5), NOON)
    assert at(fires(schedule, after=NOON, until=NOON + timedelta(minutes=10))) == [
        NOON + timedelta(minutes=5),
        NOON + timedelta(minutes=10),
    ]
    assert fires(schedule, after=NOON, until=NOON) == []
    with pytest.raises(ValueError, match="until or count"):
        fires(schedule, after=NOON)


def test_occurrences_before_since_do_not_count():
    schedule = CronSchedule("0 * * * *")
    since = NOON + timedelta(minutes=90)
    assert at(fires(schedule, after=NOON, count=1, since=since)) == [NOON + timedelta(hours=2)]
    saturday = datetime(2026, 6, 6, 12, tzinfo=UTC)
    asked = {"after": saturday, "calendar": OFFICE, "on_blocked": "defer", "count": 1}
    monday = datetime(2026, 6, 8, 6, tzinfo=UTC)
    daily = CronSchedule("0 3 * * SAT")
    assert fires(daily, since=NOON, **asked) == [Fire(monday, datetime(2026, 6, 6, 3, tzinfo=UTC))]
    for hour in (3, 4):  # at the occurrence itself, and after it
        since = datetime(2026, 6, 6, hour, tzinfo=UTC)
        assert at(fires(daily, since=since, **asked)) == [monday + timedelta(days=7)]


# advance and defer


SCHEDULES = [
    CronSchedule("*/10 * * * *", "Europe/Vienna"),
    CronSchedule("30 2 * * *", "Europe/Vienna"),
    CronSchedule("0 9,20 * * MON-SAT", "America/New_York"),
    IntervalSchedule(timedelta(minutes=47), ANCHOR),
    IntervalSchedule(timedelta(hours=25), ANCHOR),
]
CALENDARS = [OFFICE, NIGHT, CLOSED_SUMMER, calendar({"effect": "exclude", "weekdays": [6, 7]}, timezone="Asia/Tokyo")]
HOURS = st.integers(0, 24 * 200).map(lambda hours: datetime(2026, 6, 2, tzinfo=UTC) + timedelta(hours=hours))


@settings(max_examples=40, deadline=None, phases=NO_SHRINKING)
@given(schedule=st.sampled_from(SCHEDULES), spec=st.sampled_from(CALENDARS), after=HOURS)
def test_advance_gives_every_occurrence_at_which_it_is_open_and_no_other(schedule, spec, after):
    until = after + timedelta(days=8)
    allowed = [o for o in occurrences(schedule, after=after, until=until) if is_open(spec, o).open]
    found = fires(schedule, after=after, until=until, calendar=spec)
    assert found == [Fire(o, o) for o in allowed]
    first = next_fire(schedule, after=after, calendar=spec)
    assert (first in found[:1]) if found else (first is None or first.at > until)


@settings(max_examples=40, deadline=None, phases=NO_SHRINKING)
@given(schedule=st.sampled_from(SCHEDULES), spec=st.sampled_from(CALENDARS), after=HOURS)
def test_defer_gives_each_occurrence_at_the_first_open_instant_each_instant_once(schedule, spec, after):
    until = after + timedelta(days=8)
    since = datetime(2026, 6, 1, 12, tzinfo=UTC)
    expected: dict[datetime, datetime] = {}
    for occurrence in occurrences(schedule, after=since, until=until):
        opened = next_open(spec, occurrence)
        if opened is not None and after < opened <= until:
            expected.setdefault(opened, occurrence)
    found = fires(schedule, after=after, until=until, calendar=spec, on_blocked=OnBlocked.DEFER, since=since)
    assert found == [Fire(opened, occurrence) for opened, occurrence in sorted(expected.items())]


@settings(max_examples=60, deadline=None, phases=NO_SHRINKING)
@given(
    schedule=st.sampled_from(SCHEDULES),
    spec=st.sampled_from(CALENDARS),
    policy=st.sampled_from(list(OnBlocked)),
    after=HOURS,
    age=st.integers(0, 24 * 20).map(lambda hours: timedelta(hours=hours)),
)
def test_a_begin_that_does_not_matter_changes_no_fire(schedule, spec, policy, after, age):
    asked = {"after": after, "until": after + timedelta(days=8), "calendar": spec, "on_blocked": policy}
    if not begin_matters(policy, openings_of(spec), after, after - age):
        assert fires(schedule, since=after - age, **asked) == fires(schedule, since=ANCHOR, **asked)


def test_a_begin_matters_while_what_it_blocked_has_not_fired():
    friday_evening, openings = NOON + timedelta(hours=7), openings_of(OFFICE)
    assert begin_matters(OnBlocked.DEFER, openings, NOON + timedelta(days=1), friday_evening)
    assert begin_matters(OnBlocked.DEFER, openings, friday_evening, friday_evening)
    assert not begin_matters(OnBlocked.DEFER, openings, NOON + timedelta(days=1), NOON)
    assert not begin_matters(OnBlocked.DEFER, openings, NOON, NOON - SECOND)
    assert not begin_matters(OnBlocked.PRECEDING, openings, friday_evening, friday_evening)
    assert begin_matters(OnBlocked.FOLLOWING, openings, friday_evening, ANCHOR)


def test_what_a_closure_blocked_before_the_question_still_fires_at_its_end():
    asked = {"calendar": OFFICE, "on_blocked": "defer", "count": 1, "since": datetime(2026, 6, 1, tzinfo=UTC)}
    schedule = CronSchedule("0 20 * * FRI", "Europe/Vienna")
    expected = [Fire(datetime(2026, 6, 8, 6, tzinfo=UTC), datetime(2026, 6, 5, 18, tzinfo=UTC))]
    for hours in range(7, 60, 4):
        assert fires(schedule, after=NOON + timedelta(hours=hours), **asked) == expected
    assert fires(schedule, after=expected[0].at - timedelta(microseconds=1), **asked) == expected
    assert fires(schedule, after=expected[0].at, **asked)[0].at > expected[0].at


def test_a_closure_of_thirty_months_costs_days_and_not_minutes():
    spec = calendar(
        {"effect": "exclude", "range_start": "2026-06-01", "range_end": "2028-12-01", "weekdays": [1, 2, 3, 4, 5, 6, 7]}
    )
    before = openings_of(spec).days_looked_at
    found = fires(CronSchedule("* * * * *"), after=datetime(2026, 6, 1, tzinfo=UTC), count=2, calendar=spec)
    assert at(found) == [datetime(2028, 12, 2, tzinfo=UTC), datetime(2028, 12, 2, 0, 1, tzinfo=UTC)]
    assert openings_of(spec).days_looked_at - before <= 2000


def test_bare_date_ranges_are_jumped_over():
    before = openings_of(CLOSED_SUMMER).days_looked_at
    assert next_open(CLOSED_SUMMER, datetime(2026, 6, 2, tzinfo=UTC)) == datetime(2026, 10, 1, tzinfo=UTC)
    assert openings_of(CLOSED_SUMMER).days_looked_at - before <= 10


@pytest.mark.parametrize(
    ("schedule", "spec", "field"),
    [
        (IntervalSchedule(timedelta(days=7), MONDAY), {"effect": "exclude", "weekdays": [1]}, "calendar"),
        (CronSchedule("0 3 * * *"), {"effect": "include", "window_start": "08:00", "window_end": "18:00"}, "calendar"),
        (CronSchedule("0 3 * * *"), {"effect": "exclude", "weekdays": [1, 2, 3, 4, 5, 6, 7]}, "calendar"),
        (
            CronSchedule("* * * * *"),
            {"effect": "include", "yearly_dates": ["02-29"], "dates": ["2100-03-01"]},
            "calendar",
        ),
        (CronSchedule("0 0 12 29 2 ? 2024"), {"effect": "exclude", "weekdays": [1]}, "cron_expression"),
        (OnceSchedule(NOON - SECOND), {"effect": "exclude", "weekdays": [1]}, "run_at"),
    ],
)
def test_what_would_never_run_is_refused_and_said_of_the_field_to_blame(schedule, spec, field):
    with pytest.raises(InvalidField) as refused:
        refuse_never(schedule, after=NOON, calendar=calendar(spec))
    assert refused.value.field == field


def test_the_search_for_a_fire_that_never_comes_is_bounded():
    spec = calendar({"effect": "exclude", "window_start": "03:00", "window_end": "03:01"})
    openings = openings_of(spec)
    before = openings.days_looked_at
    assert next_fire(CronSchedule("0 3 * * *"), after=NOON, calendar=spec) is None
    assert openings.days_looked_at - before <= 16 * 366


def test_years_that_begin_alike_are_looked_at_once():
    """The 31st is never a 30th: seven days in each of fourteen kinds of years tell so."""
    spec = calendar({"effect": "include", "month_days": [30], "window_start": "02:00", "window_end": "04:00"})
    openings = openings_of(spec)
    before = openings.days_looked_at
    assert next_fire(CronSchedule("0 3 31 * *"), after=NOON, calendar=spec) is None
    assert openings.days_looked_at - before <= 1900 + 14 * 7


def test_a_leap_day_that_is_a_sunday_is_not_never():
    spec = calendar({"effect": "include", "yearly_dates": ["02-29"], "weekdays": [7]})
    assert next_fire(CronSchedule("0 3 * * *"), after=NOON, calendar=spec).at == datetime(2032, 2, 29, 3, tzinfo=UTC)
    after = datetime(2090, 1, 1, tzinfo=UTC)
    assert next_fire(CronSchedule("0 3 * * *"), after=after, calendar=spec).at.year == 2128


@pytest.mark.parametrize("policy", ["skip", "later", "Following"])
def test_a_policy_that_is_not_there_is_refused(policy):
    with pytest.raises(InvalidField) as refused:
        fires(CronSchedule("0 3 * * *"), after=NOON, count=1, calendar=OFFICE, on_blocked=policy)
    assert refused.value.field == "on_blocked"


def test_only_an_unbroken_row_of_blocked_occurrences_ends_the_search():
    """Every Sunday the 29th of February is 28 years from the last one; the row is new after each."""
    spec = calendar({"effect": "include", "yearly_dates": ["02-29"], "weekdays": [7]})
    asked = {"after": datetime(2026, 1, 1, tzinfo=UTC), "count": 4, "calendar": spec}
    for schedule in (
        CronSchedule("0 3 * * *"),
        IntervalSchedule(timedelta(days=1), datetime(2026, 1, 1, 3, tzinfo=UTC)),
    ):
        assert [instant.year for instant in at(fires(schedule, **asked))] == [2032, 2060, 2088, 2128]
    once_closed = calendar({"effect": "exclude", "dates": ["2027-01-01"]})
    found = fires(CronSchedule("0 0 1 1 *"), after=asked["after"], count=60, calendar=once_closed)
    assert [instant.year for instant in at(found)] == list(range(2028, 2088))


# newest, and a registration's text


@settings(max_examples=60, deadline=None)
@given(
    schedule=st.sampled_from(SCHEDULES),
    spec=st.sampled_from([None, *CALENDARS]),
    policy=st.sampled_from(["advance", "defer"]),
    after=HOURS,
    hours=st.integers(0, 150),
    count=st.integers(0, 7),
)
def test_the_newest_fires_are_the_end_of_all_fires(schedule, spec, policy, after, hours, count):
    asked = {"after": after, "until": after + timedelta(hours=hours), "calendar": spec, "on_blocked": policy}
    asked["since"] = datetime(2026, 6, 1, tzinfo=UTC)
    everything = fires(schedule, **asked)
    assert newest_fires(schedule, count=count, **asked) == everything[len(everything) - min(count, len(everything)) :]


def test_a_registration_says_interval_or_cron():
    assert schedule_from_text("5m", anchor=ANCHOR) == IntervalSchedule(timedelta(minutes=5), ANCHOR)
    assert schedule_from_text("300", anchor=ANCHOR) == IntervalSchedule(timedelta(minutes=5), ANCHOR)
    assert schedule_from_text(" 0 3 * * * ", anchor=ANCHOR, timezone="Asia/Tokyo") == CronSchedule(
        "0 3 * * *", "Asia/Tokyo"
    )
    assert schedule_from_text("@hourly", anchor=ANCHOR) == CronSchedule("@hourly", "UTC")


@pytest.mark.parametrize(
    "text", ["", "0", "-5", "5x", "nan", "77 * * * *", "@reboot", "0 0 30 2 *", "every 5m", None, 300]
)
def test_a_registration_that_says_neither_is_refused_with_the_field_named(text):
    with pytest.raises(InvalidField) as refused:
        schedule_from_text(text, anchor=ANCHOR)
    assert refused.value.field == "schedule"
    with pytest.raises(InvalidField) as refused:
        schedule_from_text("5m", anchor=ANCHOR, timezone="Nowhere")
    assert refused.value.field == "timezone"
