"""Where things lie on a line of time: what the pages draw, in units of a thousand for the whole window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.queries.forecast_rows import Bucket, Coming, Forecast, JobForecast

WIDTH, HEIGHT = 1000, 100
LANE_TOP, LANE_HEIGHT = 3, 18
_LEAST_BAR = 3.0
"""Of the height: one fire beside ten thousand is still seen."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A fire or (``item.is_blocked``) a blocked occurrence. ``moved_x``: where it goes, "" if not within the window."""

    x: str
    moved_x: str
    item: Coming


@dataclass(frozen=True, slots=True)
class Heap:
    """How many fires there are in a bucket besides those that have a mark."""

    bucket: Bucket
    number: int
    x: str
    width: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A job's marks. ``rest_x``: from where on there is more than the marks ("": they are all), of which ``heaps`` are
    what starts."""

    job: JobForecast
    marks: tuple[Mark, ...]
    rest_x: str
    rest_width: str
    heaps: tuple[Heap, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A bucket; heights and places in SVG units, of its fires (all jobs', paused ones too) and its blocked ones."""

    bucket: Bucket
    x: str
    width: str
    y: str
    height: str
    blocked_y: str
    blocked_height: str


def lanes(found: Forecast, most: int) -> list[Lane]:
    """The lanes of the first ``most`` jobs by what they do first."""
    jobs = sorted(found.jobs, key=lambda job: (job.coming[0].at if job.coming else found.end, job.job_key))
    return [_lane(job, found) for job in jobs[:most]]


def bars(found: Forecast) -> list[Bar]:
    """The histogram. The highest bar reaches the top."""
    most = max((bucket.fires + bucket.paused + bucket.blocked for bucket in found.buckets), default=0)
    drawn = []
    for bucket in found.buckets:
        start, end = _place(bucket.start, found.start, found.end), _place(bucket.end, found.start, found.end)
        height = _height(bucket.fires + bucket.paused, most)
        hollow = min(_height(bucket.blocked, most), HEIGHT - height)
        gap = min(2.0, (end - start) / 5)
        drawn.append(
            Bar(
                bucket,
                x=_text(start + gap / 2),
                width=_text(end - start - gap),
                y=_text(HEIGHT - height),
                height=_text(height),
                blocked_y=_text(HEIGHT - height - hollow),
                blocked_height=_text(hollow),
            )
        )
    return drawn


def _lane(job: JobForecast, found: Forecast) -> Lane:
    start, end = found.start, found.end
    marks = tuple(_mark(item, start, end) for item in job.coming)
    if not job.more:
        return Lane(job, marks, "", "")
    fires: Sequence[datetime] = [item.at for item in job.coming if not item.is_blocked] or [start]
    rest = _place(fires[-1], start, end)
    return Lane(job, marks, _text(rest), _text(WIDTH - rest), tuple(_heaps(job, found, rest)))


def _heaps(job: JobForecast, found: Forecast, rest: float) -> Iterator[Heap]:
    """In units of the lane. The fullest bucket of the job reaches its top; none lies over the marks before ``rest``."""
    numbers = job.unlisted(found.buckets)
    most = max(numbers, default=0)
    for bucket, number in zip(found.buckets, numbers, strict=False):
        if number:
            x = max(_place(bucket.start, found.start, found.end), rest)
            width = max(_place(bucket.end, found.start, found.end) - x - 1, 1.0)
            height = max(_LEAST_BAR, number / most * LANE_HEIGHT)
            y = LANE_TOP + LANE_HEIGHT - height
            yield Heap(bucket, number, _text(x), _text(width), _text(y), _text(height))


def _mark(item: Coming, start: datetime, end: datetime) -> Mark:
    is_seen = item.moved_to is not None and start < item.moved_to <= end
    return Mark(_text(_place(item.at, start, end)), _text(_place(item.moved_to, start, end)) if is_seen else "", item)


def _place(at: datetime, start: datetime, end: datetime) -> float:
    return (at - start) / (end - start) * WIDTH


def _height(number: int, most: int) -> float:
    return max(_LEAST_BAR, number / most * HEIGHT) if number else 0.0


def _text(value: float) -> str:
    return f"{value:.1f}"
