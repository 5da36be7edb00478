"""Turn fires within the horizon into runs, for every trigger that is due for it. Safe in any number at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

from croniq_site.kernel import tracing
from croniq_site.kernel.database import is_outage, write_transaction
from croniq_site.kernel.text import cleaned
from runners.services.audit import record_events
from scheduler.domain.occurrences import to_micro
from scheduler.models import Trigger
from scheduler.services.caps import most_planned
from scheduler.services.plain import is_plain_at, plan_plain
from scheduler.services.planning import RETRY_BROKEN, Plan, broken_event, carry_out, horizon, plan_of
from scheduler.services.replan import remove_planned
from scheduler.sql.due import DueTrigger, lock_due_triggers, next_due_at
from scheduler.sql.planned import batch_size, prefer_indexes

_log = logging.getLogger(__name__)

TRIGGERS_A_BATCH = 100
RUNS_A_PASS = 10_000
RUNS_A_TURN = 100
"""So many runs of a trigger are planned before it is again the turn of the others: of a thousand triggers of every
second each has its next minutes before any of them has its hour, and a trigger of every hour waits for minutes only."""

LOOK_AT_CURSORS_EVERY = timedelta(minutes=1)

_looked_at: datetime | None = None
"""When this process last looked for cursors beyond the horizon."""


@dataclass(frozen=True)
class MaterializeSummary:
    """What a pass did. ``is_done``: nothing that this pass may have is due any more. ``next_due_at``: when the next
    trigger is; in the past if another materializer has it in hand, or this pass was full."""

    triggers: int = 0
    inserted: int = 0
    skipped: int = 0
    broken: int = 0
    is_done: bool = True
    next_due_at: datetime | None = None

    def __add__(self, other: MaterializeSummary) -> MaterializeSummary:
        return MaterializeSummary(
            self.triggers + other.triggers,
            self.inserted + other.inserted,
            self.skipped + other.skipped,
            self.broken + other.broken,
            other.is_done,
            other.next_due_at,
        )


def materialize(now: datetime, limit: int = RUNS_A_PASS) -> MaterializeSummary:
    """Plan every trigger that is due, in transactions of a batch each, until ``limit`` runs are planned."""
    reset_cursors(now)
    next_at = next_due_at()
    if next_at is None or next_at > now:
        return MaterializeSummary(next_due_at=next_at)
    total, planned = MaterializeSummary(), 0
    while planned < limit:
        room = min(batch_size().runs, limit - planned)
        try:
            step, rows = _batch(now, room)
        except Exception as error:
            if is_outage(error):
                raise
            _log.exception("a batch of triggers cannot be planned; each is tried alone")
            step, rows = _one_by_one(now, room)
        total, planned = total + step, planned + rows
        if step.triggers == 0:
            break
    is_done = planned < limit
    return total + MaterializeSummary(is_done=is_done, next_due_at=next_due_at())


def _batch(now: datetime, room: int, only: UUID | None = None) -> tuple[MaterializeSummary, int]:
    """One transaction: the locks, the runs and the cursors, or none of it. Also says how many runs it tried."""
    with tracing.live("croniq.materialize"), write_transaction():
        plans = _plans(_lock_due(now, only), now, room)
        inserted = carry_out(plans, now)
    summary = MaterializeSummary(
        triggers=len(plans),
        inserted=len(inserted),
        skipped=sum(plan.skipped.count for plan in plans if plan.skipped is not None),
        broken=sum(1 for plan in plans if plan.config_error),
    )
    return summary, sum(len(plan.fires) for plan in plans)


def _plans(due: Sequence[DueTrigger], now: datetime, room: int) -> list[Plan]:
    """What becomes of locked triggers, in their order, until ``room`` runs are planned; the others are due still."""
    at, until, most = to_micro(now), to_micro(now + horizon()), most_planned(now)
    whole = _whole([trigger.pk for trigger in due if not is_plain_at(trigger, at)])
    plans: list[Plan] = []
    for trigger in due:
        if room <= 0:
            break
        turn = min(room, RUNS_A_TURN)
        plan = None if whole and trigger.pk in whole else plan_plain(trigger, at, until, most, turn)
        if plan is None:
            row = whole.get(trigger.pk) or _whole([trigger.pk])[trigger.pk]
            plan = plan_of(row, now, turn)
        plans.append(plan)
        room -= len(plan.fires)
    return plans


def _whole(ids: Sequence[UUID]) -> dict[UUID, Trigger]:
    """The rows of locked triggers with all that may decide about their fires."""
    rows = Trigger.objects.select_related("job", "calendar").prefetch_related("calendar__rules")
    rows = rows.defer("job__metadata", "job__action", "job__tags", "job__require", "job__prefer")
    return rows.in_bulk(ids) if ids else {}


def _one_by_one(now: datetime, room: int) -> tuple[MaterializeSummary, int]:
    """Plan what a batch could not, each trigger in a transaction of its own, so that a row that the database or its
    driver chokes on stands still alone, for an hour or until it is edited."""
    total, rows = MaterializeSummary(), 0
    # No column of the schedule is read here: one of them may be what cannot be read.
    due = _due(now).values_list("pk", "job__job_key", "job__tenant")[:TRIGGERS_A_BATCH]
    for pk, job_key, tenant in due:
        if rows >= room:
            break
        try:
            step, tried = _batch(now, room - rows, only=pk)
        except Exception as error:
            if is_outage(error):
                raise
            reason = cleaned(f"{type(error).__name__}: {error}", 2000)
            with write_transaction():
                # Not of one that was edited since: that is due later than this pass, and perhaps not broken any more.
                unedited = Trigger.objects.filter(pk=pk, next_materialize_at__lte=now)
                if unedited.update(config_error=reason, next_materialize_at=now + RETRY_BROKEN):
                    record_events([broken_event(pk, job_key, tenant, reason)], now)
            step, tried = MaterializeSummary(triggers=1, broken=1), 0
        total, rows = total + step, rows + tried
    return total, rows


def _due(now: datetime) -> QuerySet[Trigger]:
    """The triggers that are due to be planned, longest due first."""
    return Trigger.objects.filter(
        enabled=True, next_materialize_at__lte=now, job__is_active=True, job__deleted_at__isnull=True
    ).order_by("next_materialize_at")


def _lock_due(now: datetime, only: UUID | None = None) -> list[DueTrigger]:
    """A batch of what is due, each with its job, both locked. What another materializer or an edit has in hand is left
    out: it is looked at again when it is free. (SQLite: the transaction is the lock.)"""
    prefer_indexes()
    return lock_due_triggers(now, batch_size().triggers, only)


def reset_cursors(now: datetime) -> int:
    """Take back to ``now`` every cursor beyond the horizon: the clock was stepped back, and what lies between would
    never be planned. Runs that exist stay the only ones of their occurrences; those beyond the horizon that nobody ever
    claimed go, they are planned again when their time is near.

    It reads every trigger, so it does so at a process's first pass, when its clock went back, and once a minute else.
    """
    global _looked_at
    if _looked_at is not None and _looked_at <= now < _looked_at + LOOK_AT_CURSORS_EVERY:
        return 0
    _looked_at = now
    reset = 0
    while batch := _reset_batch(now):
        reset += batch
    return reset


def _reset_batch(now: datetime) -> int:
    with write_transaction():
        beyond = Trigger.objects.filter(enabled=True, cursor_at__gt=now + horizon()).select_related("job")
        triggers = list(beyond.select_for_update(of=("self", "job"), skip_locked=True, no_key=True)[:TRIGGERS_A_BATCH])
        remove_planned({trigger.job_id: trigger.job for trigger in triggers}.values(), now + horizon())
        ids = [trigger.pk for trigger in triggers]
        return Trigger.objects.filter(pk__in=ids).update(cursor_at=now, next_materialize_at=now)
