"""The palette: jobs, runs, runners, calendars and commands by what is typed. Each choice is an address; what does
something leads to the page that says what it will do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from scheduler.dashboard.bulk_jobs import JOBS
from scheduler.dashboard.pages import address, may_act, page, text_in
from scheduler.dashboard.settings_clients import CLIENTS
from scheduler.dashboard.settings_users import PEOPLE
from scheduler.dashboard.shortcuts import JUMPS
from scheduler.queries.finder import Found, found, jobs_like

LEAST_OF_A_VERB = 2
_MATTERS = {"pause": Q(paused_at__isnull=True), "resume": Q(paused_at__isnull=False)}
"""To which jobs a verb makes a difference, where it does not to all."""


@dataclass(frozen=True)
class Choice:
    """``kind`` and ``words`` are what is read, ``url`` is where it leads."""

    kind: str
    words: str
    url: str


@page
def palette_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """At most nine queries, and at most `MOST_JOBS` + 3 `MOST_OTHERS` choices besides the pages."""
    text = text_in(request, "q")
    choices = [*_commands(request, text), *_things(found(text)), *_pages(request, text)]
    template = "dashboard/_palette.html" if request.htmx else "dashboard/palette.html"
    return render(request, template, {"choices": choices, "text": text})


def _commands(request: HttpRequest, text: str) -> Iterator[Choice]:
    """A verb and a part of a key, "pause invo": that verb for each job of it, for whoever may act."""
    verb, _space, rest = text.partition(" ")
    if not may_act(request.user) or len(verb) < LEAST_OF_A_VERB or not rest.strip():
        return
    for what, words in JOBS.what.items():
        if str(words).casefold().startswith(verb.casefold()) or what.startswith(verb.casefold()):
            for job in jobs_like(rest, condition=_MATTERS.get(what)):
                yield Choice(
                    _("Action"),
                    _("{verb}: {job_key} …").format(verb=words, job_key=job.job_key),
                    address("jobs-confirm", {"do": what, "id": job.pk}),
                )
            return


def _things(things: Found) -> Iterator[Choice]:
    for job in things.jobs:
        yield Choice(_("Job"), job.job_key, address("job", job_key=job.job_key))
    for run in things.runs:
        yield Choice(_("Run"), f"{run.pk} · {run.job.job_key}", address("run", run_id=run.pk))
    for runner in things.runners:
        yield Choice(_("Runner"), runner.runner_id, address("runner", runner_pk=runner.pk))
    for calendar in things.calendars:
        yield Choice(_("Calendar"), calendar.name, address("calendar", calendar_id=calendar.pk))


def _pages(request: HttpRequest, text: str) -> Iterator[Choice]:
    """The pages whose name has ``text`` in it; all of them where nothing is typed."""
    pages: list[tuple[Any, str]] = [(jump.words, jump.url) for jump in JUMPS]
    if may_act(request.user):
        pages.insert(0, (_("New job"), reverse("job-new")))
    pages.append((_("Change your password"), reverse("password")))
    if request.user.has_perm(CLIENTS):
        pages.append((_("API clients and keys"), reverse("settings-clients")))
    if request.user.has_perm(PEOPLE):
        pages += [(_("Users"), reverse("settings-users")), (_("Doctor"), reverse("settings-doctor"))]
    if request.user.is_staff:
        pages.append((_("Admin"), reverse("admin:index")))
    for words, url in pages:
        if text.casefold() in str(words).casefold():
            yield Choice(_("Page"), str(words), url)
