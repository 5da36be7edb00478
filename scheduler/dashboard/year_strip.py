"""A year of a job as a strip of days: a shape a day, and words for each and for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.utils.dates import MONTHS_3, WEEKDAYS_ABBR
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduler.queries.job_year import Year, YearDay

STEP, SIZE = 11, 9
LEFT, TOP = 26, 14


@dataclass(frozen=True, slots=True)
class Cell:
    """A day in SVG units. ``kind``: ran (a full square), failed (one with a cross), some (one with a corner), missed
    (hollow), skipped (a line), none (a dot)."""

    kind: str
    x: int
    y: int
    words: str


@dataclass(frozen=True, slots=True)
class Strip:
    cells: tuple[Cell, ...]
    months: tuple[tuple[int, str], ...]
    weekdays: tuple[tuple[int, str], ...]
    width: int
    height: int
    words: str


def strip_of(year: Year) -> Strip:
    """Draw the weeks as columns, Monday on top."""
    monday = year.days[0].day - timedelta(days=year.days[0].day.weekday())

    def column(day: YearDay) -> int:
        return LEFT + (day.day - monday).days // 7 * STEP

    cells = tuple(
        Cell(day.kind, column(day), TOP + day.day.weekday() * STEP, f"{date_format(day.day, 'D j N Y')}: {said(day)}")
        for day in year.days
    )
    months = tuple((column(day), str(MONTHS_3[day.day.month]).capitalize()) for day in year.days if day.day.day == 1)
    weekdays = tuple((TOP + place * STEP + 8, str(WEEKDAYS_ABBR[place])) for place in (0, 2, 4))
    return Strip(cells, months, weekdays, column(year.days[-1]) + STEP, TOP + 7 * STEP, _sums(year))


def said(day: YearDay) -> str:
    return ", ".join(_parts(day)) or _("nothing")


def _parts(day: YearDay) -> Iterator[str]:
    counts = (
        (day.ran, lambda n: ngettext("{n} ran", "{n} ran", n)),
        (day.failed, lambda n: ngettext("{n} failed", "{n} failed", n)),
        (day.missed, lambda n: ngettext("{n} missed", "{n} missed", n)),
        (day.skipped, lambda n: ngettext("{n} skipped", "{n} skipped", n)),
        (day.cancelled, lambda n: ngettext("{n} cancelled", "{n} cancelled", n)),
        (day.open, lambda n: ngettext("{n} not ended", "{n} not ended", n)),
    )
    for number, words in counts:
        if number:
            yield words(number).format(n=number)
    if day.is_part:
        yield _("part of a longer gap")


def _sums(year: Year) -> str:
    names = ("ran", "failed", "missed", "skipped", "cancelled", "open")
    whole = YearDay(year.days[0].day, *(year.total(name) for name in names), is_part=False)
    return _("In the last year: {sums}.").format(sums=said(whole))
