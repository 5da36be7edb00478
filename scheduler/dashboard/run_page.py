"""One run: where it is and how it came there, its attempts, who did what, and what is done with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from scheduler.dashboard.audit import line_of
from scheduler.dashboard.log import detail_of, is_over, log_part
from scheduler.dashboard.pages import action, actor_of, address, live_answer, may_act, or_message, page
from scheduler.dashboard.run_path import diagram_of, steps_of
from scheduler.dashboard.run_timeline import timeline_of
from scheduler.queries.bulk import REPEATABLE
from scheduler.queries.explain import explain
from scheduler.queries.job_zones import zones_of
from scheduler.queries.run_compare import Comparison, compare_with_last_good, due_at
from scheduler.queries.run_story import replay_of, run_story
from scheduler.services.cancel import cancel_runs
from scheduler.services.replays import replay_run

VALUE_CHARACTERS = 300


@dataclass(frozen=True)
class Row:
    """What differs in what the runs were given, as texts."""

    name: str
    here: str
    there: str


@page
def run_page(request: HttpRequest, now: datetime, run_id: UUID) -> HttpResponse:
    detail = detail_of(run_id, now)
    run = detail.row
    why = explain(run_id, now) if run.state == "queued" else None
    story = run_story(detail, now)
    may = may_act(request.user)
    # A run that goes on has not shown yet what is different about it.
    compared = compare_with_last_good(detail, now) if is_over(detail) and run.claimed_at is not None else None
    context = {
        "run": run,
        # Of a finished run that was retried only its first due time is known.
        "due_at": run.fire_at or due_at(run),
        "job_zone": zones_of([run.job_key]).get(run.job_key, ""),
        "detail": detail,
        "why": why,
        "is_over": is_over(detail),
        "may_cancel": may and run.completed_at is None,
        "may_rerun": may and run.state in REPEATABLE and not story.job_is_deleted and story.replayed_as is None,
        "story": story,
        "events": [line_of(event) for event in story.events],
        "diagram": diagram_of(detail),
        "steps": steps_of(detail, now),
        "timeline": timeline_of(detail, story.claim, now),
        "compared": compared,
        "metadata": _metadata_rows(compared, may_see=may),
        **log_part(request, detail),
    }
    shown = (detail, why, story.claim, story.replayed_as, [event.pk for event in story.events])
    return live_answer(request, "dashboard/run.html", "dashboard/_run.html", context, shown)


@action
def cancel(request: HttpRequest, now: datetime, run_id: UUID) -> str:
    results = or_message(request, lambda: cancel_runs([run_id], now, actor_of(request), "cancelled by hand"))
    if results and results[0].delivered_via_runner:
        messages.success(request, _("Cancelled. Its runner is told to stop it."))
    elif results:
        messages.success(request, _("Cancelled."))
    return address("run", run_id=run_id)


@action
def rerun(request: HttpRequest, now: datetime, run_id: UUID) -> str:
    """Do it once more as a new run with the same logical time; answers the page of that."""
    missing = object()
    made = or_message(request, lambda: replay_run(run_id, now, actor_of(request)) or missing)
    if made is None:
        return address("run", run_id=run_id)
    if made is missing:
        messages.info(request, _("This run was done once more before; this is that run."))
        return address("run", run_id=replay_of(run_id) or run_id)
    messages.success(request, _("Made once more, due now, for the same logical time."))
    return address("run", run_id=made)


def _metadata_rows(compared: Comparison | None, *, may_see: bool) -> list[Row]:
    """What a run was given of its own is shown to those alone who could give it; to the others that it differs."""
    if compared is None:
        return []
    if not may_see:
        return [Row(one.name, "", "") for one in compared.metadata]
    return [Row(one.name, _text(one.here), _text(one.there)) for one in compared.metadata]


def _text(value: Any) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARACTERS else text[:VALUE_CHARACTERS] + "…"
