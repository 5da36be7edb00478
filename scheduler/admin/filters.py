"""Filters and searches of the admin that find their rows by an index, also among two million runs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from croniq_site.kernel.clock import DatabaseClock
from runners.admin import BoundedSearch
from scheduler.models import Job, QueueEntry, Run

REACH = 100_000
"""What has no index of its own is looked for among so many of the newest runs."""
MOST_JOBS = 20
"""Of jobs that had the same key, one after the other."""


class SearchById(BoundedSearch):
    """A search for one id, or for one job's key; nothing else, for nothing else has an index."""

    id_column = "pk"
    job_column = "job"
    search_help_text = _("A whole id, or the whole key of a job.")

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        term = search_term.strip()
        if not term or self.is_too_long(request, term):
            return (queryset.none() if term else queryset), False
        if self.id_column:
            with suppress(ValueError):
                return queryset.filter(**{self.id_column: UUID(term)}), False
        if not self.job_column:
            return queryset.none(), False
        # Their numbers, not their keys: by one number the rows come in order out of an index.
        jobs = list(Job.objects.filter(job_key=term).order_by("-pk").values_list("pk", flat=True)[:MOST_JOBS])
        return queryset.filter(**{f"{self.job_column}__in": jobs}), False


class Ended(admin.SimpleListFilter):
    title = _("how it ended")
    parameter_name = "ended"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> Iterable[tuple[str, Any]]:
        return [
            ("unfinished", pgettext_lazy("run", "not yet")),
            ("completed", pgettext_lazy("run", "completed")),
            ("failed", pgettext_lazy("run", "failed")),
            ("dead", pgettext_lazy("run", "dead")),
            ("cancelled", pgettext_lazy("run", "cancelled")),
            ("skipped", pgettext_lazy("run", "skipped")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        value = self.value()
        if value == "unfinished":
            # Few of many, and what is unfinished is in the queue.
            return queryset.filter(pk__in=QueueEntry.objects.values("pk"), verdict__isnull=True)
        if value == Run.Verdict.COMPLETED:
            return queryset.filter(verdict=value)
        return queryset.filter(problem=value) if value else queryset


class Kind(admin.SimpleListFilter):
    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> Iterable[tuple[str, Any]]:
        return [
            ("scheduled", pgettext_lazy("run", "scheduled")),
            ("triggered", pgettext_lazy("run", "triggered")),
            ("replay", pgettext_lazy("run", "replay")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        value = self.value()
        if value is None:
            return queryset
        newest = Run.objects.order_by("-scheduled_for", "-id").values_list("scheduled_for", flat=True)
        oldest = newest[REACH : REACH + 1].first()
        within = {} if oldest is None else {"scheduled_for__gte": oldest}
        return queryset.filter(kind=value, **within)


class Since(admin.SimpleListFilter):
    """Of runs by what they were scheduled for, so that those that are planned are in no window."""

    title = _("time")
    parameter_name = "since"
    SPANS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7), "31d": timedelta(days=31)}

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> Iterable[tuple[str, Any]]:
        return [
            ("1h", _("the last hour")),
            ("24h", _("the last 24 hours")),
            ("7d", _("the last 7 days")),
            ("31d", _("the last 31 days")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        span = self.SPANS.get(self.value() or "")
        if span is None:
            return queryset
        now = DatabaseClock().now()
        return queryset.filter(scheduled_for__gt=now - span, scheduled_for__lte=now)
