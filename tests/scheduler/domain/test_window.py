"""All fires of a window: equal schedules are computed once, and nobody can tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.domain import window
from scheduler.domain.schedules import CronSchedule, IntervalSchedule, OnceSchedule, fires
from scheduler.domain.window import MOST, fires_in_window, fires_of

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


def test_intervals_and_instants_too(computed):
    schedules = [IntervalSchedule(7 * timedelta(minutes=1), NOON), OnceSchedule(NOON + HOUR), OnceSchedule(NOON)]
    found = fires_in_window(schedules, NOON, NOON + HOUR)
    assert [len(one) for one in found] == [8, 1, 0]
