"""The log of one run, while it is written."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from croniq_site.kernel.errors import InvalidInput, NotFound
from scheduler.dashboard.pages import address, page
from scheduler.queries.logs import MOST_LINES, LogRow, log_lines
from scheduler.queries.runs import RunDetail, run_detail

LOG_CHUNK = 1000
"""Lines of one answer: a long log comes in pieces, so that its page is there at once."""


@page
def log_page(request: HttpRequest, now: datetime, run_id: UUID) -> HttpResponse:
    """The lines that were added since ``after``, and how to ask for the next; 204 while there are none."""
    after, shown = _number_in(request, "after"), _number_in(request, "shown")
    # The state before the lines: a run that is over has said all that it will say.
    detail = detail_of(run_id, now)
    lines = log_lines(run_id, after=after, limit=max(0, min(LOG_CHUNK, MOST_LINES - shown)))
    if not lines and not is_over(detail) and shown < MOST_LINES:
        return HttpResponse(status=204)
    return render(request, "dashboard/_log.html", {"run": detail.row, **_log(detail, lines, after, shown)})


def detail_of(run_id: UUID, now: datetime) -> RunDetail:
    detail = run_detail(run_id, now)
    if detail is None:
        raise NotFound(f"There is no run {run_id}.")
    return detail


def is_over(detail: RunDetail) -> bool:
    """Final, and no handler of it is left that could still say something."""
    return detail.row.completed_at is not None and not detail.row.is_winding_down


def log_part(request: HttpRequest, detail: RunDetail) -> dict[str, object]:
    """What the page of a run shows of its log; ``detail`` was read before."""
    after = _number_in(request, "after")
    lines = [] if request.htmx else log_lines(detail.row.id, after=after, limit=LOG_CHUNK)
    return {**_log(detail, lines, after, shown=0), "is_continued": after > 0}


def _log(detail: RunDetail, lines: list[LogRow], after: int, shown: int) -> dict[str, object]:
    """What the template of the lines shows, and where it goes on. At most `MOST_LINES` are put into one page."""
    shown += len(lines)
    last = lines[-1].id if lines else after
    is_full = shown >= MOST_LINES
    has_more = len(lines) == LOG_CHUNK
    follow = not is_full and (has_more or not is_over(detail))
    here = {"run_id": detail.row.id}
    return {
        "lines": lines,
        "shown": shown,
        "log_url": address("log", {"after": last, "shown": shown}, **here) if follow else "",
        "log_trigger": "load" if has_more else "every 1s",
        "log_next": address("run", {"after": last}, **here) if has_more or is_full else "",
    }


def _number_in(request: HttpRequest, name: str) -> int:
    text = request.GET.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInput.of(name, "This is a whole number.")
    return int(text)
