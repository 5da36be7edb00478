"""The log of one run: its page, the part of it on the run's page, what is added meanwhile, and the whole of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.utils.translation import get_language

from croniq_site.kernel.errors import InvalidInput, NotFound
from scheduler.dashboard import tails
from scheduler.dashboard.log_lines import Look, shown_lines
from scheduler.dashboard.pages import address, page, text_in
from scheduler.dashboard.times import viewers_zone, wire_text
from scheduler.domain.log_levels import LEVELS
from scheduler.queries.log_pages import (
    EVERY_LINE,
    PAGE_LINES,
    SCAN_LINES,
    LogFilter,
    LogPage,
    Place,
    began_at,
    end_of_log,
    lines_after,
    lines_before,
    place_before_line,
    whole_line,
)
from scheduler.queries.logs import LogRow, each_log_line
from scheduler.queries.runs import RunDetail, run_detail

PART_LINES = 200
"""Lines on the page of the run: its last ones."""
LINES_ABOVE = 20
"""Lines before the one that an address names."""
RETRY_MS = 2000
"""When a browser asks again after an event stream that has ended."""
ALL_LINES = 2**62


@dataclass(frozen=True)
class Chosen:
    """What the address of a log says besides the place: which lines, and how they are shown."""

    filters: LogFilter
    is_wrapped: bool = True
    is_relative: bool = False

    @cached_property
    def query(self) -> dict[str, str]:
        """What of it is not the usual."""
        said = {
            "q": self.filters.text,
            "level": self.filters.least,
            "wrap": "" if self.is_wrapped else "off",
            "times": "relative" if self.is_relative else "",
        }
        return {name: value for name, value in said.items() if value}


@page
def log_page(request: HttpRequest, now: datetime, run_id: UUID) -> HttpResponse:
    """A page of the log: its end, or the lines around ``line``, ``after`` or ``before`` a place."""
    chosen = _chosen_in(request)
    # The state before the lines: a run that is over has said all that it will say.
    detail = detail_of(run_id, now)
    number = _number_in(request, "line")
    after, before = _place_in(request, "after"), _place_in(request, "before")
    if number:
        shown = lines_after(run_id, place_before_line(run_id, number - LINES_ABOVE), chosen.filters)
    elif after is not None:
        shown = lines_after(run_id, after, chosen.filters)
    else:
        shown = lines_before(run_id, before or end_of_log(run_id).next, chosen.filters)
    context = {
        "run": detail.row,
        "chosen": chosen,
        "levels": LEVELS,
        "line": number or "",
        "scan_lines": SCAN_LINES,
        **_shown(request, detail, shown, chosen, is_forwards=bool(number or after), marked=number),
    }
    return render(request, "dashboard/_log_lines.html" if request.htmx else "dashboard/log.html", context)


@page
def stream(request: HttpRequest, now: datetime, run_id: UUID) -> HttpResponse:
    """The lines that were added since a place, as server-sent events.

    This answer ends with what there is, and whoever reads it asks again. Where `tails` has room it goes on there, as
    the header `tails.HEADER` tells.
    """
    chosen = _chosen_in(request)
    detail = detail_of(run_id, now)
    after = _place_in(request, "after", request.headers.get("Last-Event-ID")) or end_of_log(run_id)
    tail = tails.Order(
        run_id=run_id,
        place=after,
        filters=chosen.filters,
        path=address("log", run_id=run_id),
        since=began_at(run_id) if chosen.is_relative else None,
        language=get_language() or "",
    )
    text, place, has_more = tail.read()
    is_done = is_over(detail) and not has_more
    body = f"retry: {RETRY_MS}\n\n{text}{tails.END if is_done else ''}"
    response = HttpResponse(body, content_type="text/event-stream; charset=utf-8")
    response["X-Accel-Buffering"] = "no"
    patch_cache_control(response, no_transform=True)
    if not is_done and request.method == "GET":
        response[tails.HEADER] = replace(tail, place=place).as_text()
    return response


@page
def raw(request: HttpRequest, now: datetime, run_id: UUID) -> StreamingHttpResponse:
    """The whole log as the handler wrote it, or its one ``line``."""
    detail_of(run_id, now)
    number = _number_in(request, "line")
    name = f"run-{run_id}.log"
    if number:
        row = whole_line(run_id, number)
        if row is None:
            raise NotFound(f"The run {run_id} has no line {number}.")
        parts, name = iter([_raw_line(row)]), f"run-{run_id}-{number}.log"
    else:
        parts = _raw_parts(run_id)
    response = StreamingHttpResponse(parts, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def detail_of(run_id: UUID, now: datetime) -> RunDetail:
    detail = run_detail(run_id, now)
    if detail is None:
        raise NotFound(f"There is no run {run_id}.")
    return detail


def is_over(detail: RunDetail) -> bool:
    """Final, and no handler of it is left that could still say something."""
    return detail.row.completed_at is not None and not detail.row.is_winding_down


def log_part(request: HttpRequest, detail: RunDetail) -> dict[str, object]:
    """What the page of a run shows of its log, which is its end; ``detail`` was read before."""
    if request.htmx:
        return {}
    shown = lines_before(detail.row.id, end_of_log(detail.row.id).next, most=PART_LINES)
    chosen = Chosen(EVERY_LINE)
    return {
        "chosen": chosen,
        "is_part": True,
        **_shown(request, detail, shown, chosen, is_forwards=False),
    }


def _shown(
    request: HttpRequest, detail: RunDetail, shown: LogPage, chosen: Chosen, *, is_forwards: bool, marked: int = 0
) -> dict[str, object]:
    """What the template of the lines shows, and where it goes on, to both sides."""
    run_id = detail.row.id
    path = address("log", run_id=run_id)
    look = Look(
        path,
        find=chosen.filters.text,
        since=began_at(run_id) if chosen.is_relative else None,
        viewer=viewers_zone(request.user),
        marked=marked,
    )
    elements = shown_lines(shown.lines, look)
    shown = shown.cut(len(elements))
    first, last = shown.first, shown.last
    is_earlier = first.number > 1 if is_forwards else shown.has_more
    is_later = shown.has_more if is_forwards else _place_in(request, "before") is not None
    over = is_over(detail)
    return {
        "elements": elements if is_forwards else elements[::-1],
        "first": first,
        "last": last,
        "is_earlier": is_earlier,
        "is_later": is_later,
        "is_over": over,
        "has_lines": last.number > 0,
        "page_url": path,
        "asked": urlencode(chosen.query),
        "earlier_url": address("log", {**chosen.query, "before": first}, run_id=run_id),
        "later_url": address("log", {**chosen.query, "after": last}, run_id=run_id),
        "first_url": address("log", {**chosen.query, "line": 1}, run_id=run_id),
        "last_url": address("log", chosen.query, run_id=run_id),
        "stream_url": "" if over else address("log-stream", chosen.query, run_id=run_id),
        "raw_url": address("log-raw", run_id=run_id),
    }


def _chosen_in(request: HttpRequest) -> Chosen:
    level, wrap, times = (request.GET.get(name, "") for name in ("level", "wrap", "times"))
    if level and level not in LEVELS:
        raise InvalidInput.of("level", f"A level is one of {', '.join(LEVELS)}.")
    if wrap not in ("", "on", "off"):
        raise InvalidInput.of("wrap", "Lines are wrapped, or not: on or off.")
    if times not in ("", "absolute", "relative"):
        raise InvalidInput.of("times", "Times are absolute or relative.")
    return Chosen(LogFilter(text_in(request, "q"), level), wrap != "off", times == "relative")


def _number_in(request: HttpRequest, name: str) -> int:
    text = request.GET.get(name) or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInput.of(name, "This is a whole number.")
    return int(text)


def _place_in(request: HttpRequest, name: str, text: str | None = None) -> Place | None:
    text = text or request.GET.get(name, "")
    if not text:
        return None
    try:
        place = Place.of_text(text)
        if name == "before" and not (place.id and place.number):
            raise ValueError("nothing is before that")
        return place
    except ValueError:
        raise InvalidInput.of(name, "This is no place in a log; begin at its first or its last line.") from None


def _raw_parts(run_id: UUID) -> Iterator[bytes]:
    """The lines, some hundred at a time: a piece for each would cost more than the line."""
    lines: list[bytes] = []
    for row in each_log_line(run_id, limit=ALL_LINES):
        lines.append(_raw_line(row))
        if len(lines) == PAGE_LINES:
            yield b"".join(lines)
            lines.clear()
    yield b"".join(lines)


def _raw_line(row: LogRow) -> bytes:
    attempt = f" attempt={row.attempt}" if row.attempt != 1 else ""
    fields = f" {json.dumps(row.fields, ensure_ascii=False)}" if row.fields else ""
    return f"{wire_text(row.logged_at)} {row.level}{attempt} {row.message}{fields}\n".encode()
