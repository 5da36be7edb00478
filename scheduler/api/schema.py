"""The shapes of answers and bodies, for the OpenAPI document. What is answered is built in `scheduler.api.wire`; a test
holds the two together. What a body may say is decided by the services."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduler.api.openapi import HasFields
from scheduler.models import Job, Trigger
from scheduler.queries.bulk import MOST
from scheduler.queries.runs import STATES


def text(**options: Any) -> serializers.CharField:
    return serializers.CharField(**options)


def optional_text(**options: Any) -> serializers.CharField:
    return serializers.CharField(allow_null=True, **options)


def number(**options: Any) -> serializers.IntegerField:
    return serializers.IntegerField(**options)


def at(**options: Any) -> serializers.DateTimeField:
    return serializers.DateTimeField(**options)


def period(**options: Any) -> serializers.CharField:
    """A duration: `<number><s|m|h|d>`."""
    return serializers.CharField(help_text="A number and one of s, m, h, d, such as 90s or 1.5h.", **options)


def texts(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), **options)


def anything(**options: Any) -> serializers.JSONField:
    return serializers.JSONField(**options)


class RetryRule(serializers.Serializer):
    strategy = serializers.ChoiceField(Job.Strategy.values, required=False)
    base = period(required=False)
    step = period(required=False)
    cap = period(required=False)
    jitter = serializers.FloatField(min_value=0, max_value=1, required=False)


class JobAnswer(serializers.Serializer):
    job_key = text()
    tenant = text()
    description = text()
    metadata = anything()
    action = anything()  # null too: with allow_null it would be two schemas, both of which null fits
    tags = texts()
    managed_by = text()
    timeout = period()
    lease = period()
    max_retries = number()
    max_losses = number()
    retry = RetryRule()
    require = texts()
    prefer = texts()
    pin = optional_text()
    priority = number()
    max_concurrent = number(allow_null=True)
    concurrency_group = optional_text()
    overlap = serializers.ChoiceField(Job.Overlap.values)
    coalesce = serializers.BooleanField()
    max_queue_depth = number()
    queue_ttl = period(allow_null=True)
    catch_up = serializers.ChoiceField(Job.CatchUp.values)
    misfire_grace = period(allow_null=True)
    max_catch_up = number()
    dead_letter_enabled = serializers.BooleanField()
    dead_letter_retention = period()
    dead_letter_operator_hint = text()
    dead_letter_replay_max_age = period(allow_null=True)
    is_active = serializers.BooleanField()
    paused_at = at(allow_null=True, help_text="Since when it is paused; null: it is not.")
    paused_until = at(allow_null=True, help_text="When the pause ends by itself; null: when somebody resumes it.")
    paused_reason = text()
    created_at = at()
    updated_at = at()


class SavedJobAnswer(JobAnswer):
    warnings = texts(help_text="What is allowed and may not be meant.")


class JobBody(serializers.Serializer):
    """A job to create or update. What is missing stays (or has its default); null is the default again."""

    job_key = text(help_text="Two or three parts joined by a colon.", required=False)
    tenant = optional_text(required=False)
    description = optional_text(required=False)
    metadata = anything(required=False)
    action = anything(required=False, help_text="What a reference runner executes; needs the scope jobs:exec.")
    tags = texts(required=False)
    timeout = period(required=False)
    lease = period(required=False)
    max_retries = number(required=False)
    max_losses = number(required=False)
    retry = RetryRule(required=False)
    require = texts(required=False)
    prefer = texts(required=False)
    pin = optional_text(required=False)
    priority = number(required=False)
    max_concurrent = number(required=False, allow_null=True)
    concurrency_group = optional_text(required=False)
    overlap = serializers.ChoiceField(Job.Overlap.values, required=False)
    coalesce = serializers.BooleanField(required=False)
    max_queue_depth = number(required=False)
    queue_ttl = period(required=False, allow_null=True)
    catch_up = serializers.ChoiceField(
        Job.CatchUp.values, required=False, help_text="Of the fires that a downtime missed: which run."
    )
    misfire_grace = period(required=False, allow_null=True)
    max_catch_up = number(required=False, help_text="The most missed fires that catch_up all runs.")
    dead_letter_enabled = serializers.BooleanField(required=False)
    dead_letter_retention = period(required=False)
    dead_letter_operator_hint = optional_text(required=False)
    dead_letter_replay_max_age = period(required=False, allow_null=True)
    is_active = serializers.BooleanField(required=False)


class JobStateAnswer(serializers.Serializer):
    job_key = text()
    status = serializers.ChoiceField(["active", "paused", "inactive"])
    paused_until = at(allow_null=True)
    paused_reason = text()
    next_fire_at = at(allow_null=True)
    last_fired_at = at(allow_null=True)
    fire_count = number()
    overdue = serializers.BooleanField()
    config_error = optional_text()


class Window(serializers.Serializer):
    start = text()
    end = text()


class ScheduleAnswer(serializers.Serializer):
    trigger_id = serializers.UUIDField()
    job_key = text()
    cron_expression = optional_text()
    every = period(allow_null=True)
    anchor = at(allow_null=True)
    run_at = at(allow_null=True)
    timezone = optional_text()
    calendar = optional_text()
    on_blocked = serializers.ChoiceField(Trigger.OnBlocked.values)
    window = Window(allow_null=True)
    not_before = at(allow_null=True)
    not_after = at(allow_null=True)
    enabled = serializers.BooleanField()
    managed_by = text()
    config_error = optional_text()
    created_at = at()
    updated_at = at()


class ScheduleBody(serializers.Serializer):
    """A schedule of a job: one of cron_expression, every and run_at."""

    job_key = text(required=False)
    cron_expression = text(required=False)
    every = period(required=False)
    anchor = at(required=False, help_text="Of every: the instants are anchor + k * every; the creation by default.")
    run_at = at(required=False)
    timezone = optional_text(required=False)
    calendar = optional_text(required=False)
    on_blocked = serializers.ChoiceField(Trigger.OnBlocked.values, required=False)
    window = Window(required=False, allow_null=True)
    not_before = at(required=False, allow_null=True, help_text="No fire is before it.")
    not_after = at(required=False, allow_null=True, help_text="No fire is after it.")
    enabled = serializers.BooleanField(required=False)


class GroupAnswer(serializers.Serializer):
    name = text()
    tenant = text()
    max_concurrent = number(help_text="How many runs of the group's jobs may run at once.")


class GroupBody(serializers.Serializer):
    max_concurrent = number(min_value=1, max_value=10_000)


class ExecutionAnswer(serializers.Serializer):
    id = serializers.UUIDField()
    job_key = text()
    state = serializers.ChoiceField(STATES)
    attempt = number(help_text="1-based; 0 was never claimed.")
    scheduled_for = at()
    fire_at = at(allow_null=True, help_text="When this attempt fell due; null for a finished run that was retried.")
    runner_id = optional_text()
    claimed_at = at(allow_null=True)
    completed_at = at(allow_null=True)
    duration_ms = number(allow_null=True)
    error = optional_text(help_text="Cut at 4,000 characters in lists.")
    created_at = at()


class AttemptAnswer(serializers.Serializer):
    attempt = number()
    outcome = serializers.ChoiceField(["running", "completed", "failed", "timed_out", "lost", "cancelled"])
    cause = optional_text()
    runner_id = optional_text()
    claimed_at = at(allow_null=True)
    ended_at = at(allow_null=True)
    duration_ms = number(allow_null=True)
    error = optional_text()


class ExecutionDetailAnswer(ExecutionAnswer):
    kind = serializers.ChoiceField(["scheduled", "triggered", "replay"])
    reason = optional_text()
    replay_of = serializers.UUIDField(allow_null=True, help_text="Of a replay: the execution that died.")
    occurrence_at = at()
    metadata = anything()
    attempts = AttemptAnswer(many=True)


class LogAnswer(HasFields):
    id = number()
    execution_id = serializers.UUIDField()
    timestamp = at()
    level = text()
    message = text()
    fields_ = anything()
    attempt = number()


class CancelAnswer(serializers.Serializer):
    execution_id = serializers.UUIDField()
    cancelled = serializers.BooleanField()
    delivered_via_runner = serializers.BooleanField()


class RunnerAnswer(serializers.Serializer):
    runner_id = text()
    status = serializers.ChoiceField(["online", "stale", "dead"])
    capabilities = texts()
    tags = texts()
    max_inflight = number()
    inflight = number()
    last_poll_at = at()
    takeovers = number()
    flapping = serializers.BooleanField()
    drained_at = at(
        allow_null=True, help_text="Since when it finishes what it holds and takes no more; null: it works."
    )
    drain_reason = text()


class DrainBody(serializers.Serializer):
    reason = text(required=False, max_length=255)


class DrainAnswer(serializers.Serializer):
    runner_id = text()
    drained_at = at(allow_null=True)
    drain_reason = text()


class LetterAnswer(serializers.Serializer):
    id = serializers.UUIDField()
    execution_id = serializers.UUIDField()
    job_key = text()
    error = optional_text()
    attempt = number()
    dead_reason = text()
    scheduled_for = at()
    fire_at = at()
    metadata = anything()
    created_at = at()
    expires_at = at(allow_null=True)
    replayed_as = serializers.UUIDField(allow_null=True, help_text="The execution that it was replayed as.")


class ReplayBody(serializers.Serializer):
    force = serializers.BooleanField(required=False, help_text="Also past the job's dead_letter_replay_max_age.")


class ReplayAnswer(serializers.Serializer):
    execution_id = serializers.UUIDField()
    attempt = number()
    scheduled_for = at()


class BulkDeleteBody(HasFields):
    """Which letters: their ids, or all; of one job where job_key is given."""

    ids = serializers.ListField(child=serializers.UUIDField(), required=False)
    all_ = serializers.BooleanField(required=False)
    job_key = text(required=False)
    dry_run = serializers.BooleanField(required=False, help_text="Only say how many and which.")
    expected = number(required=False, min_value=0, max_value=MOST, help_text="Another number by now is 409.")


class BulkDeleteAnswer(serializers.Serializer):
    """With dry_run or expected there is also what the other bulk operations answer."""

    deleted = number()
    dry_run = serializers.BooleanField(required=False)
    matched = number(required=False)
    has_more = serializers.BooleanField(required=False)
    changed = number(required=False)
    ids = texts(required=False)
    refused = serializers.ListField(child=serializers.DictField(), required=False)


class RegisterBody(serializers.Serializer):
    job_key = text()
    schedule = text(help_text="An interval such as 5m or 300 (seconds), or a cron expression.")
    timezone = text(required=False)
    timeout = period(required=False)
    runner_id = text(required=False)
    capabilities = texts(required=False)
    description = text(required=False)
    max_retries = number(required=False)
    calendar = text(required=False)


class RegisterAnswer(serializers.Serializer):
    job_key = text()
    trigger_id = serializers.UUIDField(allow_null=True)
    status = serializers.ChoiceField(["registered", "skipped_dsl_precedence"])


class TriggerBody(serializers.Serializer):
    job_key = text()
    metadata = anything(required=False)
    require = texts(required=False)
    prefer = texts(required=False)
    timeout = period(required=False)
    idempotency_key = text(required=False, max_length=200)
    run_at = at(required=False, allow_null=True, help_text="When it falls due; without, and in the past: now.")


class TriggerAnswer(serializers.Serializer):
    execution_id = serializers.UUIDField()
    queued = number()
    deduplicated = serializers.BooleanField()
    coalesced = serializers.BooleanField()


class HealthAnswer(serializers.Serializer):
    status = text()
    runners_online = number()
    runners_stale = number()
    runners_dead = number()
    queued = number()
    scheduler_last_tick_at = at(allow_null=True)


class CheckAnswer(serializers.Serializer):
    """``ok`` is null where the database does not answer."""

    ok = serializers.BooleanField(allow_null=True)


class MigrationsAnswer(CheckAnswer):
    pending = number(allow_null=True)


class TickAnswer(CheckAnswer):
    age_seconds = serializers.FloatField(allow_null=True)


class ChecksAnswer(serializers.Serializer):
    database = CheckAnswer()
    migrations = MigrationsAnswer()
    materializer = TickAnswer()
    reaper = TickAnswer()


class ReadyAnswer(serializers.Serializer):
    status = serializers.ChoiceField(["ready", "degraded", "not_ready"])
    checks = ChecksAnswer()


class VersionAnswer(serializers.Serializer):
    version = text()
    git_sha = optional_text()
    build_time = optional_text()
    env = text()
