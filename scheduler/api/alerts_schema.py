"""The shapes of what alerts are told and answer, for the OpenAPI document, and their bodies."""

from __future__ import annotations

from rest_framework import serializers

from scheduler.api import wire
from scheduler.api.schema import anything, at, number, optional_text, period, text
from scheduler.domain.alerts import shown_target
from scheduler.models import Alert, AlertChannel, AlertRule


class AlertChannelBody(serializers.Serializer):
    name = text(max_length=255)
    kind = serializers.ChoiceField(AlertChannel.Kind.values)
    target = text(help_text="The URL of a webhook, or an address.")


class AlertChannelAnswer(serializers.Serializer):
    id = number()
    name = text()
    tenant = text()
    kind = text()
    target = text(help_text="Of a URL no more than its host: its path may be a key.")
    created_at = at()


class MadeAlertChannelAnswer(AlertChannelAnswer):
    secret = text(help_text="Signs what a webhook gets; told this once. Empty for a mail.")


class AlertRuleBody(serializers.Serializer):
    name = text(max_length=255)
    kind = serializers.ChoiceField(AlertRule.Kind.values)
    channel = text(max_length=255, help_text="The name of a channel.")
    job_glob = text(required=False, max_length=255, help_text="Job keys, such as billing:*; all, if not said.")
    throttle = period(required=False)
    grace = period(required=False)


class AlertRuleAnswer(serializers.Serializer):
    id = number()
    name = text()
    tenant = text()
    kind = text()
    channel = text()
    job_glob = text()
    throttle = text(help_text="At most one alert of a job in so long; 0s: every one.")
    grace = text(help_text="How long the scheduler may be silent.")
    created_at = at()


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
    }


def rule_body(rule: AlertRule) -> wire.Body:
    return {
        "id": rule.pk,
        "name": rule.name,
        "tenant": rule.tenant,
        "kind": rule.kind,
        "channel": rule.channel.name,
        "job_glob": rule.job_glob,
        "throttle": wire.duration(rule.throttle_seconds),
        "grace": wire.duration(rule.grace_seconds),
        "created_at": wire.instant(rule.created_at),
    }


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
