"""Jobs, one job, and what a person does with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from calendars.domain.zones import load_zone
from croniq_site.kernel.errors import InvalidInput, NotFound
from croniq_site.kernel.text import is_printable_name
from scheduler.dashboard.bulk_jobs import JOBS, choice_of, query_of
from scheduler.dashboard.history import edits_of
from scheduler.dashboard.job_fields import read_json
from scheduler.dashboard.pages import (
    action,
    actor_of,
    address,
    live_answer,
    may_act,
    or_message,
    page,
    text_in,
)
from scheduler.dashboard.pausing import pause_in
from scheduler.dashboard.sparks import spark_of
from scheduler.dashboard.times import viewers_zone
from scheduler.dashboard.trend import chart_of
from scheduler.dashboard.words import choice_words, source_words
from scheduler.dashboard.year_strip import strip_of
from scheduler.domain.actions import action_text
from scheduler.models import Job
from scheduler.queries.job_choice import SOURCES, STATUSES, JobChoice
from scheduler.queries.job_record import records
from scheduler.queries.job_trend import LOOKED_AT, trend_of
from scheduler.queries.job_year import year_of
from scheduler.queries.overview import job_lines, job_story
from scheduler.queries.runs import RunFilter, run_list
from scheduler.queries.tags import tag_counts
from scheduler.queries.waiting_letters import letters_of_job
from scheduler.queries.waits import Taker, lack_of_takers, notes_of, takers_online
from scheduler.services.pause import pause_job, resume_job
from scheduler.services.trigger_runs import trigger_run
from scheduler.sql.recent import recent_runs

PAGE_ROWS = 100
LAST_RUNS = 15
MOST_LETTERS = 5
MOST_TAGS = 30


@dataclass(frozen=True)
class Rules:
    """What a job's page says about how it runs. ``command`` is what is executed, without its environment."""

    command: str
    retries: str
    lease_seconds: float
    timeout_seconds: float
    require: str
    prefer: str
    pin: str


@page
def job_list_page(request: HttpRequest, now: datetime) -> HttpResponse:
    choice, after = choice_of(request.GET), text_in(request, "after")
    lines = job_lines(now, choice, limit=PAGE_ROWS + 1, after=after)
    chosen = query_of(choice)
    more = address("jobs", {**chosen, "after": lines[PAGE_ROWS - 1].job_key}) if len(lines) > PAGE_ROWS else ""
    lines = lines[:PAGE_ROWS]
    found = records([line.id for line in lines], now)
    viewer = viewers_zone(request.user)
    sparks = {job_id: spark_of(record, viewer) for job_id, record in found.items()}
    context = {
        "jobs": [(line, sparks.get(line.id)) for line in lines],
        "choice": choice,
        "is_chosen": bool(chosen),
        "after": after,
        "more": more,
        "may_act": may_act(request.user),
    }
    if not request.htmx:
        context |= {
            "tags": _tag_chips(choice),
            "statuses": STATUSES,
            "sources": [(source, source_words(source)) for source in SOURCES],
            "what": JOBS.what,
            "carried": JOBS.carried(request, request.GET),
        }
    shown = lines, [(spark.drawing, spark.success, spark.p95_ms) for spark in sparks.values()], more
    return live_answer(request, "dashboard/jobs.html", "dashboard/_jobs.html", context, shown)


