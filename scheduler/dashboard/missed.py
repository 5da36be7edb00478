"""What did not fire and why, and what is to become of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from croniq_site.kernel.errors import CroniqError, InvalidInput, NotFound
from croniq_site.kernel.text import is_printable_name
from scheduler.dashboard.pages import action, actor_of, address, may_act, or_message, page, text_in
from scheduler.dashboard.sentences import said
from scheduler.queries.job_zones import zones_of
from scheduler.queries.missed import closed_jobs, missed_jobs
from scheduler.services.backfill import MOST_FIRES, Backfill, backfill
from scheduler.services.missed_work import dismiss_missed, run_missed

MOST_JOBS = 100
MOST_CLOSED = 20
MOST_INSTANTS = 50


@dataclass(frozen=True)
class Window:
    key: str
    words: str | Promise
    length: timedelta


WINDOWS = (
    Window("24h", gettext_lazy("24 hours"), timedelta(hours=24)),
    Window("7d", gettext_lazy("7 days"), timedelta(days=7)),
    Window("31d", gettext_lazy("31 days"), timedelta(days=31)),
)
USUAL = "7d"


@page
def missed_page(request: HttpRequest, now: datetime) -> HttpResponse:
    window = _window_in(request)
    jobs = missed_jobs(now, window.length)
    closed = closed_jobs(now, window.length)
    context = {
        "window": window,
        "tabs": [(choice, address("missed", {"window": choice.key})) for choice in WINDOWS],
        "jobs": jobs[:MOST_JOBS],
        "zones": zones_of(job.job_key for job in jobs[:MOST_JOBS]),
        "more": len(jobs) - MOST_JOBS,
        "fires": sum(job.count for job in jobs),
        "total": len(jobs),
        "closed": closed[:MOST_CLOSED],
        "closed_more": len(closed) - MOST_CLOSED,
        "seen_at": now.isoformat(),
        "may_act": may_act(request.user),
    }
    return render(request, "dashboard/missed.html", context)


@page
def missed_job_page(request: HttpRequest, now: datetime, job_key: str) -> HttpResponse:
    """What of a job was missed, and what it would be to run all of it."""
    window = _window_in(request)
    jobs = missed_jobs(now, window.length, job_key) if is_printable_name(job_key) else []
    if not jobs:
        raise NotFound(f"Nothing of {job_key[:255]!r} was missed that nobody has dealt with.")
    job = jobs[0]
    would, refusal = _dry_run(request, job_key, job.first_at, job.last_at, now) if may_act(request.user) else (None, "")
    context = {
        "job": job,
        "zone": zones_of([job_key]).get(job_key, ""),
        "window": window,
        "would": would,
        "instants": would.instants[-MOST_INSTANTS:] if would is not None else (),
        "earlier": max(0, len(would.instants) - MOST_INSTANTS) if would is not None else 0,
        "refusal": refusal,
        "since": job.first_at.isoformat(),
        "until": job.last_at.isoformat(),
        "seen_at": now.isoformat(),
        "may_act": may_act(request.user),
        "back": address("missed", {"window": window.key}),
    }
    return render(request, "dashboard/missed_job.html", context)


@action
def run(request: HttpRequest, now: datetime, job_key: str) -> str:
    """Make up for the fires from ``since`` to ``until`` of the form; for the latest one the two are equal."""
    form = request.POST
    expected = form.get("expected", "")
    if expected and not (expected.isascii() and expected.isdigit() and len(expected) < 10):
        raise InvalidInput.of("expected", "This is the number of runs that were promised.")
    done: Backfill | None = or_message(
        request,
        lambda: run_missed(
            job_key,
            form.get("since", ""),
            form.get("until", ""),
            form.get("seen_at", ""),
            now,
            actor_of(request),
            expected=int(expected) if expected else None,
        ),
    )
    if done is not None:
        made = len(done.instants)
        say = messages.success if made else messages.warning
        words = ngettext("%(n)d run of %(job_key)s made.", "%(n)d runs of %(job_key)s made.", made)
        say(request, " ".join([words % {"n": made, "job_key": job_key}, *map(said, done.reasons)]))
    return address("missed", {"window": form.get("window", "")})


@action
def dismiss(request: HttpRequest, now: datetime, job_key: str) -> str:
    seen_at = request.POST.get("seen_at", "")
    if or_message(request, lambda: dismiss_missed(job_key, seen_at, now, actor_of(request))) is not None:
        words = _("What %(job_key)s missed until now is dealt with. What it misses from now on is shown again.")
        messages.success(request, words % {"job_key": job_key})
    return address("missed", {"window": request.POST.get("window", "")})


def _window_in(request: HttpRequest) -> Window:
    key = text_in(request, "window") or USUAL
    window = next((window for window in WINDOWS if window.key == key), None)
    if window is None:
        raise InvalidInput.of("window", f"A window is one of {', '.join(window.key for window in WINDOWS)}.")
    return window


def _dry_run(
    request: HttpRequest, job_key: str, since: datetime, until: datetime, now: datetime
) -> tuple[Backfill | None, str]:
    try:
        return backfill(job_key, since, until, now, actor_of(request), dry_run=True), ""
    except InvalidInput:
        return None, f"There are more than {MOST_FIRES} fires in that time: make up for them in parts, over the API."
    except CroniqError as refusal:
        return None, refusal.message
