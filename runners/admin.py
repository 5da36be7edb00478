"""API clients, keys, runners, processes and the audit in the admin. Only clients and keys change here, by services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.text import smart_split
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import CroniqError
from croniq_site.kernel.text import is_printable_name
from runners.domain.scopes import SCOPES
from runners.models import (
    ApiClient,
    ApiKey,
    AuditCut,
    Heartbeat,
    Outage,
    Preferences,
    Runner,
    RunnerInstance,
    SignInCount,
)
from runners.services.audit import Actor
from runners.services.clients import create_client, edit_client, revoke_keys

MOST_COUNTED = 10_000
MOST_WORDS = 50
MOST_SEARCHED = 1000


class BoundedPaginator(Paginator):
    """Counts to `MOST_COUNTED` and no further: a list of millions of rows opens as fast as a short one."""

    @cached_property
    def count(self) -> int:
        return self.object_list[:MOST_COUNTED].count()


class BoundedSearch:
    """Each word of a search is a level of its condition and a pattern: of both SQLite takes only so much."""

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        if self.is_too_long(request, search_term):
            return queryset.none(), False
        return super().get_search_results(request, queryset, search_term)

    def is_too_long(self, request: HttpRequest, term: str) -> bool:
        """Say whether a search is longer than any is, and tell whoever asks."""
        if len(term) <= MOST_SEARCHED and sum(1 for word in smart_split(term)) <= MOST_WORDS:
            return False
        words = _("A search has at most %(words)d words and %(characters)d characters.")
        messages.error(request, words % {"words": MOST_WORDS, "characters": MOST_SEARCHED})
        return True


class CroniqAdmin(BoundedSearch, admin.ModelAdmin):
    """A list that costs as many queries with a million rows as with one."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50


class ReadOnlyAdmin(CroniqAdmin):
    """To look at: these rows are written by the services alone."""

    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def actor_of(request: HttpRequest) -> Actor:
    return Actor("user", request.user.get_username())


def refused_page(request: HttpRequest, refusal: CroniqError) -> HttpResponseBase:
    return render(request, "refused.html", {"refusal": refusal}, status=refusal.status)


class ApiClientForm(forms.ModelForm):
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in sorted(SCOPES)], widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = ApiClient
        fields = ("name", "tenant", "scopes", "is_active")

    def clean_name(self) -> str:
        name = self.cleaned_data["name"]
        if not is_printable_name(name):
            raise ValidationError(_("A name has 1 to 255 printable characters."))
        return name

    def clean_tenant(self) -> str | None:
        # Empty is none at all: the client serves every tenant.
        return self.cleaned_data.get("tenant") or None


@admin.register(ApiClient)
class ApiClientAdmin(CroniqAdmin):
    """Who may call the API. Made, renamed, given scopes, switched off; never deleted: runners belong to it."""

    form = ApiClientForm
    list_display = ("name", "tenant", "is_active", "created_at")
    list_filter = ("is_active",)
    search_fields = ("name",)
    ordering = ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Iterable[str]:
        return ("is_active",) if obj is None else ("tenant",)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        # What is declared by the environment is shown; who sends its form all the same is told why it is not saved.
        is_managed = isinstance(obj, ApiClient) and obj.managed_by and request.method != "POST"
        return super().has_change_permission(request, obj) and not is_managed

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: ApiClient, form: ApiClientForm, change: bool) -> None:
        now, actor, values = DatabaseClock().now(), actor_of(request), form.cleaned_data
        if change:
            edit_client(
                obj.pk,
                now,
                name=values["name"],
                scopes=values["scopes"],
                is_active=values["is_active"],
                actor=actor,
            )
        else:
            obj.pk = create_client(values["name"], values["scopes"], now, tenant=values["tenant"], actor=actor).pk

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except CroniqError as refused:  # somebody was faster
            if refused.code == "managed_by_environment":
                return refused_page(request, refused)
            self.message_user(request, refused.message, messages.ERROR)
            return HttpResponseRedirect(reverse("admin:runners_apiclient_changelist"))


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys by their first characters; they can be revoked. `manage.py create_api_key` makes them."""

    actions = ("revoke",)
    list_display = ("prefix", "client", "created_at", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("client",)
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("prefix", "client__name")
    ordering = ("-id",)
    fields = ("prefix", "client", "created_at", "expires_at", "revoked_at", "last_used_at")

    @admin.action(description=gettext_lazy("Revoke the selected keys (for good)"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponseBase | None:
        ids = list(queryset.values_list("pk", flat=True))
        try:
            revoked = revoke_keys(ids, DatabaseClock().now(), actor=actor_of(request))
        except CroniqError as refused:
            return refused_page(request, refused)
        words = ngettext(
            "%(revoked)d of %(number)d selected keys were live and are revoked.",
            "%(revoked)d of %(number)d selected keys were live and are revoked.",
            revoked,
        )
        self.message_user(request, words % {"revoked": revoked, "number": len(ids)})
        return None

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("runners.change_apikey")


@admin.register(Runner)
class RunnerAdmin(ReadOnlyAdmin):
    list_display = ("runner_id", "client", "last_poll_at", "max_inflight", "takeovers", "drained_at")
    list_select_related = ("client",)
    search_fields = ("runner_id",)
    ordering = ("runner_id",)


@admin.register(RunnerInstance)
class RunnerInstanceAdmin(ReadOnlyAdmin):
    list_display = ("runner", "instance_id", "first_seen_at", "last_poll_at", "deposed_at")
    list_select_related = ("runner",)
    search_fields = ("runner__runner_id", "instance_id")
    ordering = ("-id",)


class AuditEventAdmin(ReadOnlyAdmin):
    """What happened, by whom. Registered by the scheduler, which knows how an edit is taken back."""

    list_display = ("created_at", "action", "target_type", "target_id", "actor_type", "actor_id", "tenant")
    search_fields = ("=action", "=target_id", "=actor_id")
    ordering = ("-created_at", "-id")


@admin.register(AuditCut)
class AuditCutAdmin(ReadOnlyAdmin):
    list_display = ("until",)


@admin.register(SignInCount)
class SignInCountAdmin(ReadOnlyAdmin):
    list_display = ("key", "attempts", "began_at", "refused_at")
    ordering = ("-began_at", "-id")


@admin.register(Preferences)
class PreferencesAdmin(ReadOnlyAdmin):
    list_display = ("user", "time_zone")
    list_select_related = ("user",)
    ordering = ("user",)


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    list_display = ("kind", "host", "pid", "started_at", "beat_at", "tick_at", "ended_at")
    list_filter = (("ended_at", admin.EmptyFieldListFilter),)
    ordering = ("-beat_at", "-id")


@admin.register(Outage)
class OutageAdmin(ReadOnlyAdmin):
    list_display = ("began_at", "ended_at")
    ordering = ("-began_at",)
