"""What stands around every page: whether the scheduler itself is at work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from scheduler.queries.trouble import Pulse, pulse

SILENT = timedelta(seconds=40)
"""A worker that gave no sign of life for so long is told of: within a minute, as an open page asks every 15 seconds."""
WORKERS = ("materialize", "reap")
"""``serve`` is what answers."""


@dataclass(frozen=True)
class Banner:
    """``kinds``: the workers that stand still; ``pulse``: the signs of life that say so."""

    kinds: tuple[str, ...]
    pulse: Pulse

    @property
    def sentences(self) -> list[str]:
        return [_consequence(kind) for kind in self.kinds]

    @property
    def seen(self) -> str:
        """What a page that shows it says of it when it asks again."""
        return ",".join(self.kinds) or "none"


def banner_of(now: datetime) -> Banner:
    """One query. ``now`` is the database's: the clock by which the signs of life were written."""
    seen = pulse(now)
    return Banner(tuple(kind for kind in WORKERS if not _is_at_work(kind, seen, now)), seen)


def _is_at_work(kind: str, seen: Pulse, now: datetime) -> bool:
    """Lives, and has finished a pass lately."""
    beat = seen.beats[kind]
    return beat is not None and now - min(beat, seen.ticks.get(kind, beat)) <= SILENT


def _consequence(kind: str) -> str:
    if kind == "materialize":
        return _("The materializer is not at work: schedules do not become runs, and what falls due may be missed.")
    return _(
        "The reaper is not at work: the runs of dead runners are not released, no deadline is kept, "
        "and no alert is sent."
    )
