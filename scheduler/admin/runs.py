"""Runs and all that hangs on them, to look at: only the services write them."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from runners.admin import ReadOnlyAdmin
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
from scheduler.services.planning import MOST_COUNTED


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("id", "job", "kind", "scheduled_for", "attempt", "verdict", "runner_id", "duration_ms", "page")
    list_select_related = ("job",)
    list_filter = ("kind", "verdict")
    search_fields = ("=id", "=job__job_key")
    ordering = ("-scheduled_for", "-id")
    readonly_fields = ("page",)

    @admin.display(description="Page")
    def page(self, run: Run) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("run", kwargs={"run_id": run.pk}), "Open its page")


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ("run_id", "attempt", "outcome", "cause", "runner_id", "claimed_at", "ended_at")
    list_filter = ("outcome",)
    search_fields = ("=run__id",)
    ordering = ("-id",)


@admin.register(QueueEntry)
class QueueEntryAdmin(ReadOnlyAdmin):
    list_display = ("run_id", "job", "state", "available_at", "attempt", "holder", "lease_expires_at")
    list_select_related = ("job", "holder")
    list_filter = ("state",)
    search_fields = ("=run__id", "=job__job_key")
    ordering = ("available_at", "run_id")


@admin.register(Slot)
class SlotAdmin(ReadOnlyAdmin):
    list_display = ("budget", "n", "run_id")
    search_fields = ("budget",)
    ordering = ("budget", "n")


@admin.register(SkippedSpan)
class SkippedSpanAdmin(ReadOnlyAdmin):
    list_display = ("job", "first_at", "last_at", "fires", "reason")
    list_select_related = ("job",)
    search_fields = ("=job__job_key",)
    ordering = ("-id",)

    @admin.display(description="Fires", ordering="count")
    def fires(self, span: SkippedSpan) -> str:
        return f"{'≥ ' if span.count == MOST_COUNTED else ''}{span.count:,}"


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = ("id", "job", "dead_reason", "attempt", "scheduled_for", "created_at", "expires_at")
    list_select_related = ("job",)
    search_fields = ("=id", "=job__job_key")
    ordering = ("-created_at", "-id")


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin):
    list_display = ("key", "job", "run_id", "created_at", "expires_at")
    list_select_related = ("job",)
    search_fields = ("=key", "=job__job_key")
    ordering = ("-id",)


@admin.register(RunLog)
class RunLogAdmin(ReadOnlyAdmin):
    list_display = ("id", "run_id", "attempt", "logged_at", "level", "message_head")
    search_fields = ("=run__id",)
    ordering = ("-id",)

    @admin.display(description="Message")
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
