"""Runs, one run with its attempts, and its log while it is written."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from croniq_site.kernel.errors import InvalidInput, NotFound
from scheduler.dashboard.pages import (
    action,
    actor_of,
    address,
    live_answer,
    may_act,
    or_message,
    page,
    position_in,
    position_text,
    text_in,
)
from scheduler.queries.explain import explain
from scheduler.queries.logs import MOST_LINES, LogRow, log_lines
from scheduler.queries.runs import STATES, RunDetail, RunFilter, RunRow, planned_runs, run_detail, run_list
from scheduler.services.cancel import cancel_runs

PAGE_ROWS = 50
LOG_CHUNK = 1000
"""Lines of one answer: a long log comes in pieces, so that its page is there at once."""


@page
def run_list_page(request: HttpRequest, now: datetime) -> HttpResponse:
    job_key, state, runner_id = text_in(request, "job"), text_in(request, "state"), text_in(request, "runner")
    if state and state not in STATES:
        raise InvalidInput.of("state", f"A state is one of {', '.join(STATES)}.")
    before = position_in(request, "before")
    filters = RunFilter(job_key=job_key or None, state=state or None, runner_id=runner_id or None)
    runs, last = _cut(run_list(now, filters, PAGE_ROWS + 1, before))
    chosen = {"job": job_key, "state": state, "runner": runner_id}
    more = address("runs", chosen | {"before": last}) if last else ""
    context = {
        "runs": runs,
        "more": more,
        "job_key": job_key,
        "state": state,
        "states": STATES,
        "is_top": before is None,
        "runner_id": runner_id,
        "is_filtered": any(chosen.values()),
        "top": address("runs", chosen),
        "planned": address("planned", {"job": job_key}),
    }
    return live_answer(request, "dashboard/runs.html", "dashboard/_runs.html", context, (runs, more))


@page
def planned_page(request: HttpRequest, now: datetime) -> HttpResponse:
    job_key, after = text_in(request, "job"), position_in(request, "after")
    runs, last = _cut(planned_runs(now, PAGE_ROWS + 1, job_key or None, after))
    context = {
        "runs": runs,
        "more": address("planned", {"job": job_key, "after": last}) if last else "",
        "job_key": job_key,
        "is_filtered": bool(job_key),
        "runs_url": address("runs", {"job": job_key}),
        "planned": address("planned", {"job": job_key}),
    }
    return render(request, "dashboard/planned.html", context)


@page
def run_page(request: HttpRequest, now: datetime, run_id: UUID) -> HttpResponse:
    detail = _detail(run_id, now)
    after = _number_in(request, "after")
    lines = [] if request.htmx else log_lines(run_id, after=after, limit=LOG_CHUNK)
    why = explain(run_id, now) if detail.row.state == "queued" else None
    context = {
        "run": detail.row,
        "detail": detail,
        "why": why,
        "is_over": _is_over(detail),
        "may_cancel": may_act(request.user) and detail.row.completed_at is None,
        **_log(detail, lines, after, shown=0),
        "is_continued": after > 0,
    }
    return live_answer(request, "dashboard/run.html", "dashboard/_run.html", context, (detail, why))


@page
def log_page(request: HttpRequest, now: datetime, run_id: UUID) -> HttpResponse:
    """The lines that were added since ``after``, and how to ask for the next; 204 while there are none."""
    after, shown = _number_in(request, "after"), _number_in(request, "shown")
    # The state before the lines: a run that is over has said all that it will say.
    detail = _detail(run_id, now)
    lines = log_lines(run_id, after=after, limit=max(0, min(LOG_CHUNK, MOST_LINES - shown)))
    if not lines and not _is_over(detail) and shown < MOST_LINES:
        return HttpResponse(status=204)
    return render(request, "dashboard/_log.html", {"run": detail.row, **_log(detail, lines, after, shown)})


@action
def cancel(request: HttpRequest, now: datetime, run_id: UUID) -> str:
    results = or_message(request, lambda: cancel_runs([run_id], now, actor_of(request), "cancelled by hand"))
    if results and results[0].delivered_via_runner:
        messages.success(request, "Cancelled. Its runner is told to stop it.")
    elif results:
        messages.success(request, "Cancelled.")
    return address("run", run_id=run_id)


def _detail(run_id: UUID, now: datetime) -> RunDetail:
    detail = run_detail(run_id, now)
    if detail is None:
        raise NotFound(f"There is no run {run_id}.")
    return detail


def _is_over(detail: RunDetail) -> bool:
    """Final, and no handler of it is left that could still say something."""
    return detail.row.completed_at is not None and not detail.row.is_winding_down


def _log(detail: RunDetail, lines: list[LogRow], after: int, shown: int) -> dict[str, object]:
    """What the template of the lines shows, and where it goes on. At most `MOST_LINES` are put into one page."""
    shown += len(lines)
    last = lines[-1].id if lines else after
    is_full = shown >= MOST_LINES
    has_more = len(lines) == LOG_CHUNK
    follow = not is_full and (has_more or not _is_over(detail))
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


def _cut(runs: list[RunRow]) -> tuple[list[RunRow], str]:
    """The rows of this page, and the place of its last one if there are more."""
    if len(runs) <= PAGE_ROWS:
        return runs, ""
    last = runs[PAGE_ROWS - 1]
    return runs[:PAGE_ROWS], position_text(last.scheduled_for, last.id)
