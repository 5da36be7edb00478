"""How long a job takes, as a line with a band."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduler.queries.job_trend import Trend, TrendPoint

WIDTH, HEIGHT = 1000, 100


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the pointer finds what a point says."""

    x: str
    width: str
    point: TrendPoint


@dataclass(frozen=True, slots=True)
class Chart:
    """``line`` (the medians) and ``band`` (from there to the 95th percentiles) are SVG points; the longest 95th
    percentile reaches the top."""

    trend: Trend
    line: str
    band: str
    spots: tuple[Spot, ...]
    most_ms: int

    @property
    def first_at(self) -> datetime:
        return self.trend.points[0].first_at

    @property
    def last_at(self) -> datetime:
        return self.trend.points[-1].last_at


def chart_of(trend: Trend) -> Chart:
    most = max(1, *(point.p95_ms for point in trend.points))
    step = WIDTH / len(trend.points)
    xs = [step * (place + 0.5) for place in range(len(trend.points))]
    medians = [_spot(x, point.median_ms, most) for x, point in zip(xs, trend.points, strict=True)]
    p95s = [_spot(x, point.p95_ms, most) for x, point in zip(xs, trend.points, strict=True)]
    return Chart(
        trend,
        line=" ".join(medians),
        band=" ".join([*medians, *reversed(p95s)]),
        spots=tuple(
            Spot(f"{x - step / 2:.1f}", f"{step:.1f}", point) for x, point in zip(xs, trend.points, strict=True)
        ),
        most_ms=most,
    )


def _spot(x: float, milliseconds: int, most: int) -> str:
    return f"{x:.1f},{HEIGHT - milliseconds / most * HEIGHT:.1f}"
