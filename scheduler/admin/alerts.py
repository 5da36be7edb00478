"""Alerts in the admin: to look at, and to try a channel. Secrets and paths of webhooks are not shown."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy, ngettext

from croniq_site.kernel.clock import DatabaseClock
from runners.admin import ReadOnlyAdmin, actor_of
from scheduler.domain.alerts import shown_target
from scheduler.models import Alert, AlertChannel, AlertExemption, AlertRoute, AlertRule
from scheduler.queries.alerts import channel_names
from scheduler.services.alerts.definitions import check_channel


@admin.register(AlertChannel)
class AlertChannelAdmin(ReadOnlyAdmin):
    list_display = ("name", "tenant", "kind", "shown", "created_at", "deleted_at")
    search_fields = ("name",)
    ordering = ("name", "id")
    fields = ("name", "tenant", "kind", "shown", "created_at", "deleted_at")
    readonly_fields = ("shown",)
    actions = ("send_test",)

    @admin.display(description=gettext_lazy("Target"))
    def shown(self, channel: AlertChannel) -> str:
        return shown_target(channel.target)

    @admin.action(description=gettext_lazy("Send a test over the selected channels"), permissions=["test"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[AlertChannel]) -> None:
        live = list(queryset.filter(deleted_at__isnull=True).values_list("pk", flat=True))
        for channel_id in live:
            check_channel(channel_id, DatabaseClock().now(), actor_of(request), None)
        words = ngettext(
            "%(n)d test is on its way; the alerts tell what becomes of it.",
            "%(n)d tests are on their way; the alerts tell what becomes of them.",
            len(live),
        )
        self.message_user(request, words % {"n": len(live)})

    def has_test_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("scheduler.change_alertchannel")


@admin.register(AlertRule)
class AlertRuleAdmin(ReadOnlyAdmin):
    list_display = ("name", "tenant", "kind", "told", "job_glob", "throttle_seconds", "grace_seconds", "deleted_at")
    readonly_fields = ("told",)
    list_filter = ("kind",)
    search_fields = ("name",)
    ordering = ("name", "id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertRule]:
        return super().get_queryset(request).prefetch_related("routes__channel")

    @admin.display(description=gettext_lazy("Channels"))
    def told(self, rule: AlertRule) -> str:
        return ", ".join(channel_names(rule))


@admin.register(AlertRoute)
class AlertRouteAdmin(ReadOnlyAdmin):
    list_display = ("rule", "channel")
    list_select_related = ("rule", "channel")
    ordering = ("-id",)


@admin.register(AlertExemption)
class AlertExemptionAdmin(ReadOnlyAdmin):
    list_display = ("effect", "tenant", "rule", "job_glob", "note", "created_by", "created_at", "until", "ended_at")
    list_select_related = ("rule",)
    list_filter = ("effect",)
    ordering = ("-id",)


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "event", "job_key", "rule", "channel", "state", "attempt", "next_at", "error")
    list_select_related = ("rule", "channel")
    list_filter = ("state", "event")
    search_fields = ("=job_key",)
    ordering = ("-id",)
