"""The shapes of the work protocol, for the OpenAPI document."""

from __future__ import annotations

from rest_framework import serializers

from scheduler.api.openapi import HasFields
from scheduler.api.schema import anything, at, number, period, text, texts


class PollBody(serializers.Serializer):
    runner_id = text(max_length=255)
    instance_id = text(required=False, help_text="One process of the runner; another one takes the runner over.")
    capabilities = texts(required=False)
    max_inflight = number(required=False, help_text="1 by default; 0 asks for no work.")
    inflight = texts(required=False, help_text="The execution_ids that the runner has: their leases are renewed.")
    tags = texts(required=False)


class Assignment(serializers.Serializer):
    execution_id = serializers.UUIDField()
    job_key = text()
    fire_at = at()
    scheduled_for = at()
    attempt = number()
    metadata = anything()
    timeout = period()
    lease = serializers.FloatField(help_text="Seconds; renew well before.")


class PollAnswer(serializers.Serializer):
    work = Assignment(many=True)
    cancel = texts(help_text="Listed execution_ids that the runner does not hold (any more).")


class AckBody(serializers.Serializer):
    runner_id = text()
    execution_id = serializers.UUIDField()
    status = serializers.ChoiceField(["success", "failure"])
    attempt = number()
    error = text(required=False, allow_null=True, help_text="Cut at 64 KiB.")
    duration_ms = number(required=False, allow_null=True)


class AckTaken(serializers.Serializer):
    status = text()


class RenewBody(serializers.Serializer):
    runner_id = text()
    execution_id = serializers.UUIDField()
    attempt = number(required=False)


class RenewAnswer(serializers.Serializer):
    lease_expires_at = at()


class EventBody(HasFields):
    level = text(required=False)
    message = text()
    fields_ = anything(required=False)


class EventsAnswer(serializers.Serializer):
    accepted = number()
