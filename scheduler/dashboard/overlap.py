"""All jobs over one day: what ran beside what, what will, and when nothing does."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.day_lanes import place, quarters, quiet_times, sections
from scheduler.dashboard.pages import address, page, text_in
from scheduler.queries.day import DAY, MOST_RUNS, day_of

LANES = ("tenant", "group", "tag", "runner")
MOST_QUIET = 8
_FIRST, _LAST = date(1971, 1, 1), date(9989, 12, 30)


@page
def overlap_page(request: HttpRequest, now: datetime) -> HttpResponse:
    start = datetime.combine(_day_in(request, now), time(), UTC)
    by = text_in(request, "by") or LANES[0]
    if by not in LANES:
        raise InvalidInput.of("by", f"Lanes are by one of {', '.join(LANES)}.")
    day = day_of(start, now)
    lanes, left_out, by_the_hour = sections(day, by, now)
    strip = quarters(day, now)
    quiet = quiet_times(strip)
    is_today = start <= now < start + DAY
    context = {
        "day": day,
        "date": start.date().isoformat(),
        "by": by,
        "tabs": [(name, address("overlap", {"day": _said(start, now), "by": name})) for name in LANES],
        "before": address("overlap", {"day": f"{start - DAY:%Y-%m-%d}", "by": by}),
        "after": address("overlap", {"day": f"{start + DAY:%Y-%m-%d}", "by": by}),
        "today": "" if is_today else address("overlap", {"by": by}),
        "now_x": f"{place(now.timestamp(), start):.1f}" if is_today else "",
        "sections": lanes,
        "left_out": left_out,
        "by_the_hour": by_the_hour,
        "is_counted": bool(day.hours),
        "most_runs": MOST_RUNS,
        "coming": len(day.expected) + sum(map(sum, day.unlisted.values())),
        "strip": strip,
        "highest": max(quarter.number for quarter in strip),
        "quiet": quiet[:MOST_QUIET],
        "more_quiet": len(quiet) - MOST_QUIET,
        "marks": [f"{hour:02}:00" for hour in range(0, 24, 3)],
    }
    return render(request, "dashboard/overlap.html", context)


def _day_in(request: HttpRequest, now: datetime) -> date:
    text = text_in(request, "day")
    if not text:
        return now.astimezone(UTC).date()
    try:
        chosen = date.fromisoformat(text)
    except ValueError:
        raise InvalidInput.of("day", "A day is written as 2026-12-24.") from None
    if not _FIRST <= chosen <= _LAST:
        raise InvalidInput.of("day", f"A day lies between {_FIRST} and {_LAST}.")
    return chosen


def _said(start: datetime, now: datetime) -> str:
    """The day as the address says it; today is not said, so that it stays today."""
    return "" if start <= now < start + timedelta(days=1) else f"{start:%Y-%m-%d}"
