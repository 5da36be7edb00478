"""What a person does to many jobs: chosen one by one, or all that a view of the list matches.

The form that does it carries the ids of the jobs that were shown, and how many they are: where one of them is meant no
more by then, nothing is done; what came to match since is not meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import cleaned
from runners.services.audit import Actor
from scheduler.dashboard.bulk import SHOWN, Asked, Bulk, confirm, do
from scheduler.dashboard.pages import TEXT_MOST_BYTES, action, actor_of, page
from scheduler.dashboard.pausing import pause_in
from scheduler.domain.inputs import names_of
from scheduler.models import Job
from scheduler.queries.bulk import MOST, Matches, first_jobs
from scheduler.queries.job_choice import JobChoice, chosen_jobs
from scheduler.services.bulk import Done, one_by_one, pause_if_not, resume_if_paused, retag_job
from scheduler.services.jobs import delete_job
from scheduler.services.trigger_runs import trigger_run


class Jobs(Bulk):
    what = {
        "pause": gettext_lazy("Pause"),
        "resume": gettext_lazy("Resume"),
        "run": gettext_lazy("Run now"),
        "tag": pgettext_lazy("verb", "Tag"),
        "delete": gettext_lazy("Delete"),
    }
    things = gettext_lazy("Jobs")
    back_words = gettext_lazy("Back to the jobs")
    list_page, form_page = "jobs", "jobs-bulk"
    template = "dashboard/jobs_confirm.html"

    def id_of(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise ValueError
        return int(text)

    def carried(self, request: HttpRequest, values: QueryDict) -> dict[str, str]:
        after = cleaned(values.get("after", "").strip(), TEXT_MOST_BYTES)
        return {**query_of(choice_of(values)), **({"after": after} if after else {})}

    def look(self, asked: Asked) -> tuple[Matches, dict[str, Any]]:
        rows = list(self._rows(asked).values_list("pk", "job_key")[: MOST + 1])
        matches = Matches([key for _pk, key in rows[:MOST]], len(rows) > MOST)
        return matches, {
            "ids": ",".join(str(pk) for pk, _key in rows[:MOST]),
            "shown": matches.ids[:SHOWN],
            "others": _chosen(asked).count() - len(matches.ids) if not matches.has_more else 0,
            "token": str(uuid4()),
        }

    def meant(self, asked: Asked) -> Matches:
        return first_jobs(self._rows(asked))

    def _rows(self, asked: Asked) -> QuerySet[Job]:
        jobs = _chosen(asked)
        if asked.what in ("pause", "resume"):
            # To which it makes a difference: what is paused is not paused again, and its reason stays.
            jobs = jobs.filter(paused_at__isnull=asked.what == "pause")
        return jobs

    def act(self, asked: Asked) -> Callable[[Sequence[Any]], Done]:
        act = _act(asked)
        return lambda keys: one_by_one(keys, act)

    def done_words(self, what: str, number: int) -> str:
        return _done(what, number).format(number=number)

    def left_words(self, what: str, number: int) -> str:
        words = ngettext("{number} job was so before.", "{number} jobs were so before.", number)
        return words.format(number=number)


JOBS = Jobs()


def choice_of(values: QueryDict) -> JobChoice:
    """The choice of an address or of a form."""
    names = ("q", "tag", "status", "source", "needs")
    return JobChoice(*(cleaned(values.get(name, "").strip(), TEXT_MOST_BYTES) for name in names))


def query_of(choice: JobChoice) -> dict[str, str]:
    texts = {"q": choice.text, "tag": choice.tag, "status": choice.status, "source": choice.source}
    texts["needs"] = choice.needs
    return {name: text for name, text in texts.items() if text}


@page
def confirm_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """What would be done to how many jobs, and the button that does it."""
    return confirm(JOBS, request, now)


@action
def do_to_many(request: HttpRequest, now: datetime) -> str:
    return do(JOBS, request, now)


def _chosen(asked: Asked) -> QuerySet[Job]:
    return chosen_jobs(choice_of(asked.values), asked.now, asked.ids)


def _act(asked: Asked) -> Callable[[str], Any]:
    form, now, actor = asked.values, asked.now, actor_of(asked.request)
    if asked.what == "pause":
        pause = pause_in(asked.request, now)
        return lambda key: pause_if_not(key, now, actor=actor, **pause)
    if asked.what == "resume":
        return lambda key: resume_if_paused(key, now, actor=actor)
    if asked.what == "run":
        token = form.get("token", "")[:100]
        return lambda key: trigger_run(key, now, idempotency_key=f"page {token}" if token else None, actor=actor)
    if asked.what == "tag":
        add, remove = (set(names_of(name, _listed(form.get(name, "")))) for name in ("add", "remove"))
        if not add | remove or add & remove:
            raise InvalidInput.of("add", _("Say which tags to add or to take away, and none as both."))
        return lambda key: retag_job(key, add, remove, now, actor)
    return lambda key: _delete(key, now, actor)


def _delete(job_key: str, now: datetime, actor: Actor) -> bool:
    delete_job(job_key, now, actor)
    return True


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _done(what: str, number: int) -> str:
    if what == "pause":
        return ngettext("{number} job paused.", "{number} jobs paused.", number)
    if what == "resume":
        return ngettext("{number} job resumed.", "{number} jobs resumed.", number)
    if what == "run":
        return ngettext("{number} job started.", "{number} jobs started.", number)
    if what == "tag":
        return ngettext("{number} job tagged.", "{number} jobs tagged.", number)
    return ngettext("{number} job deleted.", "{number} jobs deleted.", number)
