"""What the admin does to the rows that somebody ticks: by the services, each row for itself, and what one refuses is
told as refused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import NotFound
from runners.admin import ReadOnlyAdmin, actor_of
from runners.services.audit import Actor
from scheduler.dashboard.pages import ACT
from scheduler.dashboard.sentences import said
from scheduler.models import Job
from scheduler.services.bulk import one_by_one, pause_if_not, resume_if_paused
from scheduler.services.trigger_runs import trigger_run

MOST_AT_ONCE = 100
REFUSALS_TOLD = 5
Act = Callable[[Any, datetime, Actor], Any]


class ActingForm(ActionForm):
    """Beside the list of actions: why, where the action keeps a reason."""

    reason = forms.CharField(
        label=gettext_lazy("Reason (optional):"), required=False, widget=forms.TextInput(attrs={"maxlength": 255})
    )
    # Of a form that is sent twice the second finds the runs of the first.
    token = forms.CharField(label="", required=False, widget=forms.HiddenInput, initial=lambda: str(uuid4()))


class ActingAdmin(ReadOnlyAdmin):
    """Looked at like the rest of what the services write; whoever may act ticks rows and has a service act on them."""

    action_form = ActingForm

    def has_act_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(ACT)

    def act_on(
        self,
        request: HttpRequest,
        queryset: QuerySet,
        act: Act,
        done: Callable[[int], str],
        of: Callable[[list[Any]], Collection[Any]] = list,
    ) -> None:
        """Call ``act(row, now, actor)`` with each, which answers whether it changed anything.

        ``done`` words how many it changed; ``of``: what the rows stand for. More than `MOST_AT_ONCE` rows are too many:
        nothing is done to any."""
        ticked = list(queryset[: MOST_AT_ONCE + 1])
        chosen = of(ticked)
        if len(ticked) > MOST_AT_ONCE:
            words = _(
                "Nothing was done: here at most %(most)d rows at once. The dashboard’s lists act on all that match."
            )
            self.message_user(request, words % {"most": MOST_AT_ONCE}, messages.ERROR)
            return
        now, actor = DatabaseClock().now(), actor_of(request)
        result = one_by_one(chosen, lambda row: act(row, now, actor))
        number = len(result.changed)
        if number:
            self.message_user(request, done(number), messages.SUCCESS)
        same = len(chosen) - number - len(result.refused)
        if same:
            unchanged = ngettext("Nothing changed for %(same)d of them.", "Nothing changed for %(same)d of them.", same)
            self.message_user(request, unchanged % {"same": same}, messages.WARNING)
        for row, refusal in result.refused[:REFUSALS_TOLD]:
            self.message_user(request, f"{row}: {said(refusal.message)}", messages.ERROR)
        more = len(result.refused) - REFUSALS_TOLD
        if more > 0:
            words = ngettext("%(more)d more was refused.", "%(more)d more were refused.", more)
            self.message_user(request, words % {"more": more}, messages.ERROR)


class JobActions(ActingAdmin):
    """Pause, resume and run now, for the jobs of the rows. The admin's own list may be old: what a row says of its job
    only spares a call that changes nothing."""

    actions = ("pause", "resume", "run_now")

    @admin.action(description=gettext_lazy("Pause the selected jobs"), permissions=["act"])
    def pause(self, request: HttpRequest, queryset: QuerySet) -> None:
        reason = request.POST.get("reason", "").strip()

        def act(job: Job, now: datetime, actor: Actor) -> bool:
            _refuse_deleted(job)
            return job.paused_at is None and pause_if_not(job.job_key, now, actor=actor, reason=reason)

        self.act_on(
            request,
            queryset,
            act,
            lambda n: ngettext("%(n)d job is paused.", "%(n)d jobs are paused.", n) % {"n": n},
            _jobs_of,
        )

    @admin.action(description=gettext_lazy("Resume the selected jobs"), permissions=["act"])
    def resume(self, request: HttpRequest, queryset: QuerySet) -> None:
        def act(job: Job, now: datetime, actor: Actor) -> bool:
            _refuse_deleted(job)
            return job.paused_at is not None and resume_if_paused(job.job_key, now, actor=actor)

        self.act_on(
            request,
            queryset,
            act,
            lambda n: ngettext("%(n)d job goes on.", "%(n)d jobs go on.", n) % {"n": n},
            _jobs_of,
        )

    @admin.action(description=gettext_lazy("Run the selected jobs now"), permissions=["act"])
    def run_now(self, request: HttpRequest, queryset: QuerySet) -> None:
        token = request.POST.get("token", "")[:100]
        key = f"admin {token}" if token else None

        def act(job: Job, now: datetime, actor: Actor) -> bool:
            _refuse_deleted(job)
            made = trigger_run(job.job_key, now, idempotency_key=key, actor=actor)
            return not (made.deduplicated or made.coalesced)

        self.act_on(
            request,
            queryset,
            act,
            lambda n: ngettext("%(n)d run is made.", "%(n)d runs are made.", n) % {"n": n},
            _jobs_of,
        )


def _jobs_of(rows: list[Any]) -> Collection[Job]:
    jobs = (row if isinstance(row, Job) else row.job for row in rows)
    return {job.pk: job for job in jobs}.values()


def _refuse_deleted(job: Job) -> None:
    # Another job may have the key by now.
    if job.deleted_at is not None:
        raise NotFound(f"The job {job.job_key!r} is deleted.")
