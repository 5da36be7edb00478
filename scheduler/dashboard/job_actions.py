"""What a person does with one job beyond running and pausing it: leave its next fire out, make up for past ones, delete
it."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from croniq_site.kernel.errors import InvalidInput, NotFound
from croniq_site.kernel.text import is_printable_name
from scheduler.dashboard.pages import action, actor_of, address, form, or_message, viewers_instant
from scheduler.queries.jobs import job_of_key
from scheduler.services.backfill import Backfill, backfill
from scheduler.services.jobs import delete_job
from scheduler.services.skip import SkippedNext, skip_next

MOST_INSTANTS = 50


@action
def skip(request: HttpRequest, now: datetime, job_key: str) -> str:
    done: SkippedNext | None = or_message(request, lambda: skip_next(job_key, now, actor_of(request)))
    if done is not None:
        messages.success(
            request, f"The fire of {done.scheduled_for:%Y-%m-%d %H:%M:%S} UTC is left out. The one after it is not."
        )
    return address("job", job_key=job_key)


@action
def delete(request: HttpRequest, now: datetime, job_key: str) -> str:
    """The form says the key once more: what is deleted does not come back."""
    if request.POST.get("typed", "").strip() != job_key:
        raise InvalidInput.of("typed", f"Nothing was done: type {job_key} to say that you mean it.")
    if not or_message(request, lambda: delete_job(job_key, now, actor_of(request)) or True):
        return address("job", job_key=job_key)
    messages.success(request, f"{job_key} is deleted. Its runs and their logs stay.")
    return address("jobs")


@form
def backfill_page(request: HttpRequest, now: datetime, job_key: str) -> HttpResponse:
    """Say which runs a backfill of a range would make; make them where the form says that this was seen."""
    job = job_of_key(job_key) if is_printable_name(job_key) else None
    if job is None:
        raise NotFound(f"There is no job {job_key[:255]!r}.")
    values = request.POST if request.method == "POST" else request.GET
    texts = {"from": values.get("from", "").strip(), "until": values.get("until", "").strip()}
    errors: dict[str, str] = {}
    would: Backfill | None = None
    try:
        since, until = (viewers_instant(name, text) for name, text in texts.items())
        if since is not None and until is not None:
            would = or_message(request, lambda: backfill(job_key, since, until, now, actor_of(request), dry_run=True))
        elif any(texts.values()):
            raise InvalidInput.of("until" if since else "from", "A range has both ends.")
    except InvalidInput as refused:
        errors = {name: told[0] for name, told in refused.fields.items()}
    if request.method == "POST" and would is not None and since is not None and until is not None:
        if values.get("expected") == str(len(would.instants)):
            return _backfilled(request, job_key, since, until, now)
        messages.error(request, f"It would be {len(would.instants)} runs by now: nothing was done. Look again.")
    context = {
        "job": job,
        "texts": texts,
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
        messages.success(request, f"{made} run{'' if made == 1 else 's'} made, due now. {done.message}".strip())
    return HttpResponseRedirect(address("job", job_key=job_key))
