"""What holds of every schedule at every instant: any zone, any year, gaps and folds, any calendar."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import holidays
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from calendars.domain import openings as openings_module
from calendars.domain.openings import is_open
from calendars.domain.rules import CalendarSpec, OnBlocked, parse_rule
from calendars.domain.zones import load_zone, zone_names
from scheduler.domain import blocked, rolls
from scheduler.domain.newest import previous_before
from scheduler.domain.schedules import CronSchedule, IntervalSchedule, OnceSchedule, fires, next_after, next_fire
from tests.scheduler.domain.test_walk import by_the_minute, fields

# Shrinking a counterexample of days costs minutes, more than a run may take; the first one found tells enough.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
TICK, MINUTE, HOUR, DAY = timedelta(microseconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
ZONES = sorted(zone_names())
INSTANTS = st.integers(0, 4_100_000_000).map(lambda second: datetime.fromtimestamp(second, UTC))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@lru_cache(maxsize=4096)
def changes(zone: str, year: int) -> tuple[datetime, ...]:
    """The hours of a year in which the zone's clock changes, read from zoneinfo day by day."""
    info = load_zone(zone).info
    found = []
    at = datetime(year, 1, 1, tzinfo=UTC)
    while at.year == year:
        if at.astimezone(info).utcoffset() != (at + DAY).astimezone(info).utcoffset():
            hours = (at + k * HOUR for k in range(24))
            found += [h for h in hours if h.astimezone(info).utcoffset() != (h + HOUR).astimezone(info).utcoffset()]
        at += DAY
    return tuple(found)


@st.composite
def moments(draw) -> tuple[str, datetime]:
    """A zone and an instant of 1971 to 2099, near a change of its clock where that year has one."""
    zone, year = draw(st.sampled_from(ZONES)), draw(st.integers(1971, 2099))
    near = changes(zone, year) or (datetime(year, draw(st.integers(1, 12)), 28, tzinfo=UTC),)
    return zone, draw(st.sampled_from(near)) - timedelta(minutes=draw(st.integers(0, 26 * 60)))


@settings(max_examples=60, deadline=None, phases=NO_SHRINKING, suppress_health_check=[HealthCheck.too_slow])
@given(
    moment=moments(),
    minute=fields(0, 59),
    hour=fields(0, 23),
    day=st.one_of(st.just(("*", frozenset(range(1, 32)))), fields(1, 31)),
    month=st.one_of(st.just(("*", frozenset(range(1, 13)))), fields(1, 12)),
    weekday=st.one_of(st.just(("*", frozenset(range(7)))), fields(0, 6)),
)
def test_nothing_is_skipped_and_nothing_invented_in_any_zone_and_year(moment, minute, hour, day, month, weekday):
    zone, after = moment
    until = after + timedelta(hours=28)
    both = day[0].startswith("*") or weekday[0].startswith("*")

    def matches(wall: datetime) -> bool:
        if wall.minute not in minute[1] or wall.hour not in hour[1] or wall.month not in month[1]:
            return False
        by_day, by_weekday = wall.day in day[1], wall.isoweekday() % 7 in weekday[1]
        return (by_day and by_weekday) if both else (by_day or by_weekday)

    try:
        schedule = CronSchedule(f"{minute[0]} {hour[0]} {day[0]} {month[0]} {weekday[0]}", zone)
    except ValueError:
        assert day[1] <= {29, 30, 31}  # a date that no year has
        return
    fixed = not (minute[0].startswith("*") or hour[0].startswith("*"))
    expected = by_the_minute(zone, matches, fixed, after, until)
    assert [fire.at for fire in fires(schedule, after=after, until=until)] == expected


EXPRESSIONS = """\
*/7 * * * *|30 2 * * *|0 0 29 2 *|0 12 L * *|15 1 * * SUN#1|*/20 * * * * *|0 0 31W * FRI|0 0 1 1 *|59 23 31 12 *
0 */4 * * *|5,35 8-18 * * MON-FRI|0 0 12 ? 6-8 MON#1 2020-2040|@hourly|13 13 13 * FRI|0 0 LW * *|0 0 L-3 */2 *"""
EXPRESSIONS = [text for line in EXPRESSIONS.splitlines() for text in line.split("|")]
SCHEDULES = st.one_of(
    st.builds(CronSchedule, st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES)),
    st.builds(
        IntervalSchedule,
        st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=40)),
        INSTANTS,
    ),
    st.builds(OnceSchedule, INSTANTS),
)


@settings(max_examples=120, deadline=None, phases=NO_SHRINKING)
@given(schedule=SCHEDULES, t=INSTANTS, share=st.floats(0, 1))
def test_next_is_strictly_later_previous_strictly_earlier_and_between_two_fires_nothing_changes(schedule, t, share):
    later, earlier = next_after(schedule, t), previous_before(schedule, t)
    if earlier is not None:
        assert earlier < t
        assert next_after(schedule, earlier) == (later if next_after(schedule, t - TICK) != t else t)
    if later is None:
        return
    assert t < later
    before = previous_before(schedule, later)
    assert before is None or before <= t
    # Anywhere between the two the answer is the same, up to the instant itself.
    begin = before or t
    between = min(begin + (later - begin) * share, later - TICK)
    assert next_after(schedule, between) == later
    assert next_after(schedule, later - TICK) == later
    if before is not None and between > before:
        assert previous_before(schedule, between) == before


