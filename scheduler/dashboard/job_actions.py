"""What a person does with one job beyond running and pausing it: leave its next fire out, make up for past ones, delete
it."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from croniq_site.kernel.errors import InvalidInput, NotFound
from croniq_site.kernel.text import is_printable_name
from scheduler.dashboard.pages import action, actor_of, address, form, or_message
from scheduler.dashboard.refusals import errors_of
from scheduler.dashboard.sentences import said
from scheduler.dashboard.times import full_text, viewers_zone
from scheduler.dashboard.typed_times import ZONE, time_in
from scheduler.queries.jobs import job_of_key
from scheduler.services.backfill import Backfill, backfill
from scheduler.services.jobs import delete_job
from scheduler.services.skip import SkippedNext, skip_next

MOST_INSTANTS = 50
RANGE = ("from", "until")


@action
def skip(request: HttpRequest, now: datetime, job_key: str) -> str:
    done: SkippedNext | None = or_message(request, lambda: skip_next(job_key, now, actor_of(request)))
    if done is not None:
        at = full_text(done.scheduled_for, viewers_zone(request.user))
        messages.success(request, _("The fire of {at} is left out. The one after it is not.").format(at=at))
    return address("job", job_key=job_key)


@action
def delete(request: HttpRequest, now: datetime, job_key: str) -> str:
    """The form says the key once more: what is deleted does not come back."""
    if request.POST.get("typed", "").strip() != job_key:
        words = _("Nothing was done: type {name} to say that you mean it.")
        raise InvalidInput.of("typed", words.format(name=job_key))
    if not or_message(request, lambda: delete_job(job_key, now, actor_of(request)) or True):
        return address("job", job_key=job_key)
    messages.success(request, _("{job_key} is deleted. Its runs and their logs stay.").format(job_key=job_key))
    return address("jobs")


@form
def backfill_page(request: HttpRequest, now: datetime, job_key: str) -> HttpResponse:
    """Say which runs a backfill of a range would make; make them where the form says that this was seen."""
    job = job_of_key(job_key) if is_printable_name(job_key) else None
    if job is None:
        raise NotFound(f"There is no job {job_key[:255]!r}.")
    values = request.POST if request.method == "POST" else request.GET
    since, until, errors = _range_in(request, values)
    would: Backfill | None = None
    if since is not None and until is not None:
        try:
            would = or_message(request, lambda: backfill(job_key, since, until, now, actor_of(request), dry_run=True))
        except InvalidInput as refused:
            errors = errors_of(refused)
    if request.method == "POST" and would is not None and since is not None and until is not None:
        if values.get("expected") == str(len(would.instants)):
            return _backfilled(request, job_key, since, until, now)
        number = len(would.instants)
        words = ngettext(
            "It would be {number} run by now: nothing was done. Look again.",
            "It would be {number} runs by now: nothing was done. Look again.",
            number,
        )
        messages.error(request, words.format(number=number))
    context = {
        "job": job,
        "texts": {name: values.get(name, "").strip() for name in RANGE},
        "zone": values.get(ZONE, ""),
        "errors": errors,
        "would": would,
        "instants": would.instants[:MOST_INSTANTS] if would is not None else (),
        "more": max(0, len(would.instants) - MOST_INSTANTS) if would is not None else 0,
    }
    return render(request, "dashboard/backfill.html", context, status=400 if errors else 200)


def _backfilled(request: HttpRequest, job_key: str, since: datetime, until: datetime, now: datetime) -> HttpResponse:
    done: Backfill | None = or_message(request, lambda: backfill(job_key, since, until, now, actor_of(request)))
    if done is not None:
        made = len(done.instants)
        words = ngettext("{number} run made, due now.", "{number} runs made, due now.", made).format(number=made)
        messages.success(request, " ".join([words, *map(said, done.reasons)]))
    return HttpResponseRedirect(address("job", job_key=job_key))


def _range_in(request: HttpRequest, values: QueryDict) -> tuple[datetime | None, datetime | None, dict[str, str]]:
    """Both ends of the range, and what is wrong by field; nothing is wrong with a form that is not filled in yet."""
    found: dict[str, datetime | None] = dict.fromkeys(RANGE)
    errors: dict[str, str] = {}
    for name in RANGE:
        try:
            found[name] = time_in(request, values, name)
        except InvalidInput as refused:
            errors |= errors_of(refused)
    since, until = found["from"], found["until"]
    if any(values.get(name, "").strip() for name in RANGE):
        errors |= {name: _("A range has both ends.") for name in RANGE if not (found[name] or name in errors)}
    if since is not None and until is not None and until < since:
        errors["until"] = _("A range ends after it begins.")
    return (since, until, {}) if not errors else (None, None, errors)
