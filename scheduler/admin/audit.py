"""The audit in the admin: to look at, and to take edits back. Nothing of it can be changed."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy, ngettext

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import CroniqError
from runners.admin import AuditEventAdmin, actor_of
from runners.models import AuditEvent
from scheduler.dashboard.sentences import said
from scheduler.services.revert import revert

MOST_REVERTED = 20


@admin.register(AuditEvent)
class RevertingAuditEventAdmin(AuditEventAdmin):
    actions = ("take_back",)

    @admin.action(description=gettext_lazy("Take back the selected edits"), permissions=["take_back"])
    def take_back(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> None:
        """Newest first, each for itself: what is refused (edited since, no edit at all) keeps no other from going."""
        now, done = DatabaseClock().now(), 0
        for event in queryset.order_by("-pk")[:MOST_REVERTED]:
            try:
                revert(event.event_id, event.history, now, actor_of(request))
                done += 1
            except CroniqError as refused:
                self.message_user(request, f"{event}: {said(refused.message)}", messages.ERROR)
        if done:
            words = ngettext("%(n)d edit taken back.", "%(n)d edits taken back.", done)
            self.message_user(request, words % {"n": done})

    def has_take_back_permission(self, request: HttpRequest) -> bool:
        # It reaches jobs with what they execute, calendars and groups: whoever administers all of them.
        return request.user.is_superuser
