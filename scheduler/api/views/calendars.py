"""/v1/calendars: days and hours on which schedules may fire."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from calendars.models import Calendar
from calendars.queries.lists import calendar_detail, calendar_list
from croniq_site.kernel.errors import NotFound
from runners.api.views import ApiView
from scheduler.api import calendars_schema, openapi, wire
from scheduler.api.paging import list_answer
from scheduler.api.views.audit import pk_part
from scheduler.api.views.jobs import actor_of, without_unchanged
from scheduler.domain.inputs import slug_of
from scheduler.services.calendars import edit_calendar, remove_calendar
from scheduler.services.jobs import DEFAULT_TENANT

READ_ONLY = ("id", "tenant", "managed_by", "created_at", "updated_at")


def calendar_in_path(view: ApiView, text: str) -> Calendar:
    is_id = text.isascii() and text.isdigit() and len(text) <= 18
    calendar = calendar_detail(int(text), view.principal.tenant) if is_id else None
    if calendar is None:
        raise NotFound("There is no such calendar.")
    return calendar


class Calendars(ApiView):
    required_scope = {"GET": "calendars:read", "POST": "calendars:write"}

    @openapi.documented(
        "listCalendars",
        "The calendars with their rules, by name.",
        {200: openapi.listed(calendars_schema.CalendarAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        return list_answer(
            request,
            lambda limit, after: calendar_list(tenant=self.principal.tenant, limit=limit, after=after),
            body=wire.calendar_body,
            key=lambda calendar: (calendar.name, calendar.pk),
            key_parts=(str, pk_part),
        )

    @openapi.documented(
        "createCalendar",
        "Create a calendar.",
        {201: calendars_schema.CalendarAnswer},
        body=calendars_schema.CalendarBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        values = dict(self.body)
        tenant = self.principal.tenant or DEFAULT_TENANT
        if self.principal.tenant is None and "tenant" in values:
            tenant = slug_of("tenant", values.pop("tenant"))
        saved = edit_calendar(values, self.now, actor=actor_of(self), tenant=tenant)
        return Response(wire.calendar_body(calendar_detail(saved.calendar.pk)), status=201)


class OneCalendar(ApiView):
    required_scope = {"GET": "calendars:read", "PUT": "calendars:write", "DELETE": "calendars:write"}

    @openapi.documented("getCalendar", "One calendar.", {200: calendars_schema.CalendarAnswer}, refuses=(404,))
    def get(self, request: Request, calendar_id: str) -> Response:
        return Response(wire.calendar_body(calendar_in_path(self, calendar_id)))

    @openapi.documented(
        "updateCalendar",
        "Change a calendar: what is missing stays. Every job that uses it is planned again.",
        {200: calendars_schema.CalendarAnswer},
        body=calendars_schema.CalendarBody,
        refuses=(400, 404, 409, 413),
    )
    def put(self, request: Request, calendar_id: str) -> Response:
        calendar = calendar_in_path(self, calendar_id)
        values = without_unchanged(self.body, wire.calendar_body(calendar), READ_ONLY)
        edit_calendar(values, self.now, actor=actor_of(self), tenant=calendar.tenant, calendar=calendar)
        return Response(wire.calendar_body(calendar_in_path(self, calendar_id)))

    @openapi.documented(
        "deleteCalendar",
        "Delete a calendar that no schedule uses.",
        {204: None},
        refuses=(404, 409),
    )
    def delete(self, request: Request, calendar_id: str) -> Response:
        remove_calendar(calendar_in_path(self, calendar_id), self.now, actor=actor_of(self))
        return Response(status=204)
