"""The walk over the wall clock, against a minute-by-minute reading of zoneinfo."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from calendars.domain.zones import load_zone
from scheduler.domain.schedules import CronSchedule, fires

# Shrinking a counterexample of days costs minutes, more than a run may take; the first one found tells enough.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
MINUTE = timedelta(minutes=1)
CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00Z"),
    ("Antarctica/Troll", "2026-10-25T01:00Z"),
    ("America/Havana", "2026-03-08T05:00Z"),
    ("America/Havana", "2026-11-01T05:00Z"),
    ("Europe/Dublin", "2026-10-25T01:00Z"),
    ("Africa/Casablanca", "2026-02-15T02:00Z"),
    ("America/Nuuk", "2025-03-30T01:00Z"),
    ("Asia/Almaty", "2024-02-29T18:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00Z"),
    ("Africa/Juba", "2021-01-31T21:00Z"),
    ("Pacific/Kwajalein", "1993-08-21T12:00Z"),
    ("UTC", "2026-12-31T23:00Z"),
]


@st.composite
def fields(draw, low: int, high: int) -> tuple[str, frozenset[int]]:
    """The text of a field and the values that it stands for, worked out beside it."""
    kind = draw(st.sampled_from(["*", "step", "list", "range"]))
    if kind == "*":
        return "*", frozenset(range(low, high + 1))
    if kind == "step":
        step = draw(st.integers(1, high))
        return f"*/{step}", frozenset(range(low, high + 1, step))
    if kind == "list":
        values = draw(st.lists(st.integers(low, high), min_size=1, max_size=4))
        return ",".join(map(str, values)), frozenset(values)
    a, b = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    return f"{a}-{b}", frozenset(range(a, b + 1))


def by_the_minute(zone: str, matches, fixed: bool, after: datetime, until: datetime) -> list[datetime]:
    info = load_zone(zone).info
    found = []
    at = after.replace(second=0, microsecond=0)
    wall_before = (at - MINUTE).astimezone(info).replace(tzinfo=None)
    while at <= until:
        local = at.astimezone(info)
        wall = local.replace(tzinfo=None)
        if fixed:
            skipped = (wall_before + k * MINUTE for k in range(1, (wall - wall_before) // MINUTE))
            runs = (local.fold == 0 and matches(wall)) or any(matches(gone) for gone in skipped)
        else:
            runs = matches(wall)
        if runs and at > after:
            found.append(at)
        wall_before = wall
        at += MINUTE
    return found


@settings(max_examples=120, deadline=None, phases=NO_SHRINKING)
@given(
    change=st.sampled_from(CHANGES),
    minute=fields(0, 59),
    hour=fields(0, 23),
    day=st.one_of(st.just(("*", frozenset(range(1, 32)))), fields(1, 31)),
    weekday=st.one_of(st.just(("*", frozenset(range(7)))), fields(0, 6)),
    shift=st.integers(-40 * 3600, 10 * 3600),
)
def test_every_minute_around_a_change_of_the_clock(change, minute, hour, day, weekday, shift):
    zone, at = change
    after = datetime.fromisoformat(at) + timedelta(seconds=shift)
    until = after + timedelta(hours=50)
    both = day[0].startswith("*") or weekday[0].startswith("*")

    def matches(wall: datetime) -> bool:
        if wall.minute not in minute[1] or wall.hour not in hour[1]:
            return False
        by_day, by_weekday = wall.day in day[1], wall.isoweekday() % 7 in weekday[1]
        return (by_day and by_weekday) if both else (by_day or by_weekday)

    fixed = not (minute[0].startswith("*") or hour[0].startswith("*"))
    schedule = CronSchedule(f"{minute[0]} {hour[0]} {day[0]} * {weekday[0]}", zone)
    found = [fire.at for fire in fires(schedule, after=after, until=until)]
    assert found == by_the_minute(zone, matches, fixed, after, until)


@settings(max_examples=60, deadline=None)
@given(
    expression=st.sampled_from(
        ["*/7 * * * *", "30 2 * * *", "0 0 29 2 *", "0 12 L * *", "15 1 * * SUN#1", "*/20 * * * * *", "0 0 31W * FRI"]
    ),
    zone=st.sampled_from(sorted({zone for zone, _ in CHANGES})),
    after=st.integers(157_766_400, 3_786_912_000).map(lambda second: datetime.fromtimestamp(second, UTC)),
)
def test_asking_on_from_any_fire_or_between_two_gives_the_same_fires(expression, zone, after):
    schedule = CronSchedule(expression, zone)
    found = [fire.at for fire in fires(schedule, after=after, count=6)]
    assert len(found) == 6
    assert after < found[0]
    assert all(a < b for a, b in pairwise(found))
    for k in range(3):
        between = found[k] + (found[k + 1] - found[k]) / 2
        assert [fire.at for fire in fires(schedule, after=found[k], count=3)] == found[k + 1 : k + 4]
        assert [fire.at for fire in fires(schedule, after=between, count=3)] == found[k + 1 : k + 4]
    assert [fire.at for fire in fires(schedule, after=after, until=found[4])] == found[:5]


def test_a_leap_day_on_a_monday_is_found_across_the_years_and_over_2100():
    schedule = CronSchedule("0 0 29 2 */7", "Europe/Berlin")  # */7 begins with *: both must match, a Sunday
    years = [fire.at.astimezone(load_zone("Europe/Berlin").info).year for fire in fires(
        schedule, after=datetime(2026, 1, 1, tzinfo=UTC), count=4
    )]  # fmt: skip
    assert years == [2032, 2060, 2088, 2128]


def test_seconds_in_a_skipped_minute_collapse_to_one_fire():
    schedule = CronSchedule("* 30 2 * * *", "Europe/Berlin")
    found = fires(schedule, after=datetime(2026, 3, 28, 12, tzinfo=UTC), until=datetime(2026, 3, 29, 12, tzinfo=UTC))
    assert [fire.at for fire in found] == [datetime(2026, 3, 29, 1, tzinfo=UTC)]


@pytest.mark.parametrize("after", [datetime(9979, 6, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)])
def test_the_end_of_time_ends_the_fires(after):
    assert len(fires(CronSchedule("0 0 1 1 *"), after=after, count=3)) <= 1