@page
def job_page(request: HttpRequest, now: datetime, job_key: str) -> HttpResponse:
    story = job_story(job_key, now) if is_printable_name(job_key) else None
    if story is None:
        raise NotFound(f"There is no job {job_key[:255]!r}.")
    job, line = story.job, story.line
    recent = recent_runs([job.pk], now, LOOKED_AT).get(job.pk, [])
    trend, year = trend_of(recent), year_of(job.pk, _sound_zone(line.zone), now)
    letters, waiting = letters_of_job(job.pk, MOST_LETTERS)
    runs, takers = run_list(now, RunFilter(job_ids=(job.pk,)), LAST_RUNS), takers_online(now)
    context = {
        "job": line,
        "rules": _rules(job),
        "ahead": story.ahead,
        "cannot": _lacks(job, takers) if line.status != "inactive" else (),
        "first": next((item for item in story.ahead if not (item.is_blocked or item.is_skipped)), None),
        "strip": None if year.is_empty else strip_of(year),
        "year": year,
        "trend": None if trend is None else chart_of(trend),
        "letters": letters,
        "letters_waiting": waiting,
        "letters_more": waiting - len(letters),
        "zones": {job_key: line.zone},
        "runs": runs,
        "notes": notes_of(runs, now, takers),
        "edits": edits_of(job),
        "may_act": may_act(request.user),
        # Of a form that is sent twice the second finds the first one's run.
        "token": str(uuid4()),
    }
    return render(request, "dashboard/job.html", context)


@action
def run_now(request: HttpRequest, now: datetime, job_key: str) -> str:
    key = request.POST.get("token", "")[:100]
    metadata = read_json("metadata", request.POST.get("metadata", ""))
    made = or_message(
        request,
        lambda: trigger_run(
            job_key, now, metadata=metadata, idempotency_key=f"page {key}" if key else None, actor=actor_of(request)
        ),
    )
    return address("job", job_key=job_key) if made is None else address("run", run_id=made.run_id)


@action
def pause(request: HttpRequest, now: datetime, job_key: str) -> str:
    said = pause_in(request, now)
    done = or_message(request, lambda: pause_job(job_key, now, actor=actor_of(request), **said))
    if done is not None:
        messages.success(
            request,
            _("Paused. What falls due from now on does not run, and is recorded as skipped when the pause ends."),
        )
    return address("job", job_key=job_key)


@action
def resume(request: HttpRequest, now: datetime, job_key: str) -> str:
    if or_message(request, lambda: resume_job(job_key, now, actor=actor_of(request))) is not None:
        messages.success(request, _("Resumed. What fell due meanwhile is recorded as skipped."))
    return address("job", job_key=job_key)


def _tag_chips(choice: JobChoice) -> list[tuple[str, int, str, bool]]:
    """The most frequent tags, by name: the tag, its jobs, the address that chooses it (or no longer does), whether it
    is chosen."""
    counts = sorted(tag_counts(), key=lambda tag: (tag[0] != choice.tag, -tag[1], tag[0]))[:MOST_TAGS]
    return [
        (
            tag,
            number,
            address("jobs", query_of(replace(choice, tag="" if tag == choice.tag else tag))),
            tag == choice.tag,
        )
        for tag, number in sorted(counts)
    ]


def _lacks(job: Job, takers: Sequence[Taker]) -> list[str]:
    """Why no runner that is online takes a run of the job, in sentences; none where one does."""
    reasons = lack_of_takers(job.tenant, job.lane.require, job.lane.prefer, takers, is_due=False)
    return [reason.message for reason in reasons]


def _sound_zone(zone: str) -> str:
    """The zone whose days a job's year has; UTC where its schedule says nonsense."""
    try:
        return load_zone(zone).name if zone else "UTC"
    except InvalidInput:
        return "UTC"


def _rules(job: Job) -> Rules:
    return Rules(
        command=action_text(job.action),
        retries=_retries(job),
        lease_seconds=job.lease_seconds,
        timeout_seconds=job.timeout_seconds,
        require=", ".join(job.require),
        prefer=", ".join(job.prefer),
        pin=job.pin,
    )


def _retries(job: Job) -> str:
    if job.max_retries == 0:
        return "none: a failure ends the run"
    return _("up to {number}, {strategy} back-off from {seconds:g} s").format(
        number=job.max_retries, strategy=choice_words(job.retry_strategy), seconds=job.retry_base_seconds
    )
