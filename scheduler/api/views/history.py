"""/v1/jobs/{key}/history and revert, and the same of calendars: what was edited, by whom, and back again."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput
from runners.api.views import ApiView
from runners.domain.differences import history_of
from runners.models import AuditEvent
from runners.queries.audit import history
from scheduler.api import calendars_schema, insights_schema, openapi, schema, wire
from scheduler.api.paging import list_answer
from scheduler.api.views.audit import event_body, pk_part
from scheduler.api.views.calendars import calendar_in_path
from scheduler.api.views.jobs import actor_of, job_in_path
from scheduler.domain.inputs import uuids_of
from scheduler.domain.job_fields import refuse_unknown
from scheduler.services.revert import is_revertible, revert


class EditAnswer(insights_schema.AuditEventAnswer):
    """An edit. Secrets are seals in it: ``***`` and what is the same for the same secret."""

    revertible = serializers.BooleanField()


class RevertBody(serializers.Serializer):
    event_id = serializers.UUIDField(help_text="Of an edit in the history.")


def _edit_body(event: AuditEvent) -> wire.Body:
    return {**event_body(event), "revertible": is_revertible(event)}


def _history_answer(request: Request, of: str) -> Response:
    return list_answer(
        request,
        lambda limit, before: history(of, limit, before[0] if before else None),
        body=_edit_body,
        key=lambda event: (event.pk,),
        key_parts=(pk_part,),
    )


def _revert(view: ApiView, of: str) -> None:
    refuse_unknown(view.body, {"event_id"})
    if not isinstance(view.body.get("event_id"), str):
        raise InvalidInput.of("event_id", "event_id is the id of an edit in the history.")
    (event_id,) = uuids_of("event_id", [view.body["event_id"]], most=1)
    revert(event_id, of, view.now, actor_of(view), view.principal)


class JobHistory(ApiView):
    required_scope = {"GET": "audit:read"}

    @openapi.documented(
        "getJobHistory",
        "The edits of a job and its schedules, newest first.",
        {200: openapi.listed(EditAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400, 404),
    )
    def get(self, request: Request, job_key: str) -> Response:
        return _history_answer(request, history_of("job", job_in_path(self, job_key).pk))


class RevertJob(ApiView):
    required_scope = {"POST": "jobs:write"}

    @openapi.documented(
        "revertJobEdit",
        "Take back an edit of a job, or of one of its schedules (which needs schedules:write too): what it changed is "
        "as before, if nobody has changed it again.",
        {200: schema.JobAnswer},
        body=RevertBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request, job_key: str) -> Response:
        _revert(self, history_of("job", job_in_path(self, job_key).pk))
        return Response(wire.job_body(job_in_path(self, job_key)))


class CalendarHistory(ApiView):
    required_scope = {"GET": "audit:read"}

    @openapi.documented(
        "getCalendarHistory",
        "The edits of a calendar and its rules, newest first.",
        {200: openapi.listed(EditAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400, 404),
    )
    def get(self, request: Request, calendar_id: str) -> Response:
        return _history_answer(request, history_of("calendar", calendar_in_path(self, calendar_id).pk))


class RevertCalendar(ApiView):
    required_scope = {"POST": "calendars:write"}

    @openapi.documented(
        "revertCalendarEdit",
        "Take back an edit of a calendar: what it changed is as before, if nobody has changed it again. Every job that "
        "uses it is planned again.",
        {200: calendars_schema.CalendarAnswer},
        body=RevertBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request, calendar_id: str) -> Response:
        _revert(self, history_of("calendar", calendar_in_path(self, calendar_id).pk))
        return Response(wire.calendar_body(calendar_in_path(self, calendar_id)))
