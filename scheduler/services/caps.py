"""How far ahead is planned: so many runs of a trigger, and so many of all."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from scheduler.models import Trigger

MOST_PLANNED = 1000
"""So many future runs of a trigger are planned at most, however long the horizon is."""

COUNT_EVERY = timedelta(minutes=1)

_counted: tuple[datetime, int] | None = None
"""When this process last counted the triggers, and how many there were."""


def most_planned(now: datetime) -> int:
    """How many future runs of one trigger may be planned: a thousand, or its share of ``CRONIQ_MAX_PLANNED``.

    A share needs no count of what is planned, is the same for every materializer, and leaves to each trigger its
    nearest fires, whatever the others are like; at least one. Triggers are counted once a minute.
    """
    global _counted
    if _counted is None or not _counted[0] <= now < _counted[0] + COUNT_EVERY:
        _counted = now, Trigger.objects.filter(enabled=True, next_materialize_at__isnull=False).count()
    return max(1, min(MOST_PLANNED, settings.CRONIQ_MAX_PLANNED // max(1, _counted[1])))


def forget_count() -> None:
    """Count again at the next plan, as a new process does."""
    global _counted
    _counted = None