WEEKDAYS, MONTH_DAYS = st.lists(st.integers(1, 7), min_size=1, max_size=6), st.lists(st.integers(1, 31), min_size=1)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "weekdays": WEEKDAYS,
        "month_days": MONTH_DAYS,
        "yearly_dates": st.lists(st.sampled_from(["02-29", "01-01", "12-24", "06-15"]), min_size=1),
        "dates": st.lists(st.dates(date(1970, 1, 1), date(2199, 12, 31)), min_size=1, max_size=3),
        "range_start": st.dates(date(2020, 1, 1), date(2060, 1, 1)),
        "range_end": st.dates(date(2060, 1, 2), date(2199, 12, 31)),
        "window": st.tuples(st.integers(0, 23), st.integers(0, 23)).filter(lambda pair: pair[0] != pair[1]),
        "holiday_country": st.sampled_from(["AT", "US", "GB"]),
    },
).filter(bool)


def rule_of(effect: str, conditions: dict):
    values = {"effect": effect, **conditions}
    if "window" in values:
        values["window_start"], values["window_end"] = (f"{hour:02d}:00" for hour in values.pop("window"))
    return parse_rule(values)


CALENDARS = st.builds(
    CalendarSpec,
    st.sampled_from(["UTC", "Europe/Vienna", "America/New_York", "Pacific/Apia"]),
    st.lists(st.builds(rule_of, st.sampled_from(["include", "exclude"]), CONDITIONS), min_size=1, max_size=4).map(
        tuple
    ),
)
POLICIES = st.sampled_from(list(OnBlocked))


class Steps:
    """Counts the days that calendars are asked about, and the occurrences that are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.days = self.occurrences = 0
        parts_of, occurrences_from = openings_module.Openings._parts, blocked.occurrences_from

        def counted_parts(openings, day, offset):
            self.days += 1
            return parts_of(openings, day, offset)

        def counted_occurrences(schedule, start, until) -> Iterator[datetime]:
            for at in occurrences_from(schedule, start, until):
                self.occurrences += 1
                yield at

        monkeypatch.setattr(openings_module.Openings, "_parts", counted_parts)
        for module in (blocked, rolls):
            monkeypatch.setattr(module, "occurrences_from", counted_occurrences)


@settings(max_examples=20, deadline=None, phases=NO_SHRINKING, suppress_health_check=[HealthCheck.too_slow])
@given(
    expression=st.sampled_from([*EXPRESSIONS, "* * * * *", "* * * * * *"]),
    every=st.sampled_from([None, None, timedelta(seconds=1), timedelta(minutes=47), DAY, timedelta(days=7)]),
    zone=st.sampled_from(["UTC", "Europe/Vienna", "Asia/Tokyo"]),
    spec=CALENDARS,
    policy=POLICIES,
    t=st.integers(1_704_067_200, 2_524_608_000).map(lambda second: datetime.fromtimestamp(second, UTC)),
)
def test_the_search_takes_a_bounded_number_of_steps_whatever_the_calendar(expression, every, zone, spec, policy, t):
    schedule = (
        CronSchedule(expression, zone) if every is None else IntervalSchedule(every, utc("2024-01-01T03:30Z"), zone)
    )
    with pytest.MonkeyPatch.context() as patch:
        steps = Steps(patch)
        found = next_fire(schedule, after=t, calendar=spec, on_blocked=policy)
    # The search may go to the last date that a rule names, 175 years ahead here: each day a few times over.
    assert steps.days <= 16 * 175 * 366
    assert steps.occurrences <= 50_000
    if found is not None:
        assert found.at > t
        assert is_open(spec, found.at).open
        assert next_after(schedule, found.at - TICK, calendar=spec, on_blocked=policy) == found.at


# the Christmas of four countries


@pytest.mark.parametrize(
    ("country", "zone"),
    [("AT", "Europe/Vienna"), ("DE", "Europe/Berlin"), ("US", "America/New_York"), ("GB", "Europe/London")],
)
def test_the_next_fire_after_a_closed_christmas_is_the_first_allowed_one_at_every_moment_of_it(country, zone):
    closed = [f"12-{day}" for day in range(24, 32)] + [f"01-0{day}" for day in range(1, 7)]
    spec = CalendarSpec(
        zone,
        (
            parse_rule({"effect": "include", "weekdays": [1, 2, 3, 4, 5]}),
            parse_rule({"effect": "exclude", "holiday_country": country}),
            parse_rule({"effect": "exclude", "yearly_dates": closed}),
        ),
    )
    info, off = load_zone(zone).info, holidays.country_holidays(country, years=range(2020, 2032))
    schedule = CronSchedule("0 2 * * *", zone)
    for year in (2021, 2026):
        after, end = datetime(year, 12, 22, tzinfo=UTC), datetime(year + 1, 1, 12, tzinfo=UTC)
        while after < end:
            wall = after.astimezone(info)
            day = wall.date() + DAY * (wall.hour >= 2)
            while day.weekday() > 4 or day in off or day.strftime("%m-%d") in closed:
                day += DAY
            expected = datetime(day.year, day.month, day.day, 2, tzinfo=info)
            assert next_after(schedule, after, calendar=spec) == expected, after
            after += 2 * HOUR
