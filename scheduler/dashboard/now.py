"""The page "Now": what is wrong, quiet when nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext as _

from calendars.domain.zones import load_zone
from croniq_site.kernel.clock import SystemClock
from scheduler.dashboard.alerts import VIEW as VIEW_ALERTS
from scheduler.dashboard.pages import live_answer, page
from scheduler.dashboard.times import viewers_zone
from scheduler.queries.situation import situation
from scheduler.queries.statistics import Bucket, failures_by_hour, throughput
from scheduler.queries.trouble import SILENT

WIDTH, HEIGHT = 1000, 100
HEAT_DAYS = 28
MOST_APART = 2.0
"""Seconds between the clock of this server and that of the database that somebody should look at."""
_LEFT, _TOP, _CELL = 18, 2, 10
"""Where the cells of the heat map begin, and how far they are apart."""
_LEAST = 3.0
"""Of the height: one failure among thousands of runs is still seen."""


@dataclass(frozen=True)
class Column:
    """An hour's runs in SVG units: those that failed stand on those that completed."""

    bucket: Bucket
    failed: int
    x: str
    width: str
    completed_y: str
    completed_height: str
    failed_y: str
    failed_height: str


@dataclass(frozen=True)
class Cell:
    """An hour of a weekday: ``heat`` 0 (no failure) to 4 (as many as the worst hour)."""

    x: int
    y: int
    heat: int
    words: str


@page
def now_page(request: HttpRequest, now: datetime) -> HttpResponse:
    # Before anything else is asked: the database's clock was read a moment ago.
    ahead = (SystemClock().now() - now).total_seconds()
    # The signs of life were read for the banner above the page.
    banner = getattr(request, "banner", None)
    may_see_alerts = request.user.has_perm(VIEW_ALERTS)
    found = situation(now, banner.pulse if banner is not None else None, with_alerts=may_see_alerts)
    hours = throughput(now, "24h")
    zone = viewers_zone(request.user) or "UTC"
    failures = failures_by_hour(now, HEAT_DAYS, load_zone(zone).info)
    dead, failed = sum(hour.dead for hour in hours), sum(hour.failed for hour in hours)
    context = {
        "found": found,
        "columns": columns(hours),
        "completed": sum(hour.completed for hour in hours),
        "dead": dead,
        "failed_only": failed,
        "failed": dead + failed,
        "cells": cells(failures, zone),
        "failures": sum(map(sum, failures)),
        "heat_days": HEAT_DAYS,
        "heat_zone": zone,
        "heat_days_names": [(str(WEEKDAYS[day])[:2], _TOP + day * _CELL + 7.5) for day in range(7)],
        "worst": _worst(failures),
        "beats": list(found.beats.items()),
        "silent_since": now - SILENT,
        "ahead_seconds": abs(ahead),
        "is_ahead": ahead > 0,
        "is_apart": abs(ahead) > MOST_APART,
        "is_quiet": found.is_quiet and abs(ahead) <= MOST_APART,
        "since": hours[0].start_at,
    }
    # Signs of life come every few seconds: they alone are no news.
    shown = found, hours, failures, abs(ahead) > MOST_APART
    return live_answer(request, "dashboard/now.html", "dashboard/_now.html", context, shown)


def columns(hours: Sequence[Bucket]) -> list[Column]:
    """Draw the hours. The highest column reaches the top."""
    most = max((hour.completed + hour.failed + hour.dead for hour in hours), default=0)
    width = WIDTH / len(hours)
    drawn = []
    for place, hour in enumerate(hours):
        failed = hour.failed + hour.dead
        low = _height(failed, most)
        high = min(_height(hour.completed, most), HEIGHT - low)
        drawn.append(
            Column(
                hour,
                failed,
                x=f"{place * width + 2:.2f}",
                width=f"{width - 4:.2f}",
                completed_y=f"{HEIGHT - high:.2f}",
                completed_height=f"{high:.2f}",
                failed_y=f"{HEIGHT - high - low:.2f}",
                failed_height=f"{low:.2f}",
            )
        )
    return drawn


def cells(failures: Sequence[Sequence[int]], zone: str) -> list[Cell]:
    """The hours of the week, by the clock of ``zone``."""
    most = max(map(max, failures))
    return [
        Cell(
            _LEFT + hour * _CELL,
            _TOP + day * _CELL,
            heat=-(-4 * number // most) if number else 0,
            words=_("{day} {hour:02}:00 {zone}: {number} failed").format(
                day=WEEKDAYS[day], hour=hour, zone=zone, number=number
            ),
        )
        for day, row in enumerate(failures)
        for hour, number in enumerate(row)
    ]


def _worst(failures: Sequence[Sequence[int]]) -> str:
    """The hour with the most failures, in words: what the darkest cell says."""
    number, day, hour = max(
        (number, -day, -hour) for day, row in enumerate(failures) for hour, number in enumerate(row)
    )
    if not number:
        return ""
    words = _("most of them on {day} at {hour:02}:00 ({number})")
    return words.format(day=WEEKDAYS[-day], hour=-hour, number=number)


def _height(number: int, most: int) -> float:
    return max(_LEAST, HEIGHT * number / most) if number else 0.0
