"""Runs and all that hangs on them, to look at: only the services write them. Runs are replayed and cancelled, letters
replayed and thrown away, many at once."""

from __future__ import annotations

from datetime import datetime

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext

from runners.admin import ReadOnlyAdmin
from runners.services.audit import Actor
from scheduler.admin.actions import ActingAdmin
from scheduler.admin.filters import Ended, Kind, SearchById, Since
from scheduler.admin.links import LinksToRun, link
from scheduler.models import (
    Attempt,
    DeadLetter,
    IdempotencyKey,
    Maintenance,
    QueueEntry,
    Run,
    RunLog,
    SkippedSpan,
    Slot,
    Tally,
)
from scheduler.services.cancel import cancel_runs
from scheduler.services.letters import delete_letter, replay_letter
from scheduler.services.planning import MOST_COUNTED
from scheduler.services.replays import replay_run


@admin.register(Run)
class RunAdmin(SearchById, ActingAdmin):
    actions = ("replay", "cancel")
    list_display = ("id", "job", "kind", "scheduled_for", "attempt", "verdict", "runner_id", "duration_ms", "page")
    list_select_related = ("job",)
    list_filter = (Ended, Kind, Since)
    search_fields = ("=id", "=job__job_key")
    ordering = ("-scheduled_for", "-id")
    readonly_fields = ("page",)

    @admin.display(description=gettext_lazy("Dashboard"))
    def page(self, run: Run) -> SafeString:
        return link("run", run_id=run.pk)

    @admin.action(description=gettext_lazy("Replay the selected runs"), permissions=["act"])
    def replay(self, request: HttpRequest, queryset: QuerySet) -> None:
        self.act_on(
            request,
            queryset,
            lambda run, now, actor: replay_run(run.pk, now, actor),
            lambda n: ngettext("%(n)d run is made.", "%(n)d runs are made.", n) % {"n": n},
        )

    @admin.action(description=gettext_lazy("Cancel the selected runs"), permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet) -> None:
        reason = request.POST.get("reason", "").strip()
        self.act_on(
            request,
            queryset,
            lambda run, now, actor: cancel_runs([run.pk], now, actor, reason),
            lambda n: ngettext("%(n)d run is cancelled.", "%(n)d runs are cancelled.", n) % {"n": n},
        )


@admin.register(Attempt)
class AttemptAdmin(SearchById, LinksToRun, ReadOnlyAdmin):
    id_column, job_column = "run_id", ""
    list_display = ("of_run", "attempt", "outcome", "cause", "runner_id", "claimed_at", "ended_at", "page")
    list_filter = ("outcome",)
    search_fields = ("=run__id",)
    search_help_text = gettext_lazy("The whole id of a run.")
    ordering = ("-id",)


@admin.register(QueueEntry)
class QueueEntryAdmin(SearchById, LinksToRun, ReadOnlyAdmin):
    id_column = "run_id"
    list_display = ("of_run", "job", "state", "available_at", "attempt", "holder", "lease_expires_at", "page")
    list_select_related = ("job", "holder")
    list_filter = ("state",)
    search_fields = ("=run__id", "=job__job_key")
    ordering = ("available_at", "run_id")


@admin.register(Slot)
class SlotAdmin(LinksToRun, ReadOnlyAdmin):
    list_display = ("budget", "n", "of_run", "admitted_at", "page")
    search_fields = ("budget",)
    ordering = ("budget", "n")


@admin.register(SkippedSpan)
class SkippedSpanAdmin(SearchById, ReadOnlyAdmin):
    id_column = ""
    list_display = ("job", "first_at", "last_at", "fires", "reason")
    list_select_related = ("job",)
    search_fields = ("=job__job_key",)
    search_help_text = gettext_lazy("The whole key of a job.")
    ordering = ("-id",)

    @admin.display(description=gettext_lazy("Fires"), ordering="count")
    def fires(self, span: SkippedSpan) -> str:
        return f"{'≥ ' if span.count == MOST_COUNTED else ''}{span.count:,}"


@admin.register(DeadLetter)
class DeadLetterAdmin(SearchById, ActingAdmin):
    actions = ("replay", "discard")
    list_display = ("id", "job", "dead_reason", "attempt", "scheduled_for", "created_at", "expires_at", "note", "page")
    list_select_related = ("job",)
    list_filter = (("expires_at", admin.EmptyFieldListFilter), ("note", admin.EmptyFieldListFilter))
    search_fields = ("=id", "=job__job_key")
    ordering = ("-created_at", "-id")
    readonly_fields = ("page",)

    @admin.display(description=gettext_lazy("Dashboard"))
    def page(self, letter: DeadLetter) -> SafeString:
        return link("letter", letter_id=letter.pk)

    @admin.action(description=gettext_lazy("Replay the selected letters"), permissions=["act"])
    def replay(self, request: HttpRequest, queryset: QuerySet) -> None:
        self.act_on(
            request,
            queryset,
            lambda letter, now, actor: replay_letter(letter.pk, now, actor).is_new,
            lambda n: ngettext("%(n)d run is made.", "%(n)d runs are made.", n) % {"n": n},
        )

    @admin.action(description=gettext_lazy("Throw the selected letters away (for good)"), permissions=["act"])
    def discard(self, request: HttpRequest, queryset: QuerySet) -> None:
        def act(letter: DeadLetter, now: datetime, actor: Actor) -> bool:
            delete_letter(letter.pk, now, actor)
            return True

        self.act_on(
            request,
            queryset,
            act,
            lambda n: ngettext("%(n)d letter is thrown away.", "%(n)d letters are thrown away.", n) % {"n": n},
        )


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(SearchById, LinksToRun, ReadOnlyAdmin):
    list_display = ("key", "job", "of_run", "created_at", "expires_at", "page")
    list_select_related = ("job",)
    id_column = "run_id"
    search_fields = ("=run__id", "=job__job_key")
    search_help_text = gettext_lazy("The whole id of a run, or the whole key of a job.")
    ordering = ("-id",)


@admin.register(RunLog)
class RunLogAdmin(SearchById, LinksToRun, ReadOnlyAdmin):
    id_column, job_column = "run_id", ""
    list_display = ("id", "of_run", "attempt", "logged_at", "level", "message_head", "page")
    search_fields = ("=run__id",)
    search_help_text = gettext_lazy("The whole id of a run.")
    ordering = ("-id",)

    @admin.display(description=gettext_lazy("Message"))
    def message_head(self, line: RunLog) -> str:
        return str(line)


@admin.register(Maintenance)
class MaintenanceAdmin(ReadOnlyAdmin):
    list_display = ("began_at", "until", "is_on", "reason", "skipped", "ended_at")
    list_filter = ("is_on",)
    search_fields = ("reason",)
    ordering = ("-id",)


@admin.register(Tally)
class TallyAdmin(ReadOnlyAdmin):
    list_display = ("kind", "label", "job_id", "count")
    list_filter = ("kind",)
    ordering = ("-id",)
