"""What is wrong with this installation, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Max

from calendars.queries.versions import rule_versions
from runners.models import Heartbeat
from scheduler.models import Trigger
from scheduler.queries.followed_rules import followed_versions
from scheduler.queries.gauges import last_ticks
from scheduler.queries.runners import runner_counts
from scheduler.sql.gauges import oldest_waiting_at

PROCESSES = ("serve", "materialize", "reap")
SILENT = timedelta(seconds=60)
"""A process that gave no sign of life for so long is not there."""
MOST_NAMED = 10


def last_beats() -> dict[str, datetime | None]:
    """By kind of process, when one of it gave its last sign of life and has not ended since."""
    running = Heartbeat.objects.filter(ended_at__isnull=True).values("kind").annotate(at=Max("beat_at"))
    found = dict(running.values_list("kind", "at"))
    return {kind: found.get(kind) for kind in PROCESSES}


def troubles(now: datetime) -> Iterator[str]:
    """A sentence for each thing that somebody should look at."""
    ticks = last_ticks()
    for kind, at in last_beats().items():
        if at is None:
            yield f"No {kind} process runs."
        elif now - at > SILENT:
            yield f"The {kind} process gave no sign of life since {at.isoformat(timespec='seconds')}."
        elif kind in ticks and now - ticks[kind] > SILENT:
            yield f"No {kind} process has finished a pass since {ticks[kind].isoformat(timespec='seconds')}."
    oldest = oldest_waiting_at()
    if oldest is not None and now - oldest > SILENT and not runner_counts(now)["online"]:
        yield f"No runner is online, and runs have been due since {oldest.isoformat(timespec='seconds')}."
    followed = followed_versions()
    if followed is not None and followed != rule_versions():
        yield f"Runs are planned by {_names(followed)}; start the materializer with the versions above."
    broken = Trigger.objects.exclude(config_error="").filter(job__deleted_at__isnull=True)
    rows = broken.order_by("job__job_key", "created_at").values_list("job__job_key", "config_error")
    for job_key, config_error in rows[:MOST_NAMED]:
        yield f"A schedule of {job_key} is broken: {config_error}"
    more = max(0, broken.count() - MOST_NAMED)
    if more:
        yield f"{more} more schedules are broken."


def _names(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
