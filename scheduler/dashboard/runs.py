"""Runs, and one run with its attempts."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.log import detail_of, is_over, log_part
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
from scheduler.queries.runs import STATES, RunFilter, RunRow, planned_runs, run_list
from scheduler.services.cancel import cancel_runs

PAGE_ROWS = 50


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
    detail = detail_of(run_id, now)
    why = explain(run_id, now) if detail.row.state == "queued" else None
    context = {
        "run": detail.row,
        "detail": detail,
        "why": why,
        "is_over": is_over(detail),
        "may_cancel": may_act(request.user) and detail.row.completed_at is None,
        **log_part(request, detail),
    }
    return live_answer(request, "dashboard/run.html", "dashboard/_run.html", context, (detail, why))


@action
def cancel(request: HttpRequest, now: datetime, run_id: UUID) -> str:
    results = or_message(request, lambda: cancel_runs([run_id], now, actor_of(request), "cancelled by hand"))
    if results and results[0].delivered_via_runner:
        messages.success(request, "Cancelled. Its runner is told to stop it.")
    elif results:
        messages.success(request, "Cancelled.")
    return address("run", run_id=run_id)


def _cut(runs: list[RunRow]) -> tuple[list[RunRow], str]:
    """The rows of this page, and the place of its last one if there are more."""
    if len(runs) <= PAGE_ROWS:
        return runs, ""
    last = runs[PAGE_ROWS - 1]
    return runs[:PAGE_ROWS], position_text(last.scheduled_for, last.id)
