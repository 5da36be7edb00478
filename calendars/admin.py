"""Calendars in the admin, with their rules as rows below.

A save goes through the same services as the API's. The scheduler registers its own kind of `CalendarAdmin`, whose saves
plan the jobs again; calendars themselves know no jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse

from calendars.domain.errors import InvalidField
from calendars.domain.rules import WEEKDAYS, parse_rule
from calendars.models import Calendar, CalendarRule
from calendars.queries.specs import RULE_COLUMNS
from calendars.services import SavedCalendar, checked_calendar, delete_calendar, save_calendar
from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import CroniqError
from runners.admin import BoundedSearch
from runners.services.audit import Actor


class WordsField(forms.CharField):
    """A list of words or numbers, written with commas or spaces between them."""

    widget = forms.Textarea(attrs={"rows": 1, "cols": 24})

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value

    def to_python(self, value: Any) -> list[Any]:
        words = re.split(r"[\s,]+", super().to_python(value or ""))
        return [int(word) if re.fullmatch(r"-?\d{1,4}", word, re.ASCII) else word for word in words if word]


class CalendarRuleForm(forms.ModelForm):
    """One rule; what the pure rules refuse is shown at its field."""

    weekdays = forms.TypedMultipleChoiceField(
        choices=[(number, name.title()) for number, name in enumerate(WEEKDAYS, 1)],
        coerce=int,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    month_days = WordsField(required=False, help_text="1 to 31; -1 is the last")
    yearly_dates = WordsField(required=False, help_text="MM-DD")
    dates = WordsField(required=False, help_text="YYYY-MM-DD")
    holiday_categories = WordsField(required=False, help_text="empty: public holidays")

    class Meta:
        model = CalendarRule
        fields = RULE_COLUMNS

    def values(self) -> dict[str, Any]:
        """The rule's columns as they were entered."""
        return {column: self.cleaned_data.get(column) for column in RULE_COLUMNS}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors and not cleaned.get("DELETE"):
            try:
                parse_rule(self.values())
            except InvalidField as refused:
                self.add_error(refused.field if refused.field in self.fields else None, refused.message)
        return cleaned


class CalendarRuleFormSet(BaseInlineFormSet):
    """All rules of a calendar."""

    def values(self) -> list[dict[str, Any]]:
        """The rules that are to stay, in order."""
        kept = [form for form in self.forms if form not in self.deleted_forms]
        return [form.values() for form in kept if form.has_changed() or form.instance.pk is not None]

    def clean(self) -> None:
        super().clean()
        if not any(self.errors):
            try:
                checked_calendar({"rules": self.values()})
            except InvalidField as refused:
                raise ValidationError(refused.message) from refused


class CalendarForm(forms.ModelForm):
    class Meta:
        model = Calendar
        fields = ("name", "timezone", "description")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for name in self.fields:
            if name in cleaned:
                try:
                    checked_calendar({name: cleaned[name]})
                except InvalidField as refused:
                    self.add_error(name, refused.message)
        # The tenant is not in the form, so that Django would not ask whether the name is taken in it.
        same = Calendar.objects.filter(tenant=self.instance.tenant, name=cleaned.get("name"))
        if same.exclude(pk=self.instance.pk).exists():
            self.add_error("name", "There is a calendar of that name already.")
        return cleaned


class RuleInline(admin.StackedInline):
    model = CalendarRule
    form = CalendarRuleForm
    formset = CalendarRuleFormSet
    extra = 0


class CalendarAdmin(BoundedSearch, admin.ModelAdmin):
    """Calendars with their rules. `save_values` and `delete_one` are the services that a save goes through."""

    form = CalendarForm
    inlines = (RuleInline,)
    list_display = ("name", "tenant", "timezone", "description")
    list_filter = ("tenant",)
    search_fields = ("name", "description")
    ordering = ("tenant", "name")

    def save_values(
        self, values: dict[str, Any], now: datetime, *, actor: Actor, calendar: Calendar | None
    ) -> SavedCalendar:
        return save_calendar(values, now, actor=actor, calendar=calendar)

    def delete_one(self, calendar: Calendar, now: datetime, *, actor: Actor) -> None:
        delete_calendar(calendar, now, actor=actor)

    def save_model(self, request: HttpRequest, obj: Calendar, form: CalendarForm, change: bool) -> None:
        """Nothing yet: the calendar and its rules are one save (`save_related`)."""

    def save_related(self, request: HttpRequest, form: CalendarForm, formsets: list[Any], change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in form.Meta.fields}
        for formset in formsets:
            values["rules"] = formset.values()
            # What Django writes into its own history of the object; ours is the audit.
            formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        before = form.instance if change else None
        saved = self.save_values(values, DatabaseClock().now(), actor=_actor(request), calendar=before)
        form.instance.pk = saved.calendar.pk

    def delete_model(self, request: HttpRequest, obj: Calendar) -> None:
        self.delete_one(obj, DatabaseClock().now(), actor=_actor(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Calendar]) -> None:
        now = DatabaseClock().now()
        for calendar in queryset:
            self.delete_one(calendar, now, actor=_actor(request))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, set[str], Any]:
        """A calendar's rules go with it, though nobody may delete one by itself."""
        found, counts, not_allowed, protected = super().get_deleted_objects(objs, request)
        return found, counts, not_allowed - {CalendarRule._meta.verbose_name}, protected

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return self._or_refused(request, super().changeform_view, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return self._or_refused(request, super().delete_view, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return self._or_refused(request, super().changelist_view, *args, **kwargs)

    def _or_refused(
        self, request: HttpRequest, view: Callable[..., HttpResponseBase], *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """What a service refuses (somebody was faster) is a message and not a fault; nothing of it was saved."""
        try:
            with write_transaction() if request.method == "POST" else nullcontext():
                return view(request, *args, **kwargs)
        except CroniqError as refused:
            self.message_user(request, refused.message, messages.ERROR)
            return HttpResponseRedirect(reverse("admin:calendars_calendar_changelist"))


@admin.register(CalendarRule)
class CalendarRuleAdmin(admin.ModelAdmin):
    """All rules of all calendars, to look at; they are edited with their calendar."""

    list_display = ("calendar", "position", "effect", "name")
    list_filter = ("effect",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def _actor(request: HttpRequest) -> Actor:
    return Actor("user", request.user.get_username())
