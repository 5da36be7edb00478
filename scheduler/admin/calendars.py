"""Calendars in the admin: a save plans the jobs that use the calendar again, and is shown before it is made."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from calendars.admin import CalendarAdmin, CalendarForm
from calendars.models import Calendar
from calendars.queries.lists import calendar_detail
from calendars.services import SavedCalendar
from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import InvalidInput
from runners.services.audit import Actor
from scheduler.dashboard.calendars import coming_year
from scheduler.models import Trigger
from scheduler.queries.calendar_days import users_of
from scheduler.queries.what_if import WhatIf, what_if
from scheduler.services.calendars import edit_calendar, remove_calendar

MOST_NAMED = 20
PREVIEW = "_preview"
"""The button that asks what a save would do."""


class PlanningCalendarForm(CalendarForm):
    def is_valid(self) -> bool:
        # To the admin a preview is a form that is not yet ready to be saved: it comes back as it was filled in.
        return super().is_valid() and PREVIEW not in self.data


@admin.register(Calendar)
class PlanningCalendarAdmin(CalendarAdmin):
    """Saves and deletes through the scheduler's services."""

    form = PlanningCalendarForm

    class Media:
        css = {"all": ["croniq-plan.css"]}

    def save_values(
        self, values: dict[str, Any], now: datetime, *, actor: Actor, calendar: Calendar | None
    ) -> SavedCalendar:
        return edit_calendar(values, now, actor=actor, calendar=calendar)

    def delete_one(self, calendar: Calendar, now: datetime, *, actor: Actor) -> None:
        remove_calendar(calendar, now, actor=actor)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, set[str], Any]:
        """What is used is protected, and its page names the jobs."""
        found, counts, not_allowed, protected = super().get_deleted_objects(objs, request)
        keys = users_of([calendar.pk for calendar in objs])
        if keys:
            more = [f"and {len(keys) - MOST_NAMED} more"] if len(keys) > MOST_NAMED else []
            protected = [*(f"Job {key}" for key in keys[:MOST_NAMED]), *more]
        return found, counts, not_allowed - {Trigger._meta.verbose_name}, protected

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """The form, and the twelve months from this one on; with `PREVIEW` also which jobs' next fires the values in it
        would change."""
        if request.method == "POST" and PREVIEW in request.POST:
            context["what_if"] = self._what_if(context)
        # As it is stored: not the form's instance, which has the values that are being edited.
        stored = None if context.get("original") is None else calendar_detail(context["original"].pk)
        if stored is not None:
            try:
                context["months"] = coming_year(stored, DatabaseClock().now())
            except InvalidInput as broken:
                context["broken"] = broken.message
        return super().render_change_form(request, context, *args, **kwargs)

    def _what_if(self, context: dict[str, Any]) -> WhatIf | None:
        form = context["adminform"].form
        formsets = [inline.formset for inline in context["inline_admin_formsets"]]
        if form.errors or form.instance.pk is None or not all(formset.is_valid() for formset in formsets):
            return None
        values = {name: form.cleaned_data[name] for name in form.Meta.fields}
        for formset in formsets:
            values["rules"] = formset.values()
        # Not the form's instance: that one has the new values already.
        stored = calendar_detail(form.instance.pk)
        return None if stored is None else what_if(stored, values, DatabaseClock().now())
