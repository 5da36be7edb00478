"""Time zones of the pinned `tzdata` package, as spans of constant offset.

The host's zone files are never read: two machines with different ones would plan different runs. Wall-clock time is
counted here in *wall seconds*: seconds since 1970-01-01 00:00 on the zone's own clock, as if it had no zone.
"""

from __future__ import annotations

import difflib
import importlib.resources
import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from calendars.domain.errors import InvalidField

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400

# Searches stay within these UTC seconds (1900 to 9980), so that no arithmetic of theirs leaves Python's years.
FIRST_SECOND = (date(1900, 1, 1).toordinal() - EPOCH.toordinal()) * DAY
LAST_SECOND = (date(9980, 1, 1).toordinal() - EPOCH.toordinal()) * DAY

# Shorter than the shortest time between two changes of any zone (6.9 days, Cambridge Bay 2000), so that a probe at each
# end of a step sees every change.
_PROBE_STEP = 5 * DAY
_NAME = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch [start, end) of UTC seconds during which a zone's offset is constant.

    ``seen``: the wall second up to which walls have been shown before ``start``. Below the span's first wall second
    when a gap precedes it, above when the span repeats walls (fold), equal where nothing changes.
    """

    start: int
    end: int
    offset: int
    seen: int

    @property
    def first_wall(self) -> int:
        return self.start + self.offset


def to_seconds(instant: datetime) -> int:
    """Whole UTC seconds since 1970 of an aware instant, rounded down."""
    return (instant - EPOCH) // timedelta(seconds=1)


def to_instant(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


class Zone:
    """One zone. `load_zone` makes and caches them; spans are computed once per year of use."""

    def __init__(self, name: str, info: ZoneInfo) -> None:
        self.name = name
        self.info = info
        self._years: dict[int, tuple[list[int], list[Span]]] = {}

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def offset_at(self, seconds: int) -> int:
        """UTC offset in seconds at a UTC second."""
        offset = to_instant(seconds).astimezone(self.info).utcoffset()
        return (offset.days * DAY + offset.seconds) if offset is not None else 0

    def span_at(self, seconds: int) -> Span:
        """The span that contains a UTC second. Spans also end, without a change, at the end of each UTC year."""
        year = to_instant(seconds).year
        known = self._years.get(year)
        if known is None:
            known = self._years[year] = self._spans_of(year)
        starts, spans = known
        return spans[bisect_right(starts, seconds) - 1]

    def to_utc(self, wall: int) -> int:
        """The UTC second at which the clock first shows ``wall``; for one in a gap, the first second after the gap."""
        guess = wall - self.offset_at(wall)
        span = self.span_at(guess - 2 * DAY)
        while span.end + span.offset <= wall:
            span = self.span_at(span.end)
        return max(wall - span.offset, span.start)

    def _spans_of(self, year: int) -> tuple[list[int], list[Span]]:
        """The spans of a UTC year; looks some days back so that a change just before it is known to the first one."""
        begin = to_seconds(datetime(year, 1, 1, tzinfo=UTC))
        end = to_seconds(datetime(year + 1, 1, 1, tzinfo=UTC))
        at = begin - _PROBE_STEP
        starts = [at]
        while at < end:
            probe = min(at + _PROBE_STEP, end)
            if self.offset_at(probe) != self.offset_at(at):
                probe = self._change_between(at, probe)
                starts.append(probe)
            at = probe
        spans: list[Span] = []
        seen = starts[0] + self.offset_at(starts[0])
        for start, stop in pairwise([*(s for s in starts if s < end), end]):
            offset = self.offset_at(start)
            if stop > begin:
                spans.append(
                    Span(max(start, begin), stop, offset, max(seen, begin + offset) if start < begin else seen)
                )
            seen = max(seen, stop + offset)
        return [span.start for span in spans], spans

    def _change_between(self, low: int, high: int) -> int:
        """The first second in (low, high] whose offset differs from that at ``low``."""
        offset = self.offset_at(low)
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset_at(middle) == offset:
                low = middle
            else:
                high = middle
        return high


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """The names that a schedule or calendar may use: those that tzdata lists."""
    return frozenset(importlib.resources.files("tzdata").joinpath("zones").read_text("ascii").split())


def load_zone(name: str, *, field: str = "timezone") -> Zone:
    """The zone of that name.

    Refuses, naming ``field``, whatever tzdata does not list; the nearest name is suggested.
    """
    if not isinstance(name, str) or not name:
        raise InvalidField(field, "A time zone is needed, such as 'Europe/Vienna' or 'UTC'.")
    if len(name) > 64 or not _NAME.fullmatch(name) or name not in zone_names():
        raise InvalidField(field, f"There is no time zone {_shown(name)}.{_suggestion(name)}")
    return _load(name)


@lru_cache(maxsize=1024)
def _load(name: str) -> Zone:
    resource = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with resource.open("rb") as file:
        return Zone(name, ZoneInfo.from_file(file, key=name))


def _shown(name: str) -> str:
    return repr(name if len(name) <= 64 else name[:61] + "…")


def _suggestion(name: str) -> str:
    if len(name) > 64:
        return " Use a name such as 'Europe/Vienna' or 'UTC'."
    by_lower = {known.lower(): known for known in zone_names()}
    lower = name.strip().lower().replace(" ", "_")
    if lower in by_lower:
        return f" Did you mean {by_lower[lower]!r}?"
    if re.match(r"(utc|gmt)?[+-]\d", lower):
        return " A fixed offset is not a zone: use 'UTC' or a place such as 'Europe/Vienna'."
    by_city = {known.lower().rpartition("/")[2]: known for known in sorted(zone_names())}
    if re.fullmatch(r"[a-z]{2,5}", lower) and lower not in by_city:
        # What looks like CEST is EST, which is of another continent.
        return " An abbreviation is not a zone: use 'UTC' or a place such as 'Europe/Vienna'."
    near = difflib.get_close_matches(lower, by_lower, n=1, cutoff=0.6)
    if not near:
        near_city = difflib.get_close_matches(lower.rpartition("/")[2], by_city, n=1, cutoff=0.75)
        return f" Did you mean {by_city[near_city[0]]!r}?" if near_city else " Use a name such as 'Europe/Vienna'."
    return f" Did you mean {by_lower[near[0]]!r}?"
