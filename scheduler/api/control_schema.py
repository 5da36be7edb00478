"""The shapes of what holds back, leaves out and makes up for; see `scheduler.api.schema`."""

from __future__ import annotations

from rest_framework import serializers

from scheduler.api.openapi import HasFields
from scheduler.api.schema import at, number, optional_text, text


class PauseBody(serializers.Serializer):
    """Of a job that is paused: what is missing stays, null takes it away."""

    reason = optional_text(required=False, max_length=255)
    until = at(required=False, allow_null=True, help_text="When the pause ends by itself.")


class PauseAnswer(serializers.Serializer):
    job_key = text()
    paused_at = at(allow_null=True)
    paused_until = at(allow_null=True)
    paused_reason = text()


class SkippedNextAnswer(serializers.Serializer):
    execution_id = serializers.UUIDField()
    scheduled_for = at()


class BackfillBody(HasFields):
    from_ = at(help_text="The first instant that counts.")
    until = at(help_text="The last instant that counts; not in the future.")
    dry_run = serializers.BooleanField(required=False, help_text="Only say what would be done.")


class BackfillAnswer(serializers.Serializer):
    dry_run = serializers.BooleanField()
    created = number(help_text="Fires that had no run.")
    revived = number(help_text="Fires whose run was skipped.")
    already_there = number()
    instants = serializers.ListField(child=serializers.DateTimeField(), help_text="Of what is created and revived.")
    message = optional_text(help_text="Why nothing, or not all, was made.")


class MaintenanceBody(serializers.Serializer):
    reason = text(required=False, max_length=255)
    until = at(required=False, allow_null=True, help_text="When it ends by itself.")


class MaintenanceAnswer(serializers.Serializer):
    on = serializers.BooleanField()
    began_at = at(allow_null=True)
    until = at(allow_null=True)
    reason = text()
