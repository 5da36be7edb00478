"""What an edit of a calendar would change, told before anything is written."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from calendars.domain.openings import openings_of
from calendars.domain.rules import CalendarSpec, OnBlocked, parse_rule
from calendars.models import Calendar
from calendars.queries.specs import calendar_spec
from calendars.services import checked_calendar
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.blocked import begin_matters
from scheduler.models import Trigger
from scheduler.queries.fires import schedule_of, trigger_fires

NEXT_FIRES = 5
MOST_TRIGGERS = 1000
MOST_WORKED_OUT = 500
"""So many different schedules are worked out, each before and after: equal ones are worked out once."""


@dataclass(frozen=True, slots=True)
class ChangedFires:
    """The next fires of a trigger, as they are and as they would be. ``error``: why there are none before."""

    job_key: str
    trigger_id: UUID
    before: tuple[datetime, ...]
    after: tuple[datetime, ...]
    error: str = ""

    @property
    def stops(self) -> bool:
        """Whether the trigger would have no fire any more."""
        return bool(self.before) and not self.after


@dataclass(frozen=True, slots=True)
class WhatIf:
    """``changed``: those whose next fires would change, by job key. ``left_out``: triggers of which nothing is said."""

    changed: tuple[ChangedFires, ...]
    unchanged: int
    left_out: int


def what_if(calendar: Calendar, values: Mapping[str, object], now: datetime, *, count: int = NEXT_FIRES) -> WhatIf:
    """What would become of the next ``count`` fires of the triggers that use ``calendar``, were it saved with
    ``values`` (as `edit_calendar` takes them; what is missing stays). Writes nothing. At most three queries.

    Refuses what a save would refuse, by field. Disabled triggers and inactive jobs do not fire and are not told of.
    """
    changed_to = _edited(calendar, values)
    try:
        was: CalendarSpec | None = calendar_spec(calendar)
        error = ""
    except InvalidInput as refused:
        was, error = None, refused.message
    if was == changed_to:
        return WhatIf((), _triggers(calendar).count(), 0)
    known: dict[Hashable, tuple[tuple[datetime, ...], tuple[datetime, ...]]] = {}
    changed, unchanged, left_out = [], 0, 0
    rows = list(_triggers(calendar).select_related("job").order_by("job__job_key", "id")[: MOST_TRIGGERS + 1])
    for trigger in rows[:MOST_TRIGGERS]:
        try:
            key = _key(trigger, now, [spec for spec in (was, changed_to) if spec is not None])
            if key not in known:
                if len(known) >= MOST_WORKED_OUT:
                    left_out += 1
                    continue
                known[key] = (
                    _next(trigger, now, count, was) if was is not None else (),
                    _next(trigger, now, count, changed_to),
                )
        except InvalidInput:  # broken by itself: no calendar mends it, and it says so on its job's page
            unchanged += 1
            continue
        before, after = known[key]
        if before == after:
            unchanged += 1
        else:
            changed.append(ChangedFires(trigger.job.job_key, trigger.pk, before, after, error))
    if len(rows) > MOST_TRIGGERS:
        left_out += _triggers(calendar).count() - MOST_TRIGGERS
    return WhatIf(tuple(changed), unchanged, left_out)


def _edited(calendar: Calendar, values: Mapping[str, object]) -> CalendarSpec:
    checked = checked_calendar(values)
    timezone = str(checked.get("timezone", calendar.timezone))
    if "rules" not in checked:
        return CalendarSpec(timezone, calendar_spec(calendar).rules)
    return CalendarSpec(timezone, tuple(parse_rule(row) for row in checked["rules"]))


def _triggers(calendar: Calendar):
    return Trigger.objects.filter(calendar=calendar, enabled=True, job__is_active=True, job__deleted_at__isnull=True)


def _next(trigger: Trigger, now: datetime, count: int, calendar: CalendarSpec) -> tuple[datetime, ...]:
    return tuple(fire.at for fire in trigger_fires(trigger, after=now, count=count, calendar=calendar))


def _key(trigger: Trigger, now: datetime, calendars: list[CalendarSpec]) -> Hashable:
    """What decides the trigger's fires besides the calendar."""
    policy = OnBlocked(trigger.on_blocked)
    is_bound = any(begin_matters(policy, openings_of(spec), now, trigger.created_at) for spec in calendars)
    bounds = (trigger.not_before, trigger.not_after, trigger.window_start, trigger.window_end)
    return schedule_of(trigger), policy, trigger.created_at if is_bound else None, bounds
