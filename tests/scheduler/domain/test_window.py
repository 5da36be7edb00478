"""All fires of a window: equal schedules are computed once, and nobody can tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.domain import window
from scheduler.domain.occurrences import of_micro, to_micro
from scheduler.domain.schedules import CronSchedule, IntervalSchedule, OnceSchedule, fires
from scheduler.domain.window import MOST, MOST_OF_FEW, PlainCron, PlainInterval, fires_in_window, fires_of

NOON = datetime(2026, 10, 24, 22, 0, 0, 7, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The schedules that are really walked through, in order."""
    asked: list[object] = []
    real = window.occurrences

    def counted(schedule, **bounds):
        asked.append(schedule)
        return real(schedule, **bounds)

    window._remembered.cache_clear()
    window._remembered_a_little.cache_clear()
    monkeypatch.setattr(window, "occurrences", counted)
    return asked


def test_equal_schedules_are_computed_once_in_a_window(computed):
    texts = [("*/5 * * * *", "UTC"), ("30 2 * * *", "Europe/Berlin"), ("*/5 * * * *", "Europe/Berlin")]
    schedules = [CronSchedule(*texts[k % 3], hash_key=f"team:job-{k}") for k in range(60)]
    found = fires_in_window(schedules, NOON, NOON + 5 * HOUR)
    assert len(computed) == 3
    assert found == [fires(schedule, after=NOON, until=NOON + 5 * HOUR) for schedule in schedules]
    fires_in_window(schedules, NOON, NOON + 6 * HOUR)
    assert len(computed) == 6


def test_what_h_stands_for_keeps_schedules_apart(computed):
    schedules = [CronSchedule("H * * * *", hash_key=key) for key in ("a", "b", "a")]
    assert schedules[0] == schedules[2] != schedules[1]
    fires_in_window(schedules, NOON, NOON + HOUR)
    assert len(computed) == 2
    assert CronSchedule("0 3 * * THU", hash_key="a") == CronSchedule("0 3 * * THU", hash_key="b")


def test_a_window_with_more_than_is_remembered_has_all_its_fires(computed):
    secondly = CronSchedule("* * * * * *")
    assert len(fires_of(secondly, NOON, NOON + HOUR)) == 3600
    assert len(fires_of(secondly, NOON, NOON + HOUR, MOST + 5)) == MOST + 5
    assert len(fires_of(secondly, NOON, NOON + HOUR, 3)) == 3
    assert len(fires_of(secondly, NOON, None, 1)) == 1


def test_a_long_gap_that_many_missed_is_walked_once(computed):
    secondly = CronSchedule("* * * * * *")
    found = fires_of(secondly, NOON, NOON + 9 * HOUR, MOST_OF_FEW)
    walks = len(computed)
    assert fires_of(CronSchedule("* * * * * *"), NOON, NOON + 9 * HOUR, MOST_OF_FEW) == found
    assert len(computed) == walks
    assert len(found) == MOST_OF_FEW
    half_an_hour = fires_of(secondly, NOON, NOON + HOUR / 2)
    walks = len(computed)
    assert fires_of(secondly, NOON, NOON + HOUR / 2) == half_an_hour
    assert (len(half_an_hour), len(computed)) == (1800, walks)
    assert len(fires_of(secondly, NOON, NOON + 2 * HOUR)) == 7200


def test_intervals_and_instants_too(computed):
    schedules = [IntervalSchedule(7 * timedelta(minutes=1), NOON), OnceSchedule(NOON + HOUR), OnceSchedule(NOON)]
    found = fires_in_window(schedules, NOON, NOON + HOUR)
    assert [len(one) for one in found] == [8, 1, 0]


@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize(
    "schedule",
    [
        CronSchedule("*/20 * * * *", "Europe/Berlin"),
        CronSchedule("30 2 * * *", "Europe/Berlin"),
        IntervalSchedule(timedelta(minutes=7, microseconds=3), NOON + HOUR),
        IntervalSchedule(timedelta(minutes=7, microseconds=3), NOON - 30 * HOUR),
    ],
)
def test_whole_numbers_are_the_same_instants(schedule, most):
    if isinstance(schedule, CronSchedule):
        plain = PlainCron(schedule.expression, schedule.timezone)
    else:
        plain = PlainInterval(schedule.every // timedelta(microseconds=1), to_micro(schedule.anchor))
    until = NOON + 5 * HOUR  # over the night on which the clocks go back
    instants = plain.instants(to_micro(NOON), to_micro(until), most)
    assert list(instants) == [to_micro(fire.at) for fire in fires(schedule, after=NOON, until=until, count=most)]
    assert plain.first(to_micro(until)) == to_micro(fires(schedule, after=until, count=1)[0].at)


def test_time_ends_for_whole_numbers_too():
    last = datetime(9979, 12, 31, 23, 59, 30, tzinfo=UTC)
    minutely = PlainInterval(60_000_000, to_micro(NOON) // 60_000_000 * 60_000_000)
    assert [of_micro(at) for at in minutely.instants(to_micro(last), to_micro(last) + 10**10, 9)] == [
        datetime(9980, 1, 1, tzinfo=UTC)
    ]
    assert minutely.first(to_micro(last) + 40_000_000) is None
    assert PlainCron("0 0 0 1 1 * 2026", "UTC").first(to_micro(NOON)) is None
