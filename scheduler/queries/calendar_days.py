"""The days of a calendar with the fires of the jobs that use it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime

from django.db.models import Count

from calendars.domain.openings import openings_of
from calendars.domain.preview import DayPreview, day_bounds
from calendars.domain.zones import to_instant
from calendars.models import Calendar
from calendars.queries.preview import calendar_days
from calendars.queries.specs import calendar_spec
from scheduler.domain.occurrences import TICK
from scheduler.models import Trigger
from scheduler.queries.forecast import calendar_forecast
from scheduler.queries.forecast_rows import BrokenTrigger, Bucket, Coming

MOST_LISTED = 2000
MOST_OF_A_JOB = 62


@dataclass(frozen=True, slots=True)
class PlannedDay:
    """A day, what falls in it from now on, and the first of that (``coming``, the listed ones)."""

    preview: DayPreview
    fires: int
    blocked: int
    paused: int
    coming: tuple[Coming, ...]


@dataclass(frozen=True, slots=True)
class PlannedDays:
    days: tuple[PlannedDay, ...]
    broken: tuple[BrokenTrigger, ...]
    is_exact: bool
    left_out: int


def planned_days(calendar: Calendar, first: date, last: date, now: datetime, *, lists: bool) -> PlannedDays:
    """The days from ``first`` to ``last`` (inclusive) as `calendar_days`, with what the triggers that use the calendar
    do in them after ``now``; with ``lists`` the first fires and blocked occurrences too (about `MOST_LISTED`).

    At most four queries.
    """
    previews = calendar_days(calendar, first, last)
    gate = openings_of(calendar_spec(calendar))
    # A bucket holds its end and not its start, a day its midnight and not the next one.
    bounds = [to_instant(day_bounds(gate, preview.day)[0]) - TICK for preview in previews]
    bounds.append(to_instant(day_bounds(gate, last)[1]) - TICK)
    if bounds[-1] <= now:
        return PlannedDays(tuple(PlannedDay(preview, 0, 0, 0, ()) for preview in previews), (), True, 0)
    skipped = sum(1 for bound in bounds[1:] if bound <= now)
    edges = [max(bounds[skipped], now), *bounds[skipped + 1 :]]
    per_job = 0
    if lists and (users := Trigger.objects.filter(calendar=calendar, enabled=True).count()):
        per_job = max(1, min(MOST_OF_A_JOB, MOST_LISTED // users))
    found = calendar_forecast(calendar.pk, edges, per_job=per_job)
    listed: dict[date, list[Coming]] = defaultdict(list)
    for item in found.coming:
        listed[item.at.astimezone(gate.zone.info).date()].append(item)
    empty = Bucket(now, now, 0, 0, 0)
    days = tuple(
        PlannedDay(preview, bucket.fires, bucket.blocked, bucket.paused, tuple(listed.get(preview.day, ())))
        for preview, bucket in zip(previews, [*(empty,) * skipped, *found.buckets], strict=True)
    )
    return PlannedDays(days, found.broken, found.is_exact, found.left_out)


def job_counts(calendar_ids: Collection[int]) -> dict[int, int]:
    """How many jobs use each of these calendars; those that none uses are not in it."""
    users = Trigger.objects.filter(calendar_id__in=calendar_ids, job__deleted_at__isnull=True)
    return dict(users.values_list("calendar_id").annotate(Count("job_id", distinct=True)).order_by())


def users_of(calendar_ids: Collection[int]) -> list[str]:
    """The keys of the jobs that use any of these calendars, those that are deleted too while their triggers are there:
    what keeps a calendar from being deleted."""
    triggers = Trigger.objects.filter(calendar_id__in=calendar_ids)
    return list(triggers.values_list("job__job_key", flat=True).distinct().order_by("job__job_key"))
