"""The walk of a cron expression over real time: wall-clock matches, mapped through every change of the clock.

Debian cron's rule. Minute or hour text begins with `*`: every real instant whose wall time matches. Else fixed-time:
each wall time once; one that a gap skips runs at the first real second after the gap, one that comes twice in its first
pass only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date

from calendars.domain.zones import DAY, FIRST_SECOND, LAST_SECOND, Span, Zone
from scheduler.domain.cron import Cron, matching_days

_EPOCH_DAY = date(1970, 1, 1).toordinal()

# Farther than any two clocks are apart and any change moves one: walls this far apart never swap their order.
_FAR = 2 * DAY


def walls(cron: Cron, low: int, high: int) -> Iterator[int]:
    """The matching wall seconds in [low, high), ascending."""
    for day in matching_days(cron, low // DAY + _EPOCH_DAY, (high - 1) // DAY + _EPOCH_DAY):
        midnight = (day - _EPOCH_DAY) * DAY
        for hour in cron.hours:
            begin = midnight + hour * 3600
            if begin + 3600 <= low:
                continue
            if begin >= high:
                return
            first = bisect_left(cron.in_hour, low - begin) if begin < low else 0
            for second in cron.in_hour[first:] if first else cron.in_hour:
                wall = begin + second
                if wall >= high:
                    return
                yield wall


def cron_seconds(cron: Cron, zone: Zone, start: int, stop: int | None = None) -> Iterator[int]:
    """The UTC seconds of the fires in [start, stop], ascending, each once; ``stop`` None means to the end of time."""
    at = max(start, FIRST_SECOND)
    last = LAST_SECOND if stop is None else min(LAST_SECOND, stop)
    while at <= last:
        span = zone.span_at(at)
        low = at + span.offset
        if cron.fixed and at == span.start and _skips_a_match(cron, span):
            yield at
            low += 1
        if cron.fixed:
            low = max(low, span.seen)
        for wall in walls(cron, low, min(span.end, last + 1) + span.offset):
            yield wall - span.offset
        # What runs from the span's end on has a wall time of at least this; empty years are jumped over.
        next_wall = next(walls(cron, span.end + span.offset - _FAR, last + _FAR), None)
        if next_wall is None:
            return
        at = max(span.end, next_wall - _FAR)


def _skips_a_match(cron: Cron, span: Span) -> bool:
    """Whether the gap before the span, if there is one, skipped a wall time of the expression."""
    return span.seen < span.first_wall and next(walls(cron, span.seen, span.first_wall), None) is not None
