"""The list of runs, and the planned ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.pages import address, live_answer, may_act, page, position_in, position_text, text_in
from scheduler.dashboard.refusals import errors_of
from scheduler.dashboard.run_choice import KIND_WORDS, WINDOW_WORDS, RunChoice, choice_of, texts_of
from scheduler.dashboard.runs_bulk import PLANNED, RUNS
from scheduler.dashboard.typed_times import time_in, zone_of
from scheduler.queries.job_zones import zones_of
from scheduler.queries.run_reach import BELOW_ALL, ERRORS_LOOKED_AT, LOOKED_AT, MOST_COUNTED, newer_runs, reach, within
from scheduler.queries.runs import LISTED_STATES, RunFilter, RunRow, planned_runs, run_list
from scheduler.queries.tags import tag_counts, tenants
from scheduler.queries.waits import notes_of

PAGE_ROWS = 50
MOST_TAGS = 100


@page
def run_list_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """The newest runs of a choice, which keep themselves up to date; or, with ``before`` in the address, older ones,
    which stand still and say how many have come since their reader left the newest (``head``)."""
    try:
        choice = choice_of(request.GET, zone_of(request, request.GET))
    except InvalidInput as refused:
        if request.htmx:
            raise
        return _refused(request, refused)
    for name in ("since", "until"):
        time_in(request, request.GET, name)
    before, head = position_in(request, "before"), position_in(request, "head")
    filters = choice.filters(now)
    context: dict[str, Any] = {"choice": choice, "is_top": before is None, "top": address("runs", choice.query)}
    if before is not None:
        context["newer"] = newer = newer_runs(filters, now, head or before, PAGE_ROWS)
        context["newer_is_cut"] = newer == MOST_COUNTED
        if request.htmx:
            return live_answer(request, "dashboard/runs.html", "dashboard/_runs_newer.html", context, newer)
    context |= _rows(filters, choice, now, before, head)
    context |= {
        "is_filtered": bool(choice.query),
        "may_act": may_act(request.user),
        "planned": address("planned", {"job": choice.job}),
        "looked_at": ERRORS_LOOKED_AT if choice.error and not choice.job else LOOKED_AT,
    }
    if not request.htmx:
        context |= {**_fields(choice), "carried": RUNS.carried(request, request.GET)}
    shown = (context["runs"], context["notes"], context["more"], context["reached"])
    if before is not None:
        shown = context["newer"]  # the part that asks again is the line above the rows
    return live_answer(request, "dashboard/runs.html", "dashboard/_runs.html", context, shown)


def _refused(request: HttpRequest, refused: InvalidInput) -> HttpResponse:
    """The page with what was written in its filters, and what is wrong beside each."""
    texts = {**texts_of(request.GET), **{name: request.GET.get(name, "") for name in ("since", "until")}}
    fields = _fields(RunChoice(tag=texts["tag"], tenant=texts["tenant"]))
    context = {
        "choice": {**texts, "has_more": True},
        "errors": errors_of(refused),
        "top": address("runs"),
        "is_filtered": True,
        **fields,
    }
    return render(request, "dashboard/runs.html", context, status=400)


@page
def planned_page(request: HttpRequest, now: datetime) -> HttpResponse:
    job_key, after = text_in(request, "job"), position_in(request, "after")
    runs, last = _cut(planned_runs(now, PAGE_ROWS + 1, job_key or None, after))
    context = {
        "runs": runs,
        "notes": notes_of(runs, now),
        "zones": zones_of(run.job_key for run in runs),
        "may_act": may_act(request.user),
        "what": PLANNED.what,
        "carried": {"list": "planned", "job": job_key, "after": text_in(request, "after")},
        "more": address("planned", {"job": job_key, "after": last}) if last else "",
        "job_key": job_key,
        "is_filtered": bool(job_key),
        "runs_url": address("runs", {"job": job_key}),
        "planned": address("planned", {"job": job_key}),
    }
    return render(request, "dashboard/planned.html", context)


def _rows(
    filters: RunFilter,
    choice: RunChoice,
    now: datetime,
    before: tuple[datetime, UUID] | None,
    head: tuple[datetime, UUID] | None,
) -> dict[str, Any]:
    """The rows of one page and the address of the next: after the last of them, or, where no index answers the filters
    and one look found fewer, from where it ended (``reached``)."""
    reached = reach(filters, now, PAGE_ROWS + 1, before)
    runs, last = _cut(run_list(now, within(filters, reached), PAGE_ROWS + 1, before))
    if last:
        reached = None
    elif reached is not None:
        last = position_text(reached, BELOW_ALL)
    first = head or ((runs[0].scheduled_for, runs[0].id) if runs else (now, BELOW_ALL))
    more = address("runs", {**choice.query, "head": position_text(*first), "before": last}) if last else ""
    zones = zones_of(run.job_key for run in runs)
    return {"runs": runs, "more": more, "reached": reached, "zones": zones, "notes": notes_of(runs, now)}


def _fields(choice: RunChoice) -> dict[str, Any]:
    """What the form lets one choose from."""
    tags = [tag for tag, _ in sorted(tag_counts(), key=lambda tag: (-tag[1], tag[0]))[:MOST_TAGS]]
    return {
        "states": LISTED_STATES,
        "kinds": KIND_WORDS.items(),
        "windows": WINDOW_WORDS.items(),
        "tags": sorted({*tags, choice.tag} - {""}),
        "tenants": sorted({*tenants(), choice.tenant} - {""}),
        "what": RUNS.what,
    }


def _cut(runs: list[RunRow]) -> tuple[list[RunRow], str]:
    """The rows of this page, and the place of its last one if there are more."""
    if len(runs) <= PAGE_ROWS:
        return runs, ""
    last = runs[PAGE_ROWS - 1]
    return runs[:PAGE_ROWS], position_text(last.scheduled_for, last.id)
