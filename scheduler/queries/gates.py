"""What lets a trigger's occurrences fire: its bounds, its daily window and its calendar, over a stretch of time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from calendars.domain.openings import Openings, openings_of
from calendars.domain.rules import CalendarSpec, Effect, OnBlocked, Rule
from calendars.domain.zones import load_zone
from calendars.queries.specs import calendar_spec
from scheduler.domain.blocked import begin_matters
from scheduler.domain.forecast import blocked, closed_parts, counts, open_parts, where_moved
from scheduler.domain.occurrences import TICK, to_micro
from scheduler.domain.schedules import Schedule
from scheduler.models import Trigger
from scheduler.queries.fires import next_fires, schedule_of, zone_of


@dataclass(frozen=True, slots=True)
class Gates:
    """A trigger's schedule between its bounds, with when its daily window (``wanted``) and its calendar besides
    (``allowed``) let it fire; None where it has none."""

    schedule: Schedule
    first: datetime
    last: datetime
    calendar: CalendarSpec | None
    policy: OnBlocked
    wanted: Sequence[tuple[int, int]] | None
    allowed: Sequence[tuple[int, int]] | None

    @classmethod
    def of(cls, trigger: Trigger, schedule: Schedule, calendar: CalendarSpec | None, edges: list[datetime]) -> Gates:
        first, last = max(edges[0], trigger.created_at), edges[-1]
        if trigger.not_before is not None:
            first = max(first, trigger.not_before - TICK)
        if trigger.not_after is not None:
            last = min(last, trigger.not_after)
        last = max(first, last)
        if calendar is not None and not calendar.rules:
            calendar = None
        window = (_window(trigger),) if trigger.window_start is not None and trigger.window_end is not None else ()
        gates = (*window, openings_of(calendar)) if calendar is not None else window
        return cls(
            schedule,
            first,
            last,
            calendar,
            OnBlocked(trigger.on_blocked),
            open_parts(window, first, last) if window else None,
            open_parts(gates, first, last) if gates else None,
        )

    @property
    def moves(self) -> bool:
        """Whether a calendar moves fires, so that they are not the occurrences at which it is open."""
        return self.calendar is not None and self.policy is not OnBlocked.ADVANCE

    def key(self, trigger: Trigger) -> Hashable:
        """What decides the trigger's fires: those of equal ones are the same, and worked out once."""
        window = trigger.window_start, trigger.window_end
        return self.schedule, self.first, self.last, trigger.calendar_id, self.policy, window, self._since(trigger)

    def _since(self, trigger: Trigger) -> datetime | None:
        """The trigger's creation where it decides which occurrences still fire after ``first``."""
        if self.calendar is None or not begin_matters(
            self.policy, openings_of(self.calendar), self.first, trigger.created_at
        ):
            return None
        return trigger.created_at

    def hollow(self, after: datetime | None = None, until: datetime | None = None) -> Iterator[tuple[datetime, str]]:
        """The blocked occurrences and what blocks each, within the daily window; of (after, until] alone, if given."""
        if self.calendar is None:
            return iter(())
        first = self.first if after is None else max(after, self.first)
        last = max(first, self.last if until is None else min(until, self.last))
        gate = openings_of(self.calendar)
        closed = closed_parts(open_parts((gate,), first, last), first, last)
        found = blocked(self.schedule, gate, closed, after=first, until=last)
        return found if self.wanted is None else (item for item in found if _is_within(self.wanted, item[0]))

    def destination_of(self, trigger: Trigger) -> Callable[[datetime], datetime | None]:
        """What says where blocked occurrences go, asked in their order."""
        calendar, policy = self.calendar, self.policy
        if calendar is None:
            return lambda at: None
        if policy is not OnBlocked.ADVANCE:
            zone, gate = load_zone(zone_of(trigger)), openings_of(calendar)
            return lambda at: where_moved(at, zone, gate, policy, since=trigger.created_at)
        following: list[datetime | None] = []

        def next_fire(at: datetime) -> datetime | None:
            # All that one closure blocks gives way to the same fire: it is looked for once.
            if not following or (following[0] is not None and following[0] <= at):
                following[:] = next_fires(trigger, at, 1, calendar=calendar) or [None]
            return following[0]

        return next_fire


def fires_counted(trigger: Trigger, *, after: datetime, until: datetime) -> int | None:
    """How many fires of the trigger are in (after, until], by arithmetic; None where a policy moves fires, so that only
    a walk tells. What it costs grows with the days, not with the fires."""
    calendar = calendar_spec(trigger.calendar) if trigger.calendar is not None else None
    gates = Gates.of(trigger, schedule_of(trigger), calendar, [after, until])
    if gates.moves:
        return None
    (number,) = counts(gates.schedule, [to_micro(gates.first), to_micro(gates.last)], gates.allowed)
    return number


def _window(trigger: Trigger) -> Openings:
    rule = Rule(Effect.INCLUDE, window=(trigger.window_start, trigger.window_end))
    return openings_of(CalendarSpec(zone_of(trigger), (rule,)))


def _is_within(parts: Sequence[tuple[int, int]], at: datetime) -> bool:
    second = to_micro(at) // 1_000_000
    index = bisect_left(parts, (second + 1,)) - 1
    return index >= 0 and second < parts[index][1]
