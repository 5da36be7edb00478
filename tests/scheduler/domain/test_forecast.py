"""Counting occurrences without walking through them, and what a calendar blocks."""

from __future__ import annotations

import time as clock
from bisect import bisect_left
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calendars.domain.openings import Openings
from calendars.domain.reasons import NEVER_OPEN
from calendars.domain.rules import CalendarSpec, Effect, HolidaySet, OnBlocked, Rule
from calendars.domain.zones import load_zone
from scheduler.domain.cron_days import WallDays
from scheduler.domain.forecast import blocked, closed_parts, counts, open_parts, where_moved, why_closed
from scheduler.domain.occurrences import to_micro
from scheduler.domain.schedules import CronSchedule, IntervalSchedule, OnceSchedule, fires, occurrences

ZONES = ["UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]
CRONS = [
    "* * * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "15,45 1-3 * * *",
    "0 */5 1,15 * mon",
    "17 0-23/2 * * *",
    "0 0 L * *",
]
SECONDS = ["*/7 * * * * *", "30 0 2 * * *"]
# Before changes of clocks in each of the zones, across an end of a year, and anywhere.
STARTS = [
    datetime(2026, 3, 28, 12, 0, tzinfo=UTC),
    datetime(2026, 10, 24, 22, 30, tzinfo=UTC),
    datetime(2026, 3, 7, 20, 0, tzinfo=UTC),
    datetime(2026, 4, 4, 10, 0, tzinfo=UTC),
    datetime(2011, 12, 29, 5, 0, tzinfo=UTC),
    datetime(2026, 12, 31, 20, 0, tzinfo=UTC),
]

schedules = st.one_of(
    st.builds(CronSchedule, st.sampled_from(CRONS + SECONDS), st.sampled_from(ZONES)),
    st.builds(
        IntervalSchedule,
        st.integers(1_000_000, 10_000_000_000).map(lambda n: timedelta(microseconds=n)),
        st.sampled_from(STARTS).flatmap(
            lambda at: st.integers(-90_000, 90_000).map(lambda s: at + timedelta(seconds=s))
        ),
    ),
    st.builds(OnceSchedule, st.sampled_from(STARTS).map(lambda at: at + timedelta(hours=7))),
)
gates = st.lists(
    st.builds(
        lambda effect, weekdays, window: Rule(effect, weekdays=weekdays, window=window),
        st.sampled_from(Effect),
        st.frozensets(st.integers(1, 7), max_size=5),
        st.sampled_from([None, (time(1, 30), time(2, 45)), (time(22), time(3)), (time(9), time(17))]),
    ).filter(lambda rule: rule.weekdays or rule.window),
    min_size=1,
    max_size=3,
).flatmap(lambda rules: st.sampled_from(ZONES).map(lambda zone: Openings(CalendarSpec(zone, tuple(rules)))))


@st.composite
def edges(draw) -> list[datetime]:
    start = draw(st.sampled_from(STARTS)) + timedelta(microseconds=draw(st.sampled_from([0, 1, 700_000])))
    steps = draw(st.lists(st.sampled_from([0, 1, 59, 60, 300, 3600, 40_000]), min_size=1, max_size=8))
    found = [start]
    for step in steps:
        found.append(found[-1] + timedelta(seconds=step))
    return found


@settings(max_examples=60, deadline=None)
@given(schedules, edges(), st.lists(gates, max_size=2))
def test_what_is_counted_is_what_a_walk_finds(schedule, edges, gates) -> None:
    parts = open_parts(tuple(gates), edges[0], edges[-1]) if gates else None
    walked = [
        sum(
            all(gate.decision(int(at.timestamp())).open for gate in gates)
            for at in occurrences(schedule, after=low, until=high)
        )
        for low, high in pairwise(edges)
    ]
    assert counts(schedule, [to_micro(edge) for edge in edges], parts) == walked


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "15,45 1-3 * * *", "*/20 * * * *", "0 0 * * *"])
def test_changes_of_the_clock_are_counted_as_they_are_walked(zone: str, expression: str) -> None:
    schedule = CronSchedule(expression, zone)
    for start in STARTS:
        edges = [start + timedelta(minutes=30 * n) for n in range(97)]
        walked = [0] * 96
        for at in occurrences(schedule, after=start, until=edges[-1]):
            walked[bisect_left(edges, at) - 1] += 1
        assert counts(schedule, [to_micro(edge) for edge in edges]) == walked


@settings(max_examples=60, deadline=None)
@given(gates, edges())
def test_open_and_closed_parts_are_all_there_is(gate, edges) -> None:
    start, end = edges[0], edges[-1]
    parts = open_parts((gate,), start, end)
    both = sorted([*parts, *closed_parts(parts, start, end)])
    assert both[0][0] == int(start.timestamp())
    assert both[-1][1] == int(end.timestamp()) + 1
    assert all(one[1] == other[0] for one, other in pairwise(both))
    assert all(gate.decision(low).open and gate.decision(high - 1).open for low, high in parts)
    assert not any(gate.decision(low).open for low, _ in closed_parts(parts, start, end))


def test_a_month_of_a_thousand_minutely_jobs_is_counted_by_arithmetic() -> None:
    start = datetime(2026, 3, 2, tzinfo=UTC)
    edges = [to_micro(start + timedelta(hours=hour)) for hour in range(31 * 24 + 1)]
    begin = clock.process_time()
    for number in range(1000):
        schedule = CronSchedule(f"0-58,{'59' if number % 2 else '59-59'} * * * *", ZONES[number % 3], str(number))
        assert sum(counts(schedule, edges)) == 31 * 24 * 60
    assert clock.process_time() - begin < 5


