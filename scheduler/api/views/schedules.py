"""/v1/schedules: when to do it."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput, NotFound
from runners.api.parameters import name_in_path, text_of
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.api.paging import list_answer
from scheduler.api.views.jobs import actor_of, job_in_path, without_unchanged
from scheduler.models import Trigger
from scheduler.queries.jobs import schedule_detail, schedule_list
from scheduler.services import triggers as trigger_services

_READ_ONLY = ("trigger_id", "managed_by", "config_error", "created_at", "updated_at")


def trigger_in_path(view: ApiView, text: str) -> Trigger:
    try:
        trigger = schedule_detail(UUID(text), view.principal.tenant)
    except ValueError:
        trigger = None
    if trigger is None:
        raise NotFound("There is no such schedule.")
    return trigger


class Schedules(ApiView):
    required_scope = {"GET": "schedules:read", "POST": "schedules:write"}

    @openapi.documented(
        "listSchedules",
        "The schedules, by job.",
        {200: openapi.listed(schema.ScheduleAnswer)},
        parameters=[openapi.query("job_key"), *openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        job_key = text_of(request, "job_key")
        return list_answer(
            request,
            lambda limit, after: schedule_list(tenant=self.principal.tenant, job_key=job_key, limit=limit, after=after),
            body=wire.schedule_body,
            key=lambda trigger: (trigger.job.job_key, trigger.id),
            key_parts=(str, UUID),
        )

    @openapi.documented(
        "createSchedule",
        "Give a job one more schedule.",
        {201: schema.ScheduleAnswer},
        body=schema.ScheduleBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request) -> Response:
        fields = dict(self.body)
        job_key = fields.pop("job_key", None)
        if not isinstance(job_key, str) or not job_key:
            raise InvalidInput.of("job_key", "A schedule names its job in job_key.")
        job = job_in_path(self, name_in_path(job_key, "job"))
        trigger, _ = trigger_services.save_trigger(job, fields, self.now, actor=actor_of(self))
        return Response(wire.schedule_body(schedule_detail(trigger.id)), status=201)


class OneSchedule(ApiView):
    required_scope = {"GET": "schedules:read", "PUT": "schedules:write", "DELETE": "schedules:write"}

    @openapi.documented("getSchedule", "One schedule.", {200: schema.ScheduleAnswer}, refuses=(404,))
    def get(self, request: Request, trigger_id: str) -> Response:
        return Response(wire.schedule_body(trigger_in_path(self, trigger_id)))

    @openapi.documented(
        "updateSchedule",
        "Change a schedule: what is missing stays. What is planned and never claimed follows.",
        {200: schema.ScheduleAnswer},
        body=schema.ScheduleBody,
        refuses=(400, 404, 409, 413),
    )
    def put(self, request: Request, trigger_id: str) -> Response:
        trigger = trigger_in_path(self, trigger_id)
        fields = without_unchanged(self.body, wire.schedule_body(trigger), _READ_ONLY)
        if fields.pop("job_key", trigger.job.job_key) != trigger.job.job_key:
            raise InvalidInput.of("job_key", "A schedule stays with its job.")
        trigger_services.save_trigger(trigger.job, fields, self.now, actor=actor_of(self), trigger=trigger)
        return Response(wire.schedule_body(trigger_in_path(self, trigger_id)))

    @openapi.documented("deleteSchedule", "Delete a schedule and what it planned.", {204: None}, refuses=(404, 409))
    def delete(self, request: Request, trigger_id: str) -> Response:
        trigger = trigger_in_path(self, trigger_id)
        trigger_services.delete_trigger(trigger.pk, self.now, actor=actor_of(self), principal=self.principal)
        return Response(status=204)
