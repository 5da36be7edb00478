"""The fires on the lanes of "Next" as SVG. Written here and not by the page's template: of three thousand heaps that
would take more time than to work them out. What is blocked is little, and the template's."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduler.dashboard.lanes import LANE_HEIGHT, LANE_TOP, Heap, Lane, Mark
from scheduler.dashboard.times import short_text
from scheduler.queries.forecast_rows import Bucket


class Drawing:
    """Draws the lanes of one forecast; instants are said in the zone ``viewer``. None of its words was written by
    anybody."""

    def __init__(self, buckets: Sequence[Bucket], viewer: str) -> None:
        self._viewer = viewer
        self._stretches = {
            bucket.start: f"{short_text(bucket.start, viewer, 'D j M H:i')} – {short_text(bucket.end, viewer, 'H:i')}"
            for bucket in buckets
        }
        self._skipped, self._held = _(", skipped"), _(", held by the pause")
        self._moved = _(", moved from %(moved_from)s")

    def heaps(self, lane: Lane) -> SafeString:
        return SafeString("\n".join(map(self._heap, lane.heaps)))

    def fires(self, lane: Lane) -> SafeString:
        return SafeString("\n".join(self._mark(mark) for mark in lane.marks if not mark.item.is_blocked))

    def _heap(self, heap: Heap) -> str:
        number = ngettext("%(number)s more fire", "%(number)s more fires", heap.number) % {"number": heap.number}
        return (
            f'<rect class="heap" x="{heap.x}" y="{heap.y}" width="{heap.width}" height="{heap.height}">'
            f"<title>{self._stretches[heap.bucket.start]}: {number}</title></rect>"
        )

    def _mark(self, mark: Mark) -> str:
        item = mark.item
        words = short_text(item.at, self._viewer)
        words += self._skipped if item.is_skipped else self._held if item.is_paused else ""
        if item.moved_from:
            words += self._moved % {"moved_from": short_text(item.moved_from, self._viewer)}
        kind = "solid held" if item.is_paused or item.is_skipped else "solid"
        return (
            f'<rect class="{kind}" x="{mark.x}" y="{LANE_TOP}" width="4" height="{LANE_HEIGHT}">'
            f"<title>{words}</title></rect>"
        )
