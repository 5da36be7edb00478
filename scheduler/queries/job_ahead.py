"""The next fires of one job, and what lies between them: the occurrences that a calendar does not let fire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise

from calendars.queries.specs import calendar_spec
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.forecast import counts
from scheduler.domain.occurrences import Fire, to_micro
from scheduler.models import Job, Trigger
from scheduler.queries.fires import schedule_of, trigger_fires, zone_of
from scheduler.queries.forecast import is_paused_at
from scheduler.queries.gates import Gates

NEXT_FIRES = 10
LOOKED_AHEAD = timedelta(days=31)
"""How far what is blocked is looked for where nothing fires at all."""
MOST_LOOKED_AT = 50
"""So many blocked occurrences in a row are asked which rule closes the calendar."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A fire to come, or (``is_blocked``) ``count`` occurrences in a row, from ``at`` on, that a calendar does not let
    fire.

    ``is_skipped``: somebody took this fire out. ``is_held``: it comes before the end of the job's pause.
    ``moved_from``: the occurrence that led to a fire elsewhere. Of blocked ones ``rules`` are the names of what closes
    the calendar, in their order, and ``moved_to`` is where the first one goes, None if nowhere: with the policy
    `advance` that is the schedule's next fire.
    """

    at: datetime
    zone: str
    is_skipped: bool = False
    is_held: bool = False
    moved_from: datetime | None = None
    is_blocked: bool = False
    count: int = 1
    rules: tuple[str, ...] = ()
    calendar: str = ""
    calendar_id: int | None = None
    policy: str = ""
    moved_to: datetime | None = None


def ahead_of(
    job: Job, triggers: Sequence[Trigger], skipped: Collection[datetime], now: datetime, most: int = NEXT_FIRES
) -> list[Ahead]:
    """Return the job's next ``most`` fires, each instant once, with what is blocked before and between them, by time.

    ``triggers`` are all of the job, their calendars' rules loaded (else a query for each); ``skipped`` the fires that
    were taken out. A broken trigger gives none, nor does one that is switched off. What it costs does not grow with the
    number of blocked occurrences.
    """
    if not job.is_active:
        return []
    live = [trigger for trigger in triggers if trigger.enabled and not trigger.config_error]
    found: dict[datetime, list[tuple[Trigger, Fire]]] = defaultdict(list)
    for trigger in live:
        for fire in _fires(trigger, now, most):
            found[fire.at].append((trigger, fire))
    instants = sorted(found)[:most]
    rows = [_fire(job, found[at], at in skipped) for at in instants]
    edges = [now, *instants] if instants else [now, now + LOOKED_AHEAD]
    for trigger in live:
        if trigger.calendar_id is not None:
            rows += _blocked(job, trigger, edges)
    return sorted(rows, key=lambda row: (row.at, not row.is_blocked))


def _fire(job: Job, same: list[tuple[Trigger, Fire]], is_skipped: bool) -> Ahead:
    """Of two triggers that meet the fire with the earliest occurrence."""
    trigger, fire = min(same, key=lambda pair: pair[1].occurrence_at)
    moved_from = fire.occurrence_at if fire.occurrence_at != fire.at else None
    return Ahead(fire.at, zone_of(trigger), is_skipped, is_paused_at(job, fire.at), moved_from)


def _fires(trigger: Trigger, now: datetime, most: int) -> list[Fire]:
    try:
        return trigger_fires(trigger, after=now, count=most)
    except (InvalidInput, ValueError):
        return []  # broken; the materializer says how


def _blocked(job: Job, trigger: Trigger, edges: Sequence[datetime]) -> Iterator[Ahead]:
    """What the trigger's calendar blocks in each (edge, next edge], counted by arithmetic."""
    try:
        schedule = schedule_of(trigger)
        gates = Gates.of(trigger, schedule, calendar_spec(trigger.calendar), [edges[0], edges[-1]])
    except (InvalidInput, ValueError):
        return
    if gates.calendar is None or gates.last <= gates.first:
        return
    micros = [to_micro(min(max(edge, gates.first), gates.last)) for edge in edges]
    wanted, allowed = (counts(schedule, micros, parts) for parts in (gates.wanted, gates.allowed))
    goes_to = gates.destination_of(trigger)
    for (low, high), number in zip(pairwise(edges), (a - b for a, b in zip(wanted, allowed, strict=True)), strict=True):
        seen = list(islice(gates.hollow(low, high), min(number, MOST_LOOKED_AT)))
        if seen:
            at = seen[0][0]
            yield Ahead(
                at,
                zone_of(trigger),
                is_held=is_paused_at(job, at),
                is_blocked=True,
                count=number,
                rules=tuple(dict.fromkeys(rule for _, rule in seen if rule)),
                calendar=trigger.calendar.name,
                calendar_id=trigger.calendar_id,
                policy=trigger.on_blocked,
                moved_to=goes_to(at),
            )