WORKING = CalendarSpec(
    "Europe/Vienna",
    (
        Rule(Effect.EXCLUDE, "weekend", weekdays=frozenset({6, 7})),
        Rule(Effect.EXCLUDE, "holidays", holidays=HolidaySet("AT")),
        Rule(Effect.EXCLUDE, "stocktaking", dates=frozenset({date(2026, 5, 4)})),
    ),
)
GATE = Openings(WORKING)
NINE = CronSchedule("0 9 * * *", "Europe/Vienna")


def vienna(day: int, hour: int = 9) -> datetime:
    """In May Vienna is two hours ahead."""
    return datetime(2026, 5, day, hour - 2, tzinfo=UTC)


def hollow(schedule, gate, after, until) -> list[tuple[datetime, str]]:
    closed = closed_parts(open_parts((gate,), after, until), after, until)
    return list(blocked(schedule, gate, closed, after=after, until=until))


def test_what_is_blocked_names_the_rule_or_the_holiday() -> None:
    # 1 May 2026, a Friday, is Labour Day; 2 and 3 May are a weekend; 5 May is open.
    found = hollow(NINE, GATE, vienna(1, 8), vienna(5, 10))
    assert [at for at, _ in found] == [vienna(1), vienna(2), vienna(3), vienna(4)]
    assert found[0][1] in ("Staatsfeiertag", "National Day", "Labor Day")
    assert [why for _, why in found[1:]] == ["weekend", "weekend", "stocktaking"]


def test_outside_of_what_is_included_no_rule_decides() -> None:
    office = Openings(CalendarSpec("UTC", (Rule(Effect.INCLUDE, "office", window=(time(9), time(17))),)))
    assert why_closed(office, datetime(2026, 5, 5, 8, tzinfo=UTC)) == NEVER_OPEN
    unnamed = Openings(CalendarSpec("UTC", (Rule(Effect.EXCLUDE, weekdays=frozenset({2})),)))
    assert why_closed(unnamed, datetime(2026, 5, 5, 8, tzinfo=UTC)) == ""


def test_a_holiday_whose_window_goes_over_midnight_has_its_name_after_midnight() -> None:
    night = Rule(Effect.EXCLUDE, "nights", holidays=HolidaySet("AT"), window=(time(22), time(6)))
    gate = Openings(CalendarSpec("Europe/Vienna", (night,)))
    assert why_closed(gate, vienna(2, 5)) == why_closed(gate, vienna(1, 23))


def test_edges_of_what_is_asked_for() -> None:
    assert hollow(NINE, GATE, vienna(2), vienna(3)) == [(vienna(3), "weekend")]
    assert hollow(NINE, GATE, vienna(2), vienna(3) - timedelta(microseconds=1)) == []


def test_where_a_blocked_occurrence_goes() -> None:
    since = vienna(1, 2) - timedelta(days=30)
    monday, tuesday = vienna(4), vienna(5)

    def moved(policy: OnBlocked, at: datetime = monday) -> datetime | None:
        return where_moved(at, load_zone("Europe/Vienna"), GATE, policy, since=since)

    assert moved(OnBlocked.DEFER) == datetime(2026, 5, 4, 22, tzinfo=UTC)  # Tuesday begins
    assert moved(OnBlocked.FOLLOWING) == tuesday
    assert moved(OnBlocked.PRECEDING) == datetime(2026, 4, 30, 7, tzinfo=UTC)
    # Before the trigger was made nothing fired.
    assert where_moved(monday, load_zone("Europe/Vienna"), GATE, OnBlocked.PRECEDING, since=vienna(1)) is None


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([OnBlocked.DEFER, OnBlocked.FOLLOWING, OnBlocked.PRECEDING]),
    gates,
    st.sampled_from(ZONES),
    st.sampled_from(STARTS),
    st.integers(0, 3 * 86_400_000_000),
)
def test_where_an_occurrence_goes_is_where_a_schedule_of_it_alone_fires(policy, gate, zone, start, micros) -> None:
    at = start + timedelta(microseconds=micros)
    since = start - timedelta(days=30)
    if not gate.decision(int(at.timestamp())).open:
        fired = fires(OnceSchedule(at, zone), after=since, count=1, calendar=gate.spec, on_blocked=policy)
        far = fired and abs(fired[0].at - at) > timedelta(days=400)
        expected = fired[0].at if fired and not far else None
        assert where_moved(at, load_zone(zone), gate, policy, since=since) == expected


def test_a_roll_that_never_ends_is_given_up_after_400_days() -> None:
    office = Openings(CalendarSpec("UTC", (Rule(Effect.INCLUDE, "office", window=(time(9), time(17))),)))
    before = office.days_looked_at
    assert where_moved(vienna(1, 22), load_zone("UTC"), office, OnBlocked.FOLLOWING, since=vienna(1)) is None
    assert office.days_looked_at - before <= 401


def test_where_it_goes_is_looked_up_by_days_that_are_kept(monkeypatch) -> None:
    office = Openings(CalendarSpec("UTC", (Rule(Effect.INCLUDE, "office", window=(time(9), time(17))),)))
    asked: list[int] = []
    monkeypatch.setattr(
        WallDays, "open_parts", lambda self, day, *of, real=WallDays.open_parts: asked.append(day) or real(self, day)
    )
    for hour in (20, 21, 22):
        assert where_moved(vienna(1, hour), load_zone("UTC"), office, OnBlocked.FOLLOWING, since=vienna(1)) is None
    assert len(asked) == len(set(asked)) == 400
