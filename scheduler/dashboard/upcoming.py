"""What comes next: a list, lanes and the load, computed from the schedules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.lane_marks import Drawing
from scheduler.dashboard.lanes import bars, lanes
from scheduler.dashboard.pages import address, page, text_in
from scheduler.dashboard.times import viewers_zone
from scheduler.queries.forecast import forecast
from scheduler.queries.forecast_rows import Coming, JobForecast

MOST_ROWS = 200
MOST_LANES = 50
PER_JOB = 24
LISTED = 8


@dataclass(frozen=True, slots=True)
class Window:
    key: str
    words: Any
    length: timedelta
    bucket: timedelta


WINDOWS = (
    Window("1h", _("1 hour"), timedelta(hours=1), timedelta(minutes=1)),
    Window("24h", _("24 hours"), timedelta(hours=24), timedelta(minutes=30)),
    Window("7d", _("7 days"), timedelta(days=7), timedelta(hours=3)),
    Window("31d", _("31 days"), timedelta(days=31), timedelta(hours=12)),
)
USUAL = "24h"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list: a fire, or what one closure blocks of a job (``count`` occurrences up to ``last_at``), or
    (``is_rest``) how many more fires or blocked ones of its job there are from ``item`` on up to ``last_at``."""

    item: Coming
    count: int
    last_at: datetime
    is_rest: bool = False


@page
def next_page(request: HttpRequest, now: datetime) -> HttpResponse:
    key = text_in(request, "window") or USUAL
    window = next((window for window in WINDOWS if window.key == key), None)
    if window is None:
        raise InvalidInput.of("window", f"A window is one of {', '.join(window.key for window in WINDOWS)}.")
    found = forecast(now, window.length, bucket=window.bucket, per_job=PER_JOB)
    rows = rows_of(found.jobs, found.end)
    drawn, drawing = lanes(found, MOST_LANES), Drawing(found.buckets, viewers_zone(request.user))
    fires = sum(bucket.fires for bucket in found.buckets)
    unlisted = [job for job in found.jobs if job.fires and not job.coming]
    context = {
        "now": now,
        "title": _title(fires, window, found.is_exact),
        "window": window,
        "tabs": [(choice, address("next", {"window": choice.key})) for choice in WINDOWS],
        "found": found,
        "middle": now + window.length / 2,
        "paused": sum(bucket.paused for bucket in found.buckets),
        "blocked": sum(bucket.blocked for bucket in found.buckets),
        "highest": max(bucket.fires + bucket.paused + bucket.blocked for bucket in found.buckets),
        "bars": bars(found),
        "lanes": [(lane, drawing.heaps(lane), drawing.fires(lane)) for lane in drawn],
        "lanes_left_out": len(found.jobs) - len(drawn),
        "rows": rows[:MOST_ROWS],
        "rows_left_out": len(rows) - MOST_ROWS,
        "unlisted": {"jobs": len(unlisted), "fires": sum(job.fires for job in unlisted)} if unlisted else None,
    }
    return render(request, "dashboard/next.html", context)


def _title(fires: int, window: Window, is_exact: bool) -> str:
    if is_exact:
        said = ngettext("{fires} fire in the coming {window}", "{fires} fires in the coming {window}", fires)
    else:
        said = ngettext(
            "About {fires} fire in the coming {window}", "About {fires} fires in the coming {window}", fires
        )
    return said.format(fires=fires, window=window.words)


def rows_of(jobs: Iterable[JobForecast], end: datetime) -> list[Row]:
    """The list by time. Occurrences of a job that one rule blocks and that go to one instant are one row; of its fires
    the first `LISTED` are rows, and where they stop a row says how many more there are: nothing ends in silence."""
    rows: list[Row] = []
    for job in jobs:
        fires = [item for item in job.coming if not item.is_blocked]
        blocked = [item for item in job.coming if item.is_blocked]
        for _key, same in groupby(blocked, key=lambda item: (item.trigger_id, item.rule, item.moved_to)):
            items = list(same)
            rows.append(Row(items[0], len(items), items[-1].at))
        rows += [Row(item, 1, item.at) for item in fires[:LISTED]]
        hidden = job.more - job.more_blocked + sum(not item.is_skipped for item in fires[LISTED:])
        for listed, count in ((fires[:LISTED], hidden), (blocked, job.more_blocked)):
            if count and listed:
                rows.append(Row(listed[-1], count, end, is_rest=True))
    return sorted(rows, key=lambda row: (row.item.at, row.item.job_key, row.is_rest))
