"""What comes next: a list, lanes and the load, computed from the schedules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.lanes import bars, lanes
from scheduler.dashboard.pages import address, page, text_in
from scheduler.queries.forecast import Coming, JobForecast, forecast

MOST_ROWS = 200
MOST_LANES = 50
MOST_RESTS = 12
PER_JOB = 24
LISTED = 8


@dataclass(frozen=True, slots=True)
class Window:
    key: str
    words: str
    length: timedelta
    bucket: timedelta


WINDOWS = (
    Window("1h", "1 hour", timedelta(hours=1), timedelta(minutes=1)),
    Window("24h", "24 hours", timedelta(hours=24), timedelta(minutes=30)),
    Window("7d", "7 days", timedelta(days=7), timedelta(hours=3)),
    Window("31d", "31 days", timedelta(days=31), timedelta(hours=12)),
)
USUAL = "24h"


@dataclass(frozen=True, slots=True)
class Row:
    """A fire, or what one closure blocks of a job: ``count`` occurrences up to ``last_at``."""

    item: Coming
    count: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Rest:
    """How many fires a job has besides those that are listed."""

    job_key: str
    count: int


@page
def next_page(request: HttpRequest, now: datetime) -> HttpResponse:
    key = text_in(request, "window") or USUAL
    window = next((window for window in WINDOWS if window.key == key), None)
    if window is None:
        raise InvalidInput.of("window", f"A window is one of {', '.join(window.key for window in WINDOWS)}.")
    found = forecast(now, window.length, bucket=window.bucket, per_job=PER_JOB)
    rows, rests = rows_of(job for job in found.jobs if job.coming)
    drawn = lanes(found, MOST_LANES)
    context = {
        "now": now,
        "window": window,
        "tabs": [(choice, address("next", {"window": choice.key})) for choice in WINDOWS],
        "found": found,
        "middle": now + window.length / 2,
        "fires": sum(bucket.fires for bucket in found.buckets),
        "paused": sum(bucket.paused for bucket in found.buckets),
        "blocked": sum(bucket.blocked for bucket in found.buckets),
        "highest": max(bucket.fires + bucket.paused + bucket.blocked for bucket in found.buckets),
        "bars": bars(found),
        "lanes": drawn,
        "lanes_left_out": len(found.jobs) - len(drawn),
        "rows": rows[:MOST_ROWS],
        "rows_left_out": len(rows) - MOST_ROWS,
        "rests": rests[:MOST_RESTS],
        "rests_left_out": len(rests) - MOST_RESTS,
    }
    return render(request, "dashboard/next.html", context)


def rows_of(jobs: Iterable[JobForecast]) -> tuple[list[Row], list[Rest]]:
    """The list by time, and what it leaves out by job. Occurrences of a job that one rule blocks and that go to one
    instant are one row; of its fires the first `LISTED` are rows."""
    rows: list[Row] = []
    rests: list[Rest] = []
    for job in jobs:
        fires = [item for item in job.coming if not item.is_blocked]
        blocked = [item for item in job.coming if item.is_blocked]
        for _, same in groupby(blocked, key=lambda item: (item.trigger_id, item.rule, item.moved_to)):
            items = list(same)
            rows.append(Row(items[0], len(items), items[-1].at))
        rows += [Row(item, 1, item.at) for item in fires[:LISTED]]
        if hidden := job.more + sum(not item.is_skipped for item in fires[LISTED:]):
            rests.append(Rest(job.job_key, hidden))
    return sorted(rows, key=lambda row: (row.item.at, row.item.job_key)), rests
