"""Plain cron texts read by somebody else's parser too: where the rules are not in dispute, both must agree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.schedules import CronSchedule, fires


def field(least: int, most: int):
    value = st.integers(least, most)
    # Of two values: croniter reads "0-0" as "*".
    span = st.lists(value, min_size=2, max_size=2, unique=True).map(lambda pair: f"{min(pair)}-{max(pair)}")
    return st.one_of(
        st.just("*"),
        value.map(str),
        span,
        st.tuples(span, st.integers(1, 9)).map(lambda parts: f"{parts[0]}/{parts[1]}"),
        st.lists(value, min_size=2, max_size=4).map(lambda values: ",".join(map(str, values))),
        st.integers(2, 9).map(lambda step: f"*/{step}"),
    )


# Where both day fields restrict, and for days that few months have, readings differ: the cases are about those.
DAYS = st.one_of(field(1, 28).map(lambda days: (days, "*")), field(0, 6).map(lambda days: ("*", days)))


@given(
    minute=field(0, 59),
    hour=field(0, 23),
    days=DAYS,
    month=field(1, 12),
    after=st.datetimes(datetime(2000, 1, 1), datetime(2050, 1, 1)),  # noqa: DTZ001 - the zone is put on below
)
@settings(max_examples=150, deadline=None)
def test_croniter_agrees_on_plain_texts_in_utc(minute, hour, days, month, after):
    expression = f"{minute} {hour} {days[0]} {month} {days[1]}"
    after = after.replace(tzinfo=UTC)
    other = croniter(expression, after - timedelta(microseconds=after.microsecond))
    theirs = [other.get_next(datetime) for _ in range(5)]
    theirs = [at for at in theirs if at > after]
    ours = [fire.at for fire in fires(CronSchedule(expression, "UTC"), after=after, count=len(theirs))]
    assert ours == theirs
