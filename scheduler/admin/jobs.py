"""Jobs, their triggers and what limits them, to look at. They are changed by the API and on their page."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from runners.admin import ReadOnlyAdmin
from scheduler.models import ConcurrencyGroup, Job, Lane, Trigger


def page_of(job: Job) -> SafeString | str:
    if job.deleted_at is not None:
        return "deleted"
    return format_html('<a href="{}">{}</a>', reverse("job", kwargs={"job_key": job.job_key}), "Open its page")


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ("job_key", "tenant", "is_active", "paused_at", "managed_by", "updated_at", "page")
    list_filter = ("is_active", ("deleted_at", admin.EmptyFieldListFilter))
    search_fields = ("job_key", "description")
    ordering = ("job_key", "id")
    readonly_fields = ("page",)

    @admin.display(description="Page")
    def page(self, job: Job) -> SafeString | str:
        return page_of(job)


@admin.register(Trigger)
class TriggerAdmin(ReadOnlyAdmin):
    list_display = ("job", "kind", "schedule", "timezone", "calendar", "enabled", "next_materialize_at", "page")
    list_select_related = ("job", "calendar")
    list_filter = ("kind", "enabled")
    search_fields = ("job__job_key", "cron_expression")
    ordering = ("job__job_key", "id")
    readonly_fields = ("page",)

    @admin.display(description="Schedule")
    def schedule(self, trigger: Trigger) -> str:
        return trigger.cron_expression or str(trigger.every or trigger.run_at)

    @admin.display(description="Page")
    def page(self, trigger: Trigger) -> SafeString | str:
        return page_of(trigger.job)


@admin.register(Lane)
class LaneAdmin(ReadOnlyAdmin):
    list_display = ("id", "tenant", "require", "prefer", "priority")
    search_fields = ("tenant",)
    ordering = ("tenant", "-priority", "id")


@admin.register(ConcurrencyGroup)
class ConcurrencyGroupAdmin(ReadOnlyAdmin):
    list_display = ("name", "tenant", "max_concurrent")
    search_fields = ("name",)
    ordering = ("tenant", "name")
