"""Jobs, their triggers and what limits them. They are edited by the API and on their page; here they are paused,
resumed, run and switched, many at once."""

from __future__ import annotations

from datetime import datetime

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, ngettext

from runners.admin import ReadOnlyAdmin
from runners.services.audit import Actor
from scheduler.admin.actions import JobActions
from scheduler.admin.links import page_of
from scheduler.models import ConcurrencyGroup, Job, Lane, Trigger
from scheduler.services.triggers import save_trigger


@admin.register(Job)
class JobAdmin(JobActions):
    list_display = ("job_key", "tenant", "is_active", "paused_at", "paused_reason", "managed_by", "updated_at", "page")
    list_filter = (
        "is_active",
        ("paused_at", admin.EmptyFieldListFilter),
        "managed_by",
        ("deleted_at", admin.EmptyFieldListFilter),
    )
    search_fields = ("job_key", "description")
    ordering = ("job_key", "id")
    readonly_fields = ("page",)

    @admin.display(description=gettext_lazy("Dashboard"))
    def page(self, job: Job) -> SafeString | str:
        return page_of(job)


@admin.register(Trigger)
class TriggerAdmin(JobActions):
    """With what is done to jobs: each job of the ticked triggers once."""

    actions = (*JobActions.actions, "switch_off", "switch_on")
    list_display = ("job", "kind", "schedule", "timezone", "calendar", "enabled", "next_materialize_at", "page")
    list_select_related = ("job", "calendar")
    list_filter = ("kind", "enabled", ("config_error", admin.EmptyFieldListFilter))
    search_fields = ("job__job_key", "cron_expression")
    ordering = ("job__job_key", "id")
    readonly_fields = ("page",)

    @admin.display(description=gettext_lazy("Schedule"))
    def schedule(self, trigger: Trigger) -> str:
        return trigger.cron_expression or str(trigger.every or trigger.run_at)

    @admin.display(description=gettext_lazy("Dashboard"))
    def page(self, trigger: Trigger) -> SafeString | str:
        return page_of(trigger.job)

    @admin.action(description=gettext_lazy("Switch the selected triggers off"), permissions=["act"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet) -> None:
        self.act_on(
            request,
            queryset,
            lambda trigger, now, actor: _switch(trigger, False, now, actor),
            lambda n: ngettext("%(n)d trigger is off.", "%(n)d triggers are off.", n) % {"n": n},
        )

    @admin.action(description=gettext_lazy("Switch the selected triggers on"), permissions=["act"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet) -> None:
        self.act_on(
            request,
            queryset,
            lambda trigger, now, actor: _switch(trigger, True, now, actor),
            lambda n: ngettext("%(n)d trigger is on.", "%(n)d triggers are on.", n) % {"n": n},
        )


@admin.register(Lane)
class LaneAdmin(ReadOnlyAdmin):
    list_display = ("id", "tenant", "require", "prefer", "priority")
    search_fields = ("tenant",)
    ordering = ("tenant", "-priority", "id")


@admin.register(ConcurrencyGroup)
class ConcurrencyGroupAdmin(ReadOnlyAdmin):
    list_display = ("name", "tenant", "max_concurrent", "managed_by")
    list_filter = ("tenant",)
    search_fields = ("name",)
    ordering = ("tenant", "name")


def _switch(trigger: Trigger, is_on: bool, now: datetime, actor: Actor) -> bool:
    if trigger.enabled == is_on:
        return False
    save_trigger(trigger.job, {"enabled": is_on}, now, actor=actor, trigger=trigger, managed_by="admin")
    return True
