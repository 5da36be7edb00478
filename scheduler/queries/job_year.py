"""A job over a year, day by day: what ran, what failed, what was missed and what was left out on purpose."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from calendars.domain.zones import load_zone
from scheduler.sql.year import MOST_SKIPPED_LOOKED_AT, YearRow, year_rows

DAYS = 366
FEW = 20
"""A day on which more than so many ran for each that failed had a few failures."""
MISSED = ("downtime", "queue_full")
"""Why a fire made no run although nobody wanted it so; every other reason is somebody's will, or a rule's."""


@dataclass(frozen=True, slots=True)
class YearDay:
    """``ran`` completed, ``failed`` for good; ``cancelled``, and ``open`` (due, not ended). ``missed`` nobody wanted,
    ``skipped`` somebody did. ``is_part``: there is a gap of several days besides, whose fires nobody counted by day."""

    day: date
    ran: int
    failed: int
    missed: int
    skipped: int
    cancelled: int
    open: int
    is_part: bool

    @property
    def kind(self) -> str:
        """The worst of the day: failed, some (a few failed), missed, ran, skipped or none."""
        if self.failed:
            return "some" if self.failed * FEW < self.ran else "failed"
        if self.missed or self.is_part:
            return "missed"
        return "ran" if self.ran or self.open else "skipped" if self.skipped or self.cancelled else "none"


@dataclass(frozen=True, slots=True)
class Year:
    """The days, oldest first, by the midnights of ``zone``. ``is_exact``: each skipped run was asked why; else at least
    so many were ``missed``."""

    days: tuple[YearDay, ...]
    zone: str
    is_exact: bool

    def total(self, name: str) -> int:
        return sum(getattr(day, name) for day in self.days)

    @property
    def is_empty(self) -> bool:
        return all(day.kind == "none" for day in self.days)


def year_of(job_id: int, zone: str, now: datetime) -> Year:
    """Read the `DAYS` days up to ``now``. One statement; half a million runs take it less than a tenth of a second."""
    info = load_zone(zone or "UTC").info
    today = now.astimezone(info).date()
    dates = [today - timedelta(days=n) for n in range(DAYS - 1, -1, -1)]
    edges = [datetime.combine(day, time(), info).astimezone(UTC) for day in [*dates, today + timedelta(days=1)]]
    rows = year_rows(job_id, list(pairwise(edges)), now, MISSED)
    by_edge = {row.first_at: row for row in rows if row.kind == "day"}
    unfinished = Counter(row.first_at.astimezone(info).date() for row in rows if row.kind == "unfinished")
    gaps, parts = _gaps(rows, info)
    days = [
        _day(day, by_edge[edge], unfinished[day], gaps, day in parts) for day, edge in zip(dates, edges, strict=False)
    ]
    is_exact = all(row.skipped <= MOST_SKIPPED_LOOKED_AT for row in by_edge.values())
    return Year(tuple(days), zone or "UTC", is_exact)


def _gaps(rows: list[YearRow], info: ZoneInfo) -> tuple[Counter[tuple[date, bool]], set[date]]:
    """The fires of gaps within one day, by day and whether they were missed; and the days that a longer gap of missed
    ones touches."""
    counted: Counter[tuple[date, bool]] = Counter()
    parts: set[date] = set()
    for row in rows:
        if row.kind == "gap":
            first, last = (at.astimezone(info).date() for at in (row.first_at, row.last_at))
            if first == last:
                counted[first, row.reason in MISSED] += row.total
            elif row.reason in MISSED:
                parts.update(first + timedelta(days=n) for n in range(min((last - first).days, DAYS) + 1))
    return counted, parts


def _day(day: date, row: YearRow, unfinished: int, gaps: Counter[tuple[date, bool]], is_part: bool) -> YearDay:
    failed = row.dead + row.failed
    return YearDay(
        day,
        ran=max(0, row.total - failed - row.cancelled - row.skipped - unfinished),
        failed=failed,
        missed=row.missed + gaps[day, True],
        skipped=row.skipped - row.missed + gaps[day, False],
        cancelled=row.cancelled,
        open=unfinished,
        is_part=is_part,
    )
