"""What is wrong with this installation, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Q

from calendars.queries.versions import rule_versions
from runners.models import Heartbeat
from scheduler.models import Trigger
from scheduler.queries.followed_rules import followed_versions
from scheduler.queries.runners import online_and_taking
from scheduler.sql.gauges import oldest_waiting_at

PROCESSES = ("serve", "materialize", "reap")
SILENT = timedelta(seconds=60)
"""A process that gave no sign of life for so long is not there."""
MOST_NAMED = 10


@dataclass(frozen=True)
class Pulse:
    """Signs of life by kind of process: when one that has not ended gave its last, and when a worker last finished a
    pass."""

    beats: dict[str, datetime | None]
    ticks: dict[str, datetime]


def pulse(now: datetime) -> Pulse:
    """One query. Signs from well after ``now`` are none: the clock was set back since, and whoever lives gives others
    at once."""
    is_running = Q(ended_at__isnull=True, beat_at__lte=now + SILENT)
    is_worker = Q(kind__in=["materialize", "reap"], tick_at__lte=now + SILENT)
    kinds = Heartbeat.objects.order_by().values("kind")
    rows = kinds.annotate(beat=Max("beat_at", filter=is_running), tick=Max("tick_at", filter=is_worker))
    found = {kind: (beat, tick) for kind, beat, tick in rows.values_list("kind", "beat", "tick")}
    beats = {kind: found.get(kind, (None, None))[0] for kind in PROCESSES}
    return Pulse(beats, {kind: tick for kind, (_, tick) in found.items() if tick is not None})


def troubles(now: datetime, seen: Pulse | None = None) -> Iterator[str]:
    """A sentence for each thing that somebody should look at; ``seen`` is the pulse where it was read already."""
    broken = Trigger.objects.exclude(config_error="").filter(job__deleted_at__isnull=True)
    rows = broken.order_by("job__job_key", "created_at").values_list("job__job_key", "config_error")
    yield from sentences(now, seen or pulse(now), oldest_waiting_at(), lambda: online_and_taking(now), list(rows))


def sentences(
    now: datetime,
    seen: Pulse,
    oldest: datetime | None,
    online_and_taking: Callable[[], tuple[int, int]],
    broken: Sequence[tuple[str, str]],
) -> Iterator[str]:
    """`troubles` of what was read already: ``oldest`` is since when something waits, ``broken`` the schedules (job key,
    what is wrong) in order; ``online_and_taking`` says how many runners are online and how many of them take work. One
    query."""
    for kind, at in seen.beats.items():
        if at is None:
            yield f"No {kind} process runs."
        elif now - at > SILENT:
            yield f"The {kind} process gave no sign of life since {at.isoformat(timespec='seconds')}."
        elif kind in seen.ticks and now - seen.ticks[kind] > SILENT:
            yield f"No {kind} process has finished a pass since {seen.ticks[kind].isoformat(timespec='seconds')}."
        else:
            continue
        if kind == "reap":
            yield "No alert is sent meanwhile: that is the work of the reap process."
    if oldest is not None and now - oldest > SILENT:
        online, taking = online_and_taking()
        if not online:
            yield f"No runner is online, and runs have been due since {oldest.isoformat(timespec='seconds')}."
        elif not taking:
            since = oldest.isoformat(timespec="seconds")
            yield f"Every runner that is online is drained, and runs have been due since {since}."
    followed = followed_versions()
    if followed is not None and followed != rule_versions():
        yield f"Runs are planned by {_names(followed)}; start the materializer with the versions above."
    for job_key, config_error in broken[:MOST_NAMED]:
        yield f"A schedule of {job_key} is broken: {config_error}"
    more = len(broken) - MOST_NAMED
    if more > 0:
        yield f"{more} more schedules are broken."


def _names(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
