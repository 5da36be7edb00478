"""The shapes of what the statistics, the explanation of a run and the audit answer, for the OpenAPI document."""

from __future__ import annotations

from rest_framework import serializers

from scheduler.api.schema import anything, at, number, optional_text, text, texts
from scheduler.queries.runs import STATES
from scheduler.queries.statistics import WINDOWS


class JobStatsAnswer(serializers.Serializer):
    job_key = text()
    days = number()
    total = number()
    completed = number()
    failed = number()
    dead = number()
    cancelled = number()
    skipped = number()
    success_rate = serializers.FloatField(allow_null=True, min_value=0, max_value=1)
    p50_ms = number(allow_null=True)
    p95_ms = number(allow_null=True)
    p99_ms = number(allow_null=True)


class ThroughputBucket(serializers.Serializer):
    start_at = at()
    completed = number()
    failed = number()
    dead = number()
    cancelled = number()
    skipped = number()


class ThroughputAnswer(serializers.Serializer):
    window = serializers.ChoiceField(list(WINDOWS))
    bucket_minutes = number()
    buckets = ThroughputBucket(many=True)


class FailuresAnswer(serializers.Serializer):
    days = number()
    timezone = text()
    rows = serializers.ListField(
        child=serializers.ListField(child=number(), min_length=24, max_length=24), min_length=7, max_length=7
    )


class TagAnswer(serializers.Serializer):
    tag = text()
    jobs = number()


class ExplainReason(serializers.Serializer):
    code = text()
    message = text()
    until = at(allow_null=True)
    execution_ids = serializers.ListField(child=serializers.UUIDField())
    capabilities = texts()


class ExplainAnswer(serializers.Serializer):
    execution_id = serializers.UUIDField()
    state = serializers.ChoiceField(list(STATES))
    ahead = number(allow_null=True)
    reasons = ExplainReason(many=True)


class AuditEventAnswer(serializers.Serializer):
    event_id = serializers.UUIDField()
    actor_type = text()
    actor_id = text()
    action = text()
    target_type = text()
    target_id = text()
    tenant = text()
    diff = anything(help_text="What changed, as field: [before, after]; whatever is no such pair explains it.")
    request_id = optional_text(help_text="X-Request-ID of the request that did it, if one did.")
    created_at = at()


class ProcessAnswer(serializers.Serializer):
    kind = text()
    last_beat_at = at(allow_null=True)
    last_pass_at = at(allow_null=True, help_text="Of workers: when one of them last finished a pass.")


class DiagnosticsAnswer(serializers.Serializer):
    ok = serializers.BooleanField(help_text="There are no problems.")
    versions = serializers.DictField(child=text())
    pending_migrations = texts()
    processes = ProcessAnswer(many=True)
    maintenance = serializers.BooleanField(help_text="All dispatch is held.")
    dead_letters = number()
    retention = texts(help_text="What is kept, and how long.")
    advice = texts(help_text="What would do the database good.")
    problems = texts()
