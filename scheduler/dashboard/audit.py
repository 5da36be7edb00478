"""What happened, by whom."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import is_printable_name
from runners.models import AuditEvent
from runners.queries.audit import AuditFilter, audit_list
from scheduler.dashboard.pages import address, page, text_in
from scheduler.dashboard.refusals import errors_of
from scheduler.dashboard.times import wire_text
from scheduler.dashboard.typed_times import time_in
from scheduler.domain.trigger_fields import instant_of

PAGE_ROWS = 100
VALUE_CHARACTERS = 300
MOST_VALUES = 20
TIMES = ("since", "until")
FILTERS = ("actor_type", "actor_id", "action", "target_type", "target_id", *TIMES)
_ACTOR_TYPES = ("api_client", "user", "runner", "system")


@dataclass(frozen=True)
class Change:
    """A field of a difference as text: ``after`` alone, or what was ``before`` it too."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True)
class Line:
    """``url``: the page of what it happened to, "" where there is none."""

    event: AuditEvent
    url: str
    changes: tuple[Change, ...]
    more: int


@page
def audit_page(request: HttpRequest, now: datetime) -> HttpResponse:
    chosen: dict[str, Any] = {name: text_in(request, name) for name in FILTERS}
    wanted: dict[str, Any] = {name: value or None for name, value in chosen.items()}
    errors: dict[str, str] = {}
    for name in TIMES:
        try:
            wanted[name] = time_in(request, request.GET, name)
        except InvalidInput as refused:
            errors |= errors_of(refused)
    if errors:
        context = {"errors": errors, "chosen": chosen, "actor_types": _ACTOR_TYPES, "is_filtered": True}
        return render(request, "dashboard/audit.html", context, status=400)
    events = audit_list(AuditFilter(**wanted), PAGE_ROWS + 1, _position_in(request))
    more = ""
    if len(events) > PAGE_ROWS:
        last = events[PAGE_ROWS - 1]
        times = {name: wire_text(wanted[name]) if wanted[name] else "" for name in TIMES}
        more = address("audit", {**chosen, **times, "before": f"{last.created_at.isoformat()},{last.pk}"})
    context = {
        "lines": [line_of(event) for event in events[:PAGE_ROWS]],
        "more": more,
        "chosen": {**chosen, **{name: wanted[name] for name in TIMES}},
        "actor_types": _ACTOR_TYPES,
        "is_filtered": any(chosen.values()),
        "is_top": not request.GET.get("before"),
    }
    return render(request, "dashboard/audit.html", context)


def line_of(event: AuditEvent) -> Line:
    """The event as the page shows it: of its difference the first fields, a pair ``[before, after]`` as a change."""
    diff = event.diff if isinstance(event.diff, dict) else {"": event.diff}
    changes = tuple(_change(name, value) for name, value in list(diff.items())[:MOST_VALUES])
    return Line(event, _url_of(event), changes, max(0, len(diff) - MOST_VALUES))


def _change(name: str, value: Any) -> Change:
    if isinstance(value, list) and len(value) == 2:
        return Change(name, _text(value[0]), _text(value[1]))
    return Change(name, None, _text(value))


def _text(value: Any) -> str:
    if value is None or value == "":
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARACTERS else text[:VALUE_CHARACTERS] + "…"


def _url_of(event: AuditEvent) -> str:
    target = event.target_id
    match event.target_type:
        case "job" if is_printable_name(target) and "/" not in target:
            return address("job", job_key=target)
        case "run" | "dead_letter" as kind:
            try:
                run_id = UUID(target)
            except ValueError:
                return ""
            return address("run", run_id=run_id) if kind == "run" else address("letter", letter_id=run_id)
        case "calendar" if target.isascii() and target.isdigit() and len(target) < 10:
            return address("calendar", calendar_id=int(target))
        case "runner":
            return address("runs", {"runner": target})
    return ""


def _position_in(request: HttpRequest) -> tuple[datetime, int] | None:
    text = request.GET.get("before", "")
    if not text:
        return None
    at, _, number = text.partition(",")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise InvalidInput.of("before", "This is no place in the list; begin at its top.")
    return instant_of("before", at), int(number)
