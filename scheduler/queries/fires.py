"""The fires of a trigger's row: its schedule, its calendar, its daily window and its bounds together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from itertools import islice

from django.conf import settings

from calendars.domain.openings import openings_of
from calendars.domain.rules import CalendarSpec, Effect, Rule
from calendars.domain.zones import to_instant, to_seconds
from calendars.queries.specs import calendar_spec
from scheduler.domain.newest import newest
from scheduler.domain.schedules import (
    CronSchedule,
    Fire,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
    fires,
)
from scheduler.domain.window import fires_of
from scheduler.models import Trigger

_TICK = timedelta(microseconds=1)

MOST_OUTSIDE = 3000
"""So many fires in a row outside of the daily window, each followed by a jump to its next opening, end the search."""

_PAGE = 512


def schedule_of(trigger: Trigger) -> Schedule:
    """The pure schedule of the row. Refuses (`InvalidField`) what was written past the services and is nonsense."""
    match trigger.kind:
        case Trigger.Kind.CRON:
            return CronSchedule(trigger.cron_expression, zone_of(trigger), trigger.job.job_key)
        case Trigger.Kind.INTERVAL:
            return IntervalSchedule(trigger.every, trigger.anchor_at, zone_of(trigger))
        case Trigger.Kind.ONCE:
            return OnceSchedule(trigger.run_at, zone_of(trigger))
    raise ValueError(f"{trigger.kind!r} is no kind of schedule")


def zone_of(trigger: Trigger) -> str:
    return trigger.timezone or settings.CRONIQ_TIME_ZONE


def trigger_fires(
    trigger: Trigger,
    *,
    after: datetime,
    until: datetime | None = None,
    count: int | None = None,
    calendar: CalendarSpec | None = None,
) -> list[Fire]:
    """The fires in (after, until], ascending, at most ``count`` (one of the two is needed). None at or before the
    trigger's creation. Costs one query when the trigger has a calendar that is not loaded yet.

    ``calendar`` is asked in place of the trigger's own one: what would be if it were that."""
    if until is None and count is None:
        raise ValueError("trigger_fires needs until or count: most schedules never end")
    if trigger.not_before is not None:
        after = max(after, trigger.not_before - _TICK)
    if trigger.not_after is not None:
        until = trigger.not_after if until is None else min(until, trigger.not_after)
    if until is not None and until <= after:
        return []
    if calendar is None and trigger.calendar_id:
        calendar = calendar_spec(trigger.calendar)
    rules = {
        "calendar": calendar,
        "on_blocked": trigger.on_blocked,
        "since": trigger.created_at,
    }
    schedule = schedule_of(trigger)
    if trigger.window_start is None or trigger.window_end is None:
        if rules["calendar"] is None:
            # Of all that a pass plans, those with the same schedule ask for the same window.
            return fires_of(schedule, max(after, trigger.created_at), until, count)
        return fires(schedule, after=after, until=until, count=count, **rules)
    window = (trigger.window_start, trigger.window_end)
    return list(islice(_in_window(schedule, window, zone_of(trigger), after, until, rules), count))


def newest_trigger_fires(trigger: Trigger, *, after: datetime, until: datetime, count: int) -> list[Fire]:
    """The last ``count`` fires in (after, until], ascending; what it costs does not grow with the time between."""
    return newest(
        lambda begin, end: trigger_fires(trigger, after=begin, until=end), after=after, until=until, count=count
    )


def next_fires(
    trigger: Trigger, now: datetime, count: int = 5, *, calendar: CalendarSpec | None = None
) -> list[datetime]:
    """The next instants at which the trigger fires, as `trigger_fires`; empty when it never does any more."""
    return [fire.at for fire in trigger_fires(trigger, after=now, count=count, calendar=calendar)]


def _in_window(
    schedule: Schedule,
    window: tuple[time, time],
    zone: str,
    after: datetime,
    until: datetime | None,
    rules: dict,
) -> Iterator[Fire]:
    """The fires inside of the daily window; a fire outside is no fire. It jumps to the window's next opening."""
    openings = openings_of(CalendarSpec(zone, (Rule(Effect.INCLUDE, window=window),)))
    outside = 0
    while outside <= MOST_OUTSIDE:
        page = fires(schedule, after=after, until=until, count=_PAGE if outside == 0 else 1, **rules)
        if not page:
            return
        for fire in page:
            second = to_seconds(fire.at)
            opening = openings.at_or_after(second)
            if opening is None:
                return
            if opening.start > second:
                outside += 1
                after = max(fire.at, to_instant(opening.start) - _TICK)
                break
            outside = 0
            after = fire.at
            yield fire
