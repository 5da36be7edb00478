"""What a person does to many jobs: chosen one by one, or all that a view of the list matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from croniq_site.kernel.errors import Conflict, InvalidInput
from croniq_site.kernel.text import cleaned
from scheduler.dashboard.pages import (
    TEXT_MOST_BYTES,
    action,
    actor_of,
    address,
    may_act,
    or_message,
    page,
    viewers_instant,
)
from scheduler.dashboard.sentences import said
from scheduler.domain.inputs import names_of, text_of
from scheduler.models import Job
from scheduler.queries.bulk import MOST, first_jobs
from scheduler.queries.job_choice import JobChoice, chosen_jobs
from scheduler.services.bulk import Done, one_by_one, retag_job
from scheduler.services.jobs import delete_job
from scheduler.services.pause import pause_job, resume_job
from scheduler.services.trigger_runs import trigger_run

TYPED_ABOVE = 100
"""What is done to more jobs asks for their number to be typed."""
MOST_CHOSEN = 500
SHOWN = 20
REFUSALS_TOLD = 5

WHAT = {
    "pause": gettext_lazy("Pause"),
    "resume": gettext_lazy("Resume"),
    "run": gettext_lazy("Run now"),
    "tag": pgettext_lazy("verb", "Tag"),
    "delete": gettext_lazy("Delete"),
}


@dataclass(frozen=True)
class Meant:
    """What is to be done, and to which jobs: to ``job_ids``, or (None) to all of a choice."""

    what: str
    choice: JobChoice
    job_ids: tuple[int, ...] | None
    now: datetime

    @property
    def chosen(self) -> QuerySet[Job]:
        return chosen_jobs(self.choice, self.now, self.job_ids)

    @property
    def jobs(self) -> QuerySet[Job]:
        """Those to which it makes a difference: what is paused is not paused again, and its reason stays."""
        jobs = self.chosen
        return jobs.filter(paused_at__isnull=self.what == "pause") if self.what in ("pause", "resume") else jobs


def choice_of(values: QueryDict) -> JobChoice:
    """The choice of an address or of a form."""
    texts = {name: cleaned(values.get(name, "").strip(), TEXT_MOST_BYTES) for name in ("q", "tag", "status", "source")}
    return JobChoice(texts["q"], texts["tag"], texts["status"], texts["source"])


def query_of(choice: JobChoice) -> dict[str, str]:
    texts = {"q": choice.text, "tag": choice.tag, "status": choice.status, "source": choice.source}
    return {name: text for name, text in texts.items() if text}


@page
def confirm_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """What would be done to how many jobs, and the button that does it."""
    meant = _meant(request.GET, now)
    matches = first_jobs(meant.jobs)
    context = {
        "what": meant.what,
        "verb": WHAT[meant.what],
        "choice": meant.choice,
        "ids": meant.job_ids,
        "is_all": meant.job_ids is None,
        "total": len(matches.ids),
        "has_more": matches.has_more,
        "most": MOST,
        "shown": matches.ids[:SHOWN],
        "left_out": len(matches.ids) - SHOWN,
        "others": meant.chosen.count() - len(matches.ids) if not matches.has_more else 0,
        "is_typed": len(matches.ids) > TYPED_ABOVE,
        "back": address("jobs", query_of(meant.choice)),
        "may_act": may_act(request.user),
        "token": str(uuid4()),
    }
    return render(request, "dashboard/jobs_confirm.html", context)


@action
def do_to_many(request: HttpRequest, now: datetime) -> str:
    form = request.POST
    meant = _meant(form, now)
    back = address("jobs", query_of(meant.choice))
    expected = form.get("expected", "")
    if not (expected.isascii() and expected.isdigit() and len(expected) < 10):
        raise InvalidInput.of("expected", "This is the number of jobs that were shown.")
    if int(expected) > TYPED_ABOVE and form.get("typed", "").strip() != expected:
        raise InvalidInput.of("typed", f"Nothing was done: type {expected} to say that you mean all of them.")
    act = _act(request, meant.what, now)
    done: Done | None = or_message(request, lambda: _do(meant, int(expected), act))
    if done is not None:
        _tell(request, meant.what, done)
    return back


def _meant(values: QueryDict, now: datetime) -> Meant:
    what = values.get("do", "")
    if what not in WHAT:
        raise InvalidInput.of("do", f"What is done is one of {', '.join(WHAT)}.")
    ids = values.getlist("id")
    if values.get("all") == "1":
        return Meant(what, choice_of(values), None, now)
    if len(ids) > MOST_CHOSEN or not all(text.isascii() and text.isdigit() and len(text) <= 18 for text in ids):
        raise InvalidInput.of("id", f"Choose at most {MOST_CHOSEN} jobs of the list.")
    if not ids:
        raise InvalidInput.of("id", "No job was chosen: tick some, or do it to all that match.")
    return Meant(what, choice_of(values), tuple(map(int, ids)), now)


def _do(meant: Meant, expected: int, act: Callable[[str], Any]) -> Done:
    matches = first_jobs(meant.jobs)
    if len(matches.ids) != expected:
        raise Conflict(
            f"{len(matches.ids)} jobs match by now, not {expected}: nothing was done. Look again.", code="count_changed"
        )
    return one_by_one(matches.ids, act)


def _act(request: HttpRequest, what: str, now: datetime) -> Callable[[str], Any]:
    form, actor = request.POST, actor_of(request)
    if what == "pause":
        reason = text_of("reason", form.get("reason", "").strip(), most=255)
        until = viewers_instant("until", form.get("until", ""))
        if until is not None and until <= now:
            raise InvalidInput.of("until", "A pause ends after it begins.")
        return lambda key: pause_job(key, now, actor=actor, reason=reason, until=until)
    if what == "resume":
        return lambda key: resume_job(key, now, actor=actor)
    if what == "run":
        token = form.get("token", "")[:100]
        return lambda key: trigger_run(key, now, idempotency_key=f"page {token}" if token else None, actor=actor)
    if what == "tag":
        add, remove = (set(names_of(name, _listed(form.get(name, "")))) for name in ("add", "remove"))
        if not add | remove or add & remove:
            raise InvalidInput.of("add", "Say which tags to add or to take away, and none as both.")
        return lambda key: retag_job(key, add, remove, now, actor)
    return lambda key: _delete(key, now, actor)


def _delete(job_key: str, now: datetime, actor: Any) -> bool:
    delete_job(job_key, now, actor)
    return True


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _tell(request: HttpRequest, what: str, done: Done) -> None:
    number = len(done.changed)
    if number or not done.refused:
        messages.success(request, _done(what, number) % {"n": number})
    for job_key, refusal in done.refused[:REFUSALS_TOLD]:
        messages.error(request, f"{job_key}: {said(refusal.message)}")
    if len(done.refused) > REFUSALS_TOLD:
        more = len(done.refused) - REFUSALS_TOLD
        messages.error(request, ngettext("%(n)d more was refused.", "%(n)d more were refused.", more) % {"n": more})


def _done(what: str, number: int) -> str:
    if what == "pause":
        return ngettext("%(n)d job paused.", "%(n)d jobs paused.", number)
    if what == "resume":
        return ngettext("%(n)d job resumed.", "%(n)d jobs resumed.", number)
    if what == "run":
        return ngettext("%(n)d job started.", "%(n)d jobs started.", number)
    if what == "tag":
        return ngettext("%(n)d job tagged.", "%(n)d jobs tagged.", number)
    return ngettext("%(n)d job deleted.", "%(n)d jobs deleted.", number)
