"""/v1/calendars/{id}/preview and /what-if: what a calendar does to days, and an edit to fires."""

from __future__ import annotations

from datetime import date, timedelta

from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from calendars.domain.preview import DayPreview
from calendars.domain.zones import load_zone
from calendars.queries.preview import MOST_DAYS, calendar_days
from calendars.queries.specs import calendar_spec
from croniq_site.kernel.errors import Conflict, InvalidInput
from runners.api.views import ApiView
from scheduler.api import calendars_schema, openapi, schema, wire
from scheduler.api.views.calendars import READ_ONLY, calendar_in_path
from scheduler.api.views.jobs import without_unchanged
from scheduler.queries.what_if import ChangedFires, what_if

_USUAL_DAYS = 31


class WindowAnswer(serializers.Serializer):
    start = schema.text(help_text="HH:MM of the calendar's zone.")
    end = schema.text(help_text="Exclusive; 24:00 is the end of the day.")


class DayAnswer(serializers.Serializer):
    """A day of the calendar's zone."""

    date = serializers.DateField()
    state = serializers.ChoiceField(["open", "closed", "partly"])
    windows = WindowAnswer(many=True)
    reason = schema.optional_text(help_text="The rule or the holiday that decides.")


class PreviewAnswer(serializers.Serializer):
    calendar_id = schema.number()
    timezone = schema.text()
    days = DayAnswer(many=True)


class ChangedFiresAnswer(serializers.Serializer):
    job_key = schema.text()
    trigger_id = serializers.UUIDField()
    before = serializers.ListField(child=schema.at())
    after = serializers.ListField(child=schema.at(), help_text="Empty: it would fire no more.")
    error = schema.optional_text(help_text="Why it does not fire as it is.")


class WhatIfAnswer(serializers.Serializer):
    changed = ChangedFiresAnswer(many=True)
    unchanged = schema.number()
    schedules_left_out = schema.number()


class CalendarPreview(ApiView):
    required_scope = {"GET": "calendars:read"}

    @openapi.documented(
        "previewCalendar",
        "Which days are open, and the rule or the holiday that decides.",
        {200: PreviewAnswer},
        parameters=[
            openapi.query("from", OpenApiTypes.DATE, says="The first day; today by default."),
            openapi.query("until", OpenApiTypes.DATE, says=f"The last day; at most {MOST_DAYS} days in all."),
        ],
        refuses=(400, 404, 409),
    )
    def get(self, request: Request, calendar_id: str) -> Response:
        calendar = calendar_in_path(self, calendar_id)
        try:
            calendar_spec(calendar)
        except InvalidInput as broken:
            raise Conflict(broken.message, code="calendar_broken") from None
        first = _day_of(request, "from") or self.now.astimezone(load_zone(calendar.timezone).info).date()
        last = _day_of(request, "until") or min(first, date.max - timedelta(days=_USUAL_DAYS)) + timedelta(
            days=_USUAL_DAYS - 1
        )
        days = calendar_days(calendar, first, last)
        return Response(
            {"calendar_id": calendar.pk, "timezone": calendar.timezone, "days": [_day(day) for day in days]}
        )


class CalendarWhatIf(ApiView):
    required_scope = {"POST": "calendars:write"}

    @openapi.documented(
        "whatIfCalendar",
        "Which jobs' next fires a change of the calendar would move, from what to what. Nothing is saved.",
        {200: WhatIfAnswer},
        body=calendars_schema.CalendarBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request, calendar_id: str) -> Response:
        calendar = calendar_in_path(self, calendar_id)
        values = without_unchanged(self.body, wire.calendar_body(calendar), READ_ONLY)
        found = what_if(calendar, values, self.now)
        return Response(
            {
                "changed": [_changed(item) for item in found.changed],
                "unchanged": found.unchanged,
                "schedules_left_out": found.left_out,
            }
        )


def _day_of(request: Request, name: str) -> date | None:
    text = request.GET.get(name, "")
    if not text:
        return None
    try:
        if len(text) != 10:
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput.of(name, f"{name} is a day such as 2026-12-24.") from None


def _day(day: DayPreview) -> wire.Body:
    return {
        "date": day.day.isoformat(),
        "state": day.state.value,
        "windows": [{"start": start, "end": end} for start, end in day.windows],
        "reason": day.reason or None,
    }


def _changed(item: ChangedFires) -> wire.Body:
    return {
        "job_key": item.job_key,
        "trigger_id": str(item.trigger_id),
        "before": [wire.instant(at) for at in item.before],
        "after": [wire.instant(at) for at in item.after],
        "error": item.error or None,
    }
