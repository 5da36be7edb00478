"""`following` and `preceding`: against a reading that takes each occurrence and looks day by day where it goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from calendars.domain.openings import is_open, openings_of
from calendars.domain.rules import CalendarSpec, parse_rule
from calendars.domain.zones import load_zone
from scheduler.domain import rolls
from scheduler.domain.schedules import (
    CronSchedule,
    Fire,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
    fires,
    next_fire,
    occurrences,
)

# Shrinking a counterexample of days costs minutes, more than a run may take; the first one found tells enough.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
DAY, SECOND, TICK = timedelta(days=1), timedelta(seconds=1), timedelta(microseconds=1)
LONGEST_ROLL = 40


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def calendar(*rules: dict, timezone: str = "UTC") -> CalendarSpec:
    return CalendarSpec(timezone, tuple(parse_rule(rule) for rule in rules))


def first_shown(wall: datetime, zone: str) -> datetime:
    """The first instant at which the clock shows ``wall``, or the first second after the gap that skips it."""
    info = load_zone(zone).info
    at = wall.replace(tzinfo=info).astimezone(UTC)
    if at.astimezone(info).replace(tzinfo=None) == wall:
        return at
    low, high = at - 2 * DAY, at + 2 * DAY  # the clock shows less than `wall` at `low` and more at `high`
    while high - low > SECOND:
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if middle.astimezone(info).replace(tzinfo=None) < wall:
            low = middle
        else:
            high = middle
    return high


def named_walls(schedule: Schedule, zone: str, found: list[datetime], hours: set[int], minutes: set[int]):
    """Each occurrence with the wall time that the schedule names: that of the gap where one moved it."""
    info = load_zone(zone).info
    for at in found:
        wall = at.astimezone(info).replace(tzinfo=None)
        if isinstance(schedule, CronSchedule) and (wall.hour not in hours or wall.minute not in minutes):
            gap = ((at - SECOND).astimezone(info).replace(tzinfo=None) + SECOND, wall)
            candidate = gap[0].replace(second=0)
            while candidate.hour not in hours or candidate.minute not in minutes:
                candidate += timedelta(minutes=1)
            assert candidate < gap[1]
            wall = candidate
        yield at, wall


def expected_rolls(schedule, zone, spec, policy, since, after, until, hours=frozenset(), minutes=frozenset()):
    found: dict[datetime, datetime] = {}
    step = DAY if policy == "following" else -DAY
    every = list(occurrences(schedule, after=since, until=until + LONGEST_ROLL * DAY))
    for occurrence, wall in named_walls(schedule, zone, every, hours, minutes):
        at = occurrence
        for _ in range(LONGEST_ROLL):
            if is_open(spec, at).open:
                if after < at <= until:
                    found[at] = min(occurrence, found.get(at, occurrence))
                break
            wall += step
            at = first_shown(wall, zone)
    return [Fire(at, found[at]) for at in sorted(found)]


ZONES = {
    "UTC": "2026-06-03T00:00Z",
    "Europe/Berlin": "2026-03-29T01:00Z",
    "Europe/Vienna": "2026-10-25T01:00Z",
    "Australia/Lord_Howe": "2026-10-03T15:30Z",
    "America/Havana": "2026-11-01T05:00Z",
    "America/New_York": "2026-03-08T07:00Z",
    "Pacific/Apia": "2011-12-30T10:00Z",
    "Asia/Tokyo": "2026-12-31T15:00Z",
}
CLOSED = st.lists(
    st.one_of(
        st.fixed_dictionaries({"weekdays": st.lists(st.integers(1, 7), min_size=1, max_size=5)}),
        st.fixed_dictionaries({"month_days": st.lists(st.integers(1, 31), min_size=1, max_size=12)}),
        st.tuples(st.integers(0, 23), st.integers(0, 23))
        .filter(lambda pair: pair[0] != pair[1])
        .map(lambda pair: {"window_start": f"{pair[0]:02d}:00", "window_end": f"{pair[1]:02d}:30"}),
        st.fixed_dictionaries(
            {
                "weekdays": st.lists(st.integers(1, 7), min_size=1, max_size=3),
                "window_start": st.just("22:30"),
                "window_end": st.sampled_from(["02:15", "09:00"]),
            }
        ),
    ).map(lambda rule: {"effect": "exclude", **rule}),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None, phases=NO_SHRINKING)
@given(
    zone=st.sampled_from(sorted(ZONES)),
    calendar_zone=st.sampled_from([None, "Asia/Tokyo", "America/New_York"]),
    rules=CLOSED,
    policy=st.sampled_from(["following", "preceding"]),
    hours=st.sampled_from([{2}, {0, 23}, {1, 2, 3}, {9, 17}, set(range(24))]),
    minutes=st.sampled_from([{0}, {15, 30}, {5, 59}]),
    weekday=st.sampled_from(["*", "1-5", "0,6", "3"]),
    shift=st.integers(-12 * 24, 8 * 24),
    days=st.sampled_from([0.05, 1.0, 6.0]),
)
def test_a_blocked_occurrence_of_cron_goes_to_its_local_time_on_the_next_or_previous_open_day(
    zone, calendar_zone, rules, policy, hours, minutes, weekday, shift, days
):
    after = utc(ZONES[zone]) + timedelta(hours=shift)
    until, since = after + timedelta(days=days), utc(ZONES[zone]) - 30 * DAY
    spec = calendar(*rules, timezone=calendar_zone or zone)
    text = [",".join(map(str, sorted(values))) for values in (minutes, hours)]
    if len(hours) == 24:
        text[1] = "*"
    schedule = CronSchedule(f"{text[0]} {text[1]} * * {weekday}", zone)
    found = fires(schedule, after=after, until=until, calendar=spec, on_blocked=policy, since=since)
    assert found == expected_rolls(schedule, zone, spec, policy, since, after, until, hours, minutes)
    first = next_fire(schedule, after=after, calendar=spec, on_blocked=policy, since=since)
    assert first == found[0] if found else first is None or first.at > until


@settings(max_examples=60, deadline=None, phases=NO_SHRINKING)
@given(
    zone=st.sampled_from(sorted(ZONES)),
    rules=CLOSED,
    policy=st.sampled_from(["following", "preceding"]),
    every=st.sampled_from([timedelta(hours=6), DAY, timedelta(hours=25), timedelta(minutes=437), 7 * DAY, 2.5 * DAY]),
    micro=st.sampled_from([0, 250_000]),
    lead=st.sampled_from([20, 20, 3, -2]),
    shift=st.integers(-12 * 24, 8 * 24),
    days=st.sampled_from([0.05, 1.0, 6.0]),
)
def test_a_blocked_occurrence_of_an_interval_too(zone, rules, policy, every, micro, lead, shift, days):
    around = utc(ZONES[zone])
    anchor = around - timedelta(days=lead, hours=3, minutes=7) + micro * TICK
    after = around + timedelta(hours=shift)
    spec, schedule = calendar(*rules, timezone=zone), IntervalSchedule(every, anchor, zone)
    until, since = after + timedelta(days=days), around - 30 * DAY
    found = fires(schedule, after=after, until=until, calendar=spec, on_blocked=policy, since=since)
    assert found == expected_rolls(schedule, zone, spec, policy, since, after, until)


@settings(max_examples=60, deadline=None, phases=NO_SHRINKING)
@given(
    zone=st.sampled_from(sorted(ZONES)),
    rules=CLOSED,
    policy=st.sampled_from(["following", "preceding"]),
    shift=st.integers(-12 * 24, 12 * 24),
)
def test_a_blocked_instant_too(zone, rules, policy, shift):
    around = utc(ZONES[zone])
    spec, schedule = calendar(*rules, timezone=zone), OnceSchedule(around + timedelta(hours=shift, minutes=20), zone)
    after, until = around - 60 * DAY, around + 60 * DAY
    found = fires(schedule, after=after, until=until, calendar=spec, on_blocked=policy)
    assert found == expected_rolls(schedule, zone, spec, policy, after, after, until)[:1]


# the stories of the design

VIENNA_WORKDAYS = calendar(
    {"effect": "include", "weekdays": [1, 2, 3, 4, 5]},
    {"effect": "exclude", "holiday_country": "AT"},
    timezone="Europe/Vienna",
)
FIRST_OF_MONTH = CronSchedule("0 6 1 * *", "Europe/Vienna")


def test_preceding_of_a_blocked_first_lands_on_the_last_open_day_before_it():
    """1 November 2026 is a Sunday and a holiday: Friday 30 October, 06:00 in Vienna, which is on winter time then."""
    landed, original = utc("2026-10-30T05:00Z"), utc("2026-11-01T05:00Z")
    asked = {"calendar": VIENNA_WORKDAYS, "on_blocked": "preceding"}
    # As the materializer asks, an hour at a time: exactly one hour has it.
    hours = [utc("2026-10-28T00:30Z") + k * timedelta(hours=1) for k in range(24 * 6)]
    found = [fires(FIRST_OF_MONTH, after=a, until=b, **asked) for a, b in pairwise(hours)]
    assert [hour for hour in found if hour] == [[Fire(landed, original)]]
    assert next_fire(FIRST_OF_MONTH, after=landed, **asked).at == utc("2026-12-01T05:00Z")
    following = fires(FIRST_OF_MONTH, after=landed, count=1, calendar=VIENNA_WORKDAYS, on_blocked="following")
    assert following == [Fire(utc("2026-11-02T05:00Z"), original)]


def test_a_roll_is_as_long_as_the_calendar_is_closed():
    closed = calendar({"effect": "exclude", "range_start": "2026-06-01", "range_end": "2028-12-01"})
    schedule = CronSchedule("0 4 15 8 *")
    first = {"calendar": closed, "count": 1, "on_blocked": "following"}
    assert fires(schedule, after=utc("2026-06-01T00:00Z"), **first) == [
        Fire(utc("2028-12-02T04:00Z"), utc("2026-08-15T04:00Z"))
    ]
    first["on_blocked"] = "preceding"
    assert fires(schedule, after=utc("2025-08-15T04:00Z"), **first) == [
        Fire(utc("2026-05-31T04:00Z"), utc("2026-08-15T04:00Z"))
    ]
    window = {"calendar": closed, "after": utc("2028-12-02T03:30Z"), "until": utc("2028-12-02T04:30Z")}
    assert len(fires(schedule, on_blocked="following", **window)) == 1


def test_thirty_closed_months_of_a_minutely_job_cost_days():
    closed = calendar(
        {"effect": "exclude", "range_start": "2026-06-01", "range_end": "2028-12-01", "weekdays": [1, 2, 3, 4, 5, 6, 7]}
    )
    openings = openings_of(closed)
    before = openings.days_looked_at
    asked = {"calendar": closed, "count": 3, "after": utc("2026-06-01T00:00Z")}
    found = fires(CronSchedule("* * * * *"), on_blocked="following", **asked)
    assert [fire.at for fire in found] == [utc(f"2028-12-02T00:0{k}:00Z") for k in range(3)]
    assert [fire.occurrence_at for fire in found] == [utc(f"2026-06-01T00:0{k}:00Z") for k in range(3)]
    assert openings.days_looked_at - before <= 2000


def test_a_gap_moves_what_rolls_into_it_to_its_end_and_a_fold_gives_the_first_pass():
    berlin = {"timezone": "Europe/Berlin"}
    saturdays = calendar({"effect": "exclude", "weekdays": [6]}, **berlin)
    asked = {"calendar": saturdays, "on_blocked": "following", "count": 1}
    schedule = CronSchedule("30 2 * * SAT", "Europe/Berlin")
    assert fires(schedule, after=utc("2026-03-27T12:00Z"), **asked)[0].at == utc("2026-03-29T01:00Z")
    assert fires(schedule, after=utc("2026-10-23T12:00Z"), **asked)[0].at == utc("2026-10-25T00:30Z")
    sundays = calendar({"effect": "exclude", "weekdays": [7]}, **berlin)
    moved = CronSchedule("30 2 * * SUN", "Europe/Berlin")
    # What a gap moved to 03:00 rolls as what it is: the job of 02:30.
    assert fires(moved, after=utc("2026-03-28T12:00Z"), calendar=sundays, on_blocked="following", count=1) == [
        Fire(utc("2026-03-30T00:30Z"), utc("2026-03-29T01:00Z"))
    ]


def test_what_was_due_before_the_creation_does_not_roll():
    weekend = calendar({"effect": "exclude", "weekdays": [6, 7]})
    asked = {"after": utc("2026-06-06T12:00Z"), "calendar": weekend, "on_blocked": "following", "count": 1}
    daily = CronSchedule("0 9 * * SAT")
    assert fires(daily, since=utc("2026-06-06T08:59Z"), **asked)[0].at == utc("2026-06-08T09:00Z")
    assert fires(daily, since=utc("2026-06-06T09:00Z"), **asked)[0].at == utc("2026-06-15T09:00Z")


@pytest.mark.parametrize("policy", ["following", "preceding"])
@pytest.mark.parametrize(
    "schedule",
    [
        CronSchedule("0 3 * * *", "Europe/Berlin"),
        CronSchedule("0 0 12 29 2 ? 2024", "Europe/Berlin"),
        OnceSchedule(utc("2026-06-06T03:00Z"), "Europe/Berlin"),
    ],
    ids=["daily", "ended", "once"],
)
def test_what_is_open_at_no_day_never_fires_and_the_search_ends(policy, schedule):
    office = calendar(
        {"effect": "include", "window_start": "08:00", "window_end": "18:00", "weekdays": [1, 2, 3, 4, 5]},
        timezone="Europe/Berlin",
    )
    openings = openings_of(office)
    before = openings.days_looked_at
    asked = {"after": utc("2026-06-05T12:00Z"), "calendar": office, "on_blocked": policy}
    assert next_fire(schedule, **asked) is None
    assert openings.days_looked_at - before <= 1000


@pytest.mark.parametrize(
    "spec",
    [
        calendar({"effect": "exclude", "weekdays": [6, 7]}),
        calendar(
            {"effect": "include", "weekdays": [2], "window_start": "09:00", "window_end": "17:00"},
            timezone="Asia/Tokyo",
        ),
        calendar({"effect": "include", "dates": ["2026-04-05"]}, timezone="Australia/Lord_Howe"),
    ],
)
@pytest.mark.parametrize("every", [7, 90_000])
def test_what_rolls_back_before_an_interval_begins_is_found_without_a_walk_through_the_years(monkeypatch, spec, every):
    looked: list[int] = []
    monkeypatch.setattr(
        rolls._Rolls,
        "_rolled_into",
        lambda self, wall, *of, real=rolls._Rolls._rolled_into: looked.append(wall) or real(self, wall, *of),
    )
    anchor = datetime(2026, 4, 25, 12, 0, 31, tzinfo=UTC)  # a Saturday
    schedule = IntervalSchedule(timedelta(seconds=every), anchor, "Australia/Lord_Howe")
    asked = {"calendar": spec, "on_blocked": "preceding", "count": 5}
    soon = fires(schedule, after=anchor - timedelta(days=30), **asked)
    looked.clear()
    assert fires(schedule, after=anchor - timedelta(days=9000), **asked) == soon
    assert len(soon) == 5
    assert soon[0].at < anchor
    assert len(looked) < 24 * 60
