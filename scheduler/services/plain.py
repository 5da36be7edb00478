"""Plan a trigger about whose fires nothing but its schedule decides: most of them, and without a model or a query."""

from __future__ import annotations

from bisect import bisect_right

from django.conf import settings

from calendars.domain.zones import load_zone
from scheduler.domain.cron import uses_hash
from scheduler.domain.durations import LONGEST
from scheduler.domain.occurrences import SHORTEST_PERIOD, TICK
from scheduler.domain.window import PlainCron, PlainInterval
from scheduler.services.planning import Plan
from scheduler.sql.due import DueTrigger

_SHORTEST, _LONGEST = SHORTEST_PERIOD // TICK, LONGEST // TICK


def is_plain_at(trigger: DueTrigger, now: int) -> bool:
    """Whether nothing but its schedule decides about its fires, and none was missed."""
    return trigger.is_plain and trigger.cursor_at >= now


def plan_plain(trigger: DueTrigger, now: int, until: int, most: int, room: int) -> Plan | None:
    """What `plan_of` decides for it at ``now``, in microseconds, with the horizon ``until`` and at most ``most`` runs
    ahead; None where it must be asked: something else decides too, fires were missed, or the row is nonsense."""
    was = cursor = trigger.cursor_at
    if not is_plain_at(trigger, now):
        return None
    try:
        schedule = _schedule(trigger)
        if schedule is None:
            return None
        ahead = schedule.instants(max(now, trigger.created_at), until, most)
        end = ahead[-1] if len(ahead) == most else until
        fires = ahead[bisect_right(ahead, cursor) :]
        if len(fires) > room:
            return Plan(trigger, fires[:room], fires[:room], None, was, fires[room - 1], now)
        cursor = max(cursor, end)
        following = schedule.first(max(cursor, trigger.created_at))
    except Exception:
        return None
    next_at = None if following is None else following - (cursor - now) // 2
    return Plan(trigger, fires, fires, None, was, cursor, next_at)


def _schedule(trigger: DueTrigger) -> PlainCron | PlainInterval | None:
    """None: of another kind, or nonsense."""
    zone = trigger.timezone or settings.CRONIQ_TIME_ZONE
    load_zone(zone)
    if trigger.kind == "cron":
        expression = trigger.cron_expression
        return PlainCron(expression, zone, trigger.job.job_key if uses_hash(expression) else "")
    every, anchor = trigger.every, trigger.anchor_at
    if trigger.kind != "interval" or every is None or anchor is None:
        return None
    return PlainInterval(every, anchor) if _SHORTEST <= every <= _LONGEST and anchor >= 0 else None
