"""Back-off: growing, capped, spread, and never out of bounds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.domain.retries import LONGEST_SECONDS, backoff


def seconds(strategy, attempt, *, base=2.0, step=3.0, cap=100.0, jitter=0.0):
    return backoff(strategy, attempt, base, step, cap, jitter, Random(1)).total_seconds()


def test_fixed_waits_the_same_each_time():
    assert [seconds("fixed", n) for n in (1, 2, 50)] == [2, 2, 2]


def test_linear_grows_by_a_step():
    assert [seconds("linear", n) for n in (1, 2, 3, 34, 10**9)] == [2, 5, 8, 100, 100]


def test_exponential_doubles():
    assert [seconds("exponential", n) for n in (1, 2, 3, 6, 7, 10**9)] == [2, 4, 8, 64, 100, 100]


def test_jitter_moves_the_capped_wait_both_ways():
    rng = Random(7)
    waits = [backoff("fixed", 1, 1000, 0, 10, 0.5, rng).total_seconds() for _ in range(200)]
    assert 5 <= min(waits) < 6
    assert 14 < max(waits) <= 15


def test_the_same_random_numbers_give_the_same_wait():
    assert backoff("exponential", 3, 2, 2, 60, 0.3, Random(5)) == backoff("exponential", 3, 2, 2, 60, 0.3, Random(5))


STRATEGIES = st.sampled_from(["fixed", "linear", "exponential"])


@given(
    STRATEGIES,
    st.integers(1, 10**9),
    st.floats(1e-6, 1e8),
    st.floats(0, 1e8),
    st.floats(1e-6, 3e8),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
def test_a_wait_is_more_than_nothing_and_at_most_the_cap_with_its_jitter(
    strategy, attempt, base, step, cap, jitter, seed
):
    wait = backoff(strategy, attempt, base, step, cap, jitter, Random(seed))
    assert timedelta(0) < wait
    assert wait.total_seconds() <= max(cap * (1 + jitter), 1e-6) * (1 + 1e-12)


@given(STRATEGIES, st.integers(1, 10**9), st.floats(1e-6, 1e4), st.floats(0, 1e4), st.floats(1e-6, 1e6))
def test_without_jitter_a_later_attempt_never_waits_less(strategy, attempt, base, step, cap):
    rng = Random(0)
    first = backoff(strategy, attempt, base, step, cap, 0, rng)
    assert backoff(strategy, attempt + 1, base, step, cap, 0, rng) >= first


@pytest.mark.parametrize("absurd", [0.0, -1.0, 1e308, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("strategy", ["fixed", "linear", "exponential"])
def test_absurd_values_give_a_wait_that_can_be_added_to_an_instant(strategy, absurd):
    late = datetime(2400, 1, 1, tzinfo=UTC)
    for attempt in (-(10**9), 0, 1, 64, 1024, 10**9, 10**30):
        for values in ((absurd, 1, 1, 1), (1, absurd, 1, 1), (1, 1, absurd, 1), (1, 1, 1, absurd), (absurd,) * 4):
            wait = backoff(strategy, attempt, *values, Random(3))
            assert timedelta(0) < wait <= timedelta(seconds=LONGEST_SECONDS)
            assert late + wait > late


@pytest.mark.parametrize("attempt", [1, 12, 64, 1_100, 100_000])
@pytest.mark.parametrize("strategy", ["fixed", "linear", "exponential"])
@pytest.mark.parametrize("jitter", [0.0, 0.1, 1.0])
def test_late_attempts_wait_within_the_cap_and_its_jitter(strategy, attempt, jitter):
    rng = Random(attempt)
    for base, step, cap in ((2, 2, 3600), (1e-6, 1e-6, LONGEST_SECONDS), (LONGEST_SECONDS,) * 3):
        wait = backoff(strategy, attempt, base, step, cap, jitter, rng)
        assert timedelta(0) < wait <= timedelta(seconds=cap * (1 + jitter))
