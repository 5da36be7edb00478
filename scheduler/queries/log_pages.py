"""The log of a run by pages: lines with their numbers, to either side of a place, all of them or those of a search.

A page costs what it reads and not what lies before it: a place has the id of its line besides the number. A search
looks at `SCAN_LINES` lines and says how far it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Max, QuerySet
from django.db.models.functions import Left

from scheduler.domain.log_levels import is_at_least
from scheduler.models import QueueEntry, RunLog
from scheduler.queries.logs import LogRow
from scheduler.queries.search import contains

PAGE_LINES = 500
SCAN_LINES = 20_000
"""Most lines that one search looks at."""
LINE_CHARACTERS = 2000
"""Most characters of a message on a page; of a longer one there is one more, by which it is known."""


@dataclass(frozen=True)
class Place:
    """A line, by its id and by its number, which begins at 1 in each run. Old lines may be thrown away under a reader:
    the id still finds the next line then, and the numbers that he sees go on."""

    id: int
    number: int

    def __str__(self) -> str:
        return f"{self.id}.{self.number}"

    @classmethod
    def of_text(cls, text: str) -> Place:
        """Read what ``str`` gave. Raises ValueError."""
        parts = text.split(".")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
            raise ValueError("no place")
        return cls(int(parts[0]), int(parts[1]))

    @property
    def next(self) -> Place:
        return Place(self.id + 1, self.number + 1)

    @property
    def last(self) -> Place:
        return Place(self.id - 1, self.number - 1)


BEGINNING = Place(0, 0)


@dataclass(frozen=True)
class LogFilter:
    """Which lines: those whose message contains ``text``, whatever the case of its letters, and that are as grave as
    ``least`` (`log_levels.LEVELS`); empty: all."""

    text: str = ""
    least: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.least)


EVERY_LINE = LogFilter()


@dataclass(frozen=True)
class Line:
    place: Place
    row: LogRow


@dataclass(frozen=True)
class LogPage:
    """``lines`` as they were read: away from the place at which the page begins. ``first`` and ``last`` are the ends of
    what was looked at, both included; ``has_more``: it goes on beyond that, in the direction in which it was read."""

    lines: tuple[Line, ...]
    first: Place
    last: Place
    has_more: bool
    is_forwards: bool

    def cut(self, count: int) -> LogPage:
        """Return the page of the first ``count`` of its lines, at least one where there are any."""
        if count >= len(self.lines):
            return self
        lines = self.lines[:count]
        end = {"last" if self.is_forwards else "first": lines[-1].place}
        return replace(self, lines=lines, has_more=True, **end)


def lines_after(run_id: UUID, place: Place, filters: LogFilter = EVERY_LINE, most: int | None = None) -> LogPage:
    """Return the lines after ``place``, at most ``most`` (a page)."""
    rows = RunLog.objects.filter(run_id=run_id, id__gt=place.id).order_by("id")
    lines, reached, has_more = _read(rows, place, filters, most or PAGE_LINES, 1)
    return LogPage(lines, place.next, reached, has_more, is_forwards=True)


def lines_before(run_id: UUID, place: Place, filters: LogFilter = EVERY_LINE, most: int | None = None) -> LogPage:
    """Return the lines before ``place``, at most ``most`` (a page) of them, the last one first."""
    rows = RunLog.objects.filter(run_id=run_id, id__lt=place.id).order_by("-id")
    lines, reached, has_more = _read(rows, place, filters, most or PAGE_LINES, -1)
    return LogPage(lines, reached, place.last, has_more, is_forwards=False)


def end_of_log(run_id: UUID) -> Place:
    """Return the place of the last line, `BEGINNING` where there is none."""
    found = RunLog.objects.filter(run_id=run_id).aggregate(last=Max("id"), lines=Count("id"))
    return BEGINNING if found["last"] is None else Place(found["last"], found["lines"])


def place_before_line(run_id: UUID, number: int) -> Place:
    """Return the place after which the line ``number`` comes, or the end of the log if it is not that long."""
    if number <= 1:
        return BEGINNING
    ids = RunLog.objects.filter(run_id=run_id).order_by("id").values_list("id", flat=True)
    found = list(ids[number - 2 : number - 1])
    return Place(found[0], number - 1) if found else end_of_log(run_id)


def whole_line(run_id: UUID, number: int) -> LogRow | None:
    """Return the line ``number`` with its whole message."""
    rows = RunLog.objects.filter(run_id=run_id).order_by("id").values(*_COLUMNS, "message")
    return next((LogRow(**row) for row in rows[number - 1 : number]), None)


def began_at(run_id: UUID) -> datetime | None:
    """Return when the first line was said; None without lines."""
    return RunLog.objects.filter(run_id=run_id).order_by("id").values_list("logged_at", flat=True).first()


def log_marks(run_ids: Iterable[UUID]) -> dict[UUID, int]:
    """Return a number for each of these runs to whose log something may still be added; it changes whenever something
    was. A run that is not among them has said all that it will say."""
    return dict(QueueEntry.objects.filter(run_id__in=set(run_ids)).values_list("run_id", "log_bytes"))


_COLUMNS = [name for name in LogRow.__dataclass_fields__ if name != "message"]


def _read(
    rows: QuerySet[RunLog], place: Place, filters: LogFilter, most: int, step: int
) -> tuple[tuple[Line, ...], Place, bool]:
    """Return the lines, the last place that was looked at, and whether there is more beyond it."""
    if not filters:
        found = _rows(rows[: most + 1])
        lines = [Line(Place(row.id, place.number + step * count), row) for count, row in enumerate(found[:most], 1)]
        return tuple(lines), lines[-1].place if lines else place, len(found) > most
    seen = list(rows.values_list("id", "level")[: SCAN_LINES + 1])
    has_more, seen = len(seen) > SCAN_LINES, seen[:SCAN_LINES]
    if not seen:
        return (), place, False
    places = {
        line_id: Place(line_id, place.number + step * count)
        for count, (line_id, level) in enumerate(seen, 1)
        if not filters.least or is_at_least(level, filters.least)
    }
    chosen = list(places)
    if filters.text:
        ends = sorted((seen[0][0], seen[-1][0]))
        matching = rows.filter(id__range=ends).filter(contains("message", filters.text)).values_list("id", flat=True)
        chosen = [line_id for line_id in matching if line_id in places]
    if len(chosen) > most:
        chosen, has_more = chosen[:most], True
        reached = places[chosen[-1]]
    else:
        reached = Place(seen[-1][0], place.number + step * len(seen))
    found = _rows(rows.filter(id__in=chosen)) if chosen else []
    return tuple(Line(places[row.id], row) for row in found), reached, has_more


def _rows(rows: QuerySet[RunLog]) -> list[LogRow]:
    # Cut by the database: a message of megabytes would travel here only to be shortened.
    heads = rows.values(*_COLUMNS, head=Left("message", LINE_CHARACTERS + 1))
    return [LogRow(message=row.pop("head"), **row) for row in heads]
