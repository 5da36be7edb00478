"""Takeovers over time as a drawing: columns by number, those of a flapping identity marked by more than colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler.queries.runner_story import Takeover

WIDTH, HEIGHT, MARK = 1000, 100, 14
"""A mark stands above its column: that much of the height is left for it."""
MOST_NAMED = 3


@dataclass(frozen=True)
class Column:
    """A stretch of time in which identities changed hands, in SVG units. ``names``: whose, the first of them."""

    start_at: datetime
    number: int
    is_flapping: bool
    names: tuple[str, ...]
    more: int
    x: str
    y: str
    width: str
    height: str
    end: str
    mark_y: str


def takeover_columns(takeovers: Sequence[Takeover], now: datetime, span: timedelta, number: int) -> list[Column]:
    """Draw the takeovers of the last ``span`` in ``number`` columns; those without any are left out."""
    step = span / number
    begins_at = now - span
    by_column: dict[int, list[Takeover]] = {}
    for takeover in takeovers:
        place = min(number - 1, max(0, (takeover.at - begins_at) // step))
        by_column.setdefault(place, []).append(takeover)
    most = max(map(len, by_column.values()), default=1)
    width = WIDTH / number
    drawn = []
    for place, found in sorted(by_column.items()):
        height = (HEIGHT - MARK) * len(found) / most
        names = sorted({takeover.runner_id for takeover in found})
        drawn.append(
            Column(
                start_at=begins_at + place * step,
                number=len(found),
                is_flapping=any(takeover.is_flapping for takeover in found),
                names=tuple(names[:MOST_NAMED]),
                more=max(0, len(names) - MOST_NAMED),
                x=f"{place * width + 2:.2f}",
                y=f"{HEIGHT - height:.2f}",
                width=f"{width - 4:.2f}",
                height=f"{height:.2f}",
                end=f"{(place + 1) * width - 2:.2f}",
                mark_y=f"{HEIGHT - height - MARK / 2:.2f}",
            )
        )
    return drawn
