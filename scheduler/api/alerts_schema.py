"""The shapes of what alerts are told and answer, for the OpenAPI document, and their bodies."""

from __future__ import annotations

from rest_framework import serializers

from scheduler.api import wire
from scheduler.api.schema import anything, at, number, optional_text, period, text
from scheduler.domain.alerts import shown_target
from scheduler.models import Alert, AlertChannel, AlertExemption, AlertRule
from scheduler.queries.alerts import channel_names


class AlertChannelBody(serializers.Serializer):
    name = text(max_length=255)
    kind = serializers.ChoiceField(AlertChannel.Kind.values)
    target = text(help_text="The URL of a webhook or of apprise, or an address.")


class AlertChannelAnswer(serializers.Serializer):
    id = number()
    name = text()
    tenant = text()
    kind = text()
    target = text(help_text="Of a URL no more than its host, or its scheme: the rest may be a key.")
    created_at = at()
    failures = number(help_text="Attempts that it did not answer, one after the other; 0: it answers.")
    closed_until = at(allow_null=True, help_text="While it does not answer: it is not tried before.")
    error = text(help_text="Of the last attempt that it did not answer.")


class MadeAlertChannelAnswer(AlertChannelAnswer):
    secret = text(help_text="Signs what a webhook gets; told this once. Empty for a mail.")


class AlertRuleBody(serializers.Serializer):
    name = text(max_length=255)
    kind = serializers.ChoiceField(AlertRule.Kind.values)
    channels = serializers.ListField(child=text(max_length=255), help_text="Names of channels, 1 to 20.")
    job_glob = text(required=False, max_length=255, help_text="Job keys, such as billing:*; all, if not said.")
    tags = serializers.ListField(child=text(max_length=255), required=False, help_text="Jobs with any of them.")
    throttle = period(required=False)
    grace = period(required=False)
    expected_within = period(required=False)
    threshold = number(required=False, min_value=1, max_value=1_000_000)
    recovery = serializers.BooleanField(required=False)
    calendar = text(required=False, max_length=255, help_text="Quiet on the days that this calendar closes.")


class AlertRuleAnswer(serializers.Serializer):
    id = number()
    name = text()
    tenant = text()
    kind = text()
    channels = serializers.ListField(child=text())
    job_glob = text()
    tags = serializers.ListField(child=text())
    throttle = text(help_text="At most one alert of a job in so long; 0s: every one.")
    grace = text(help_text="How long what is wrong may last before it is told.")
    expected_within = optional_text(help_text="Of overran: how long a run may take.")
    threshold = number(help_text="Of dead_letters: told from so many on.")
    recovery = serializers.BooleanField(help_text="Also tell when it is over.")
    calendar = optional_text()
    created_at = at()


class AlertExemptionBody(serializers.Serializer):
    effect = serializers.ChoiceField(AlertExemption.Effect.values)
    duration = period()
    note = text(max_length=500, help_text="Why.")
    rule = text(required=False, max_length=255, help_text="The name of a rule; every rule, if not said.")
    job_glob = text(required=False, max_length=255)
    throttle = period(required=False)
    grace = period(required=False)


class AlertExemptionAnswer(serializers.Serializer):
    id = number()
    tenant = text()
    effect = text()
    rule = optional_text()
    job_glob = text()
    throttle = optional_text()
    grace = optional_text()
    note = text()
    created_by = text()
    created_at = at()
    until = at()


class TestedAnswer(serializers.Serializer):
    alert_id = serializers.UUIDField()


class AlertAnswer(serializers.Serializer):
    id = serializers.UUIDField(help_text="X-Croniq-Delivery of a webhook; the same at every attempt.")
    tenant = text()
    event = serializers.ChoiceField(Alert.Event.values)
    rule = optional_text()
    channel = text()
    job_key = optional_text()
    detail = anything()
    state = serializers.ChoiceField(Alert.State.values)
    attempt = number()
    error = text(help_text="Of the last attempt.")
    created_at = at()
    next_at = at(allow_null=True)
    finished_at = at(allow_null=True)


def channel_body(channel: AlertChannel) -> wire.Body:
    return {
        "id": channel.pk,
        "name": channel.name,
        "tenant": channel.tenant,
        "kind": channel.kind,
        "target": shown_target(channel.target),
        "created_at": wire.instant(channel.created_at),
        "failures": channel.failures,
        "closed_until": wire.instant(channel.closed_until),
        "error": channel.error,
    }


def rule_body(rule: AlertRule) -> wire.Body:
    return {
        "id": rule.pk,
        "name": rule.name,
        "tenant": rule.tenant,
        "kind": rule.kind,
        "channels": channel_names(rule),
        "job_glob": rule.job_glob,
        "tags": rule.tags,
        "throttle": wire.duration(rule.throttle_seconds),
        "grace": wire.duration(rule.grace_seconds),
        "expected_within": _period(rule.expected_within_seconds),
        "threshold": rule.threshold,
        "recovery": rule.recovery,
        "calendar": rule.calendar.name if rule.calendar is not None else None,
        "created_at": wire.instant(rule.created_at),
    }


def exemption_body(row: AlertExemption) -> wire.Body:
    return {
        "id": row.pk,
        "tenant": row.tenant,
        "effect": row.effect,
        "rule": row.rule.name if row.rule is not None else None,
        "job_glob": row.job_glob,
        "throttle": _period(row.throttle_seconds),
        "grace": _period(row.grace_seconds),
        "note": row.note,
        "created_by": row.created_by,
        "created_at": wire.instant(row.created_at),
        "until": wire.instant(row.until),
    }


def _period(seconds: float | None) -> str | None:
    return None if seconds is None else wire.duration(seconds)


def alert_body(alert: Alert) -> wire.Body:
    return {
        "id": str(alert.pk),
        "tenant": alert.tenant,
        "event": alert.event,
        "rule": alert.rule.name if alert.rule is not None else None,
        "channel": alert.channel.name,
        "job_key": alert.job_key or None,
        "detail": alert.detail,
        "state": alert.state,
        "attempt": alert.attempt,
        "error": alert.error,
        "created_at": wire.instant(alert.created_at),
        "next_at": wire.instant(alert.next_at),
        "finished_at": wire.instant(alert.finished_at),
    }
